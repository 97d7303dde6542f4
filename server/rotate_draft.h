// A rotation that is being parsed.
#ifndef PHASOR_SERVER_ROTATE_DRAFT_H_
#define PHASOR_SERVER_ROTATE_DRAFT_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "phasor/v1/position_service.pb.h"

#include "server/apply_tensors.h"
#include "server/item_parser.h"
#include "server/request.h"
#include "server/rotate_work.h"
#include "server/table_source.h"

namespace phasor::server {

struct RotateDraft {
  ApplyItem item;
  HeadAxes axes{};
  std::optional<TableSource> target;  // of rerotate
  std::shared_ptr<RotateWork> work;   // filled as far as it is known; dropped where the plain path serves
  bool needs_work = false;
  int64_t smallest = 0;  // position

  RotationRule& rule() const { return work->rotation.rule; }
};

// Whether stored keys are turned on (shift, rerotate).
bool MovesKeys(const v1::ApplyItem& message);

// Fields of the operation that do not go together.
absl::Status CheckRotateOperation(const v1::ApplyItem& message);

// What the item rotates by: source, target and rule of the draft. Sets the width of a head.
absl::Status ParseRotationSource(const v1::ApplyItem& message, ParseContext& context, RotateDraft& draft, int64_t* head_dim);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_ROTATE_DRAFT_H_
