// Items of Apply and Scores.
#include <utility>

#include "server/item_parser.h"
#include "server/region_access.h"
#include "server/work_parsers.h"

namespace phasor::server {

absl::StatusOr<ScoresItem> ParseItem(const v1::ScoresItem& message, ParseContext& context) {
  ScoresItem item;
  ParsedWork work = ParseScoresWork(message, context, &item.scale);
  if (!work.ok()) return work.status();
  item.work = *std::move(work);
  item.payload_bytes = item.work->output_bytes();
  if (auto status = CheckLimit("q", item.payload_bytes, "max_item_bytes", context.limits.max_item_bytes, "bytes of answer");
      !status.ok()) {
    return status;
  }
  return item;
}

absl::StatusOr<ApplyItem> ParseItem(const v1::ApplyItem& message, ParseContext& context) {
  if (!message.has_add() && !message.has_resize()) {
    absl::StatusOr<ApplyItem> item = ParseRotation(message, context);
    if (!item.ok()) return item;
    absl::Status status = ParsePlacement(message, context.regions, &*item);
    return status.ok() ? std::move(item) : std::move(status);
  }
  ApplyItem item;
  ParsedWork work = message.has_add() ? ParseAddWork(message, context) : ParseResizeWork(message, context);
  if (!work.ok()) return work.status();
  item.work = *std::move(work);
  item.payload_bytes = item.work->output_bytes();
  if (auto status =
          CheckLimit("tensors", item.payload_bytes, "max_item_bytes", context.limits.max_item_bytes, "bytes of payload");
      !status.ok()) {
    return status;
  }
  if (absl::Status status = ParsePlacement(message, context.regions, &item); !status.ok()) return status;
  return item;
}

}  // namespace phasor::server
