// Parsers of items that become Work (work.h). Each has its file, work_*.cc. Paths in errors are relative to the item.
#ifndef PHASOR_SERVER_WORK_PARSERS_H_
#define PHASOR_SERVER_WORK_PARSERS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "phasor/v1/position_service.pb.h"

#include "server/item_parser.h"
#include "server/work.h"

namespace phasor::server {

// What is parsed for one item; null: the plain path (tiles of the cache) serves it.
using ParsedWork = absl::StatusOr<std::shared_ptr<const Work>>;

// A table window: learned rows, several axes, fractional positions.
ParsedWork ParseTableWork(const v1::PrecomputeItem& message, const TableSource& source, ParseContext& context);

// A window of xPos, PoPE or FoPE, which queries and keys do not share (HasRoles); never null.
bool HasRoles(const EncodingSpec& spec);
ParsedWork ParseRotationTableWork(const v1::PrecomputeItem& message, const TableSource& source, ParseContext& context);

// A bias window: everything but the plain windows of biases that depend on the distance only.
ParsedWork ParseBiasWork(const v1::PrecomputeItem& message, const TableSource& source, ParseContext& context);

// Bias windows of schemes over windows of an image and of learned functions of positions; null for other schemes.
ParsedWork ParseWindowBiasWork(const v1::PrecomputeItem& message, const TableSource& source, ParseContext& context);

// A rotation, whole: the plain one, or with work when it is more than that (several axes, fractional positions, xPos, query
// scales, PoPE, FoPE, from schedule to schedule, by the caller's own tables).
absl::StatusOr<ApplyItem> ParseRotation(const v1::ApplyItem& message, ParseContext& context);

// Adding an encoding; never null.
ParsedWork ParseAddWork(const v1::ApplyItem& message, ParseContext& context);

// Resizing tables; never null.
ParsedWork ParseResizeWork(const v1::ApplyItem& message, ParseContext& context);

// Scores; never null. `scale` is set to the factor on q·k.
ParsedWork ParseScoresWork(const v1::ScoresItem& message, ParseContext& context, double* scale);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_WORK_PARSERS_H_
