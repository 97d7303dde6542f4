// Rotations beyond the plain one, as Work.
#ifndef PHASOR_SERVER_ROTATE_WORK_H_
#define PHASOR_SERVER_ROTATE_WORK_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "kernels/encodings/spec.h"
#include "kernels/encodings/weight.h"
#include "kernels/program/rotate.h"
#include "server/positions.h"
#include "server/request.h"
#include "server/work.h"

namespace phasor::server {

// `sequence_length`: of the request, where xPos has no center of its own. Error: it is missing then.
absl::StatusOr<XposFactors> XposOf(const XposScale& xpos, std::optional<int64_t> sequence_length);

// OK when xPos's factors at all positions of the set fit in `dtype`. Error: at `field`; `what` overflows.
absl::Status CheckXposReach(const XposFactors& xpos, const PositionSet& positions, DType dtype, std::string_view field,
                            std::string_view what);

class RotateWork final : public Work {
 public:
  // ---- Filled in by the parser, constant afterwards.
  RotationProgram rotation;  // its tensors in the order of `inputs`
  PositionSet positions;

  // Seals the rotation and sets what is charged; last of all.
  void Seal();

  bool WorksOnDevice(size_t) const override { return rotation.rule.kind != RotationKind::kPolar; }

  absl::StatusOr<std::vector<ProgramStep>> Steps(std::span<const Resolved* const> plans,
                                                 const WorkMemory& memory) const override;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_ROTATE_WORK_H_
