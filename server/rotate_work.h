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
#include "kernels/program/rotation.h"
#include "server/positions.h"
#include "server/request.h"
#include "server/work.h"

namespace phasor::server {

// xPos with everything decided.
struct XposFactors {
  double scale_base = 512;
  int64_t center = 0;
};

// `sequence_length`: of the request, where xPos has no center of its own. Error: it is missing then.
absl::StatusOr<XposFactors> XposOf(const XposScale& xpos, std::optional<int64_t> sequence_length);

// OK when xPos's factors at all positions of the set fit in `dtype`. Error: at `field`; `what` overflows.
absl::Status CheckXposReach(const XposFactors& xpos, const PositionSet& positions, DType dtype, std::string_view field,
                            std::string_view what);

// δ as float32 libraries take it: clamped to [−2π, 0].
std::vector<float> ClampedDeltas(const Weight& delta);

// Tables are computed a chunk of rows at a time, into scratch memory, and every tensor's tokens of the chunk are worked on
// before the next chunk: memory stays bounded whatever the length.
class RotateWork final : public Work {
 public:
  enum class Kind : uint8_t {
    kRope,       // sources: the spec
    kBetween,    // sources: target, then what the tensors were rotated with
    kUploaded,   // no source
    kPolar,      // PoPE
    kFrequency,  // FoPE
  };
  // A tensor and where its answer goes; in place but for kPolar.
  struct Rotated {
    TensorInput geometry;  // without its payload
    bool is_query = false;
    int64_t y_batch_stride = 0, y_sequence_stride = 0, y_head_stride = 0;
  };

  // ---- Filled in by the parser, constant afterwards.
  Kind kind = Kind::kRope;
  Pairing pairing = Pairing::kHalfSplit;
  int64_t first_channel = 0;
  int64_t pairs = 0;        // of the rotation; kPolar: head_dim
  int64_t table_heads = 1;  // tables per position: FoPE's mixtures, PoPE's phases
  bool negate = false;      // angles negated
  bool divide = false;      // by the factors instead of multiplying
  PositionSet positions;
  bool per_batch = false;              // positions cover batch × sequence
  std::optional<PositionScale> scale;  // of queries
  std::optional<XposFactors> xpos;
  WeightRef cos, sin;  // kUploaded: [rows, pairs]
  WeightRef delta;     // kPolar, of keys; may be empty
  std::vector<Rotated> tensors;

  // Sets scratch_bytes and the rows of a chunk; last of all.
  void Seal();

  absl::StatusOr<std::vector<ProgramStep>> Steps(std::span<const Resolved* const> plans,
                                                 const WorkMemory& memory) const override;

 private:
  class Builder;

  // Tables that differ: queries' and keys', in f32 and f64.
  static constexpr int kVariants = 4;
  int VariantOf(const Rotated& tensor) const;
  int64_t RowBytes(int variant) const;  // of cos alone

  int64_t chunk_rows_ = 1;
  std::array<bool, kVariants> used_{};
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_ROTATE_WORK_H_
