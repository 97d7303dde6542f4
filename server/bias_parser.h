// What the parsers of bias windows share.
#ifndef PHASOR_SERVER_BIAS_PARSER_H_
#define PHASOR_SERVER_BIAS_PARSER_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "phasor/v1/position_service.pb.h"

#include "server/describe.h"
#include "server/item_parser.h"
#include "server/masking_parser.h"
#include "server/request.h"

namespace phasor::server {

// Heads of a canonical spec whose bias has values by distance (DistancePlanOf of its plan); nothing for other specs.
std::optional<int64_t> DistanceHeadsOf(const EncodingSpec& spec);

// Heads [first_head, first_head + heads) of the spec's.
absl::Status ParseHeads(const v1::BiasWindow& window, int64_t num_heads, const Limits& limits, BiasRequest* bias);

// Extents, and the place of the first query, within the same bounds as all positions.
absl::Status ParseQueries(const v1::BiasWindow& window, const Limits& limits, BiasRequest* bias);

// True when the window has positions or masks of its own: it then has the full form only.
bool IsComposed(const v1::BiasWindow& window);

// Where the last query and the last key stand at these positions: the larger one, and the field that it was read from.
LastPosition LastOf(const v1::BiasWindow& window, int64_t query, int64_t key);

// The form, `fallback` where none is asked for. Of a composed window any other than the full one is refused.
absl::StatusOr<BiasForm> ParseBiasForm(const v1::BiasWindow& window, BiasForm fallback);

// Type of values (F32 where none is asked for), and of indices (I64).
absl::StatusOr<DType> ParseValueType(v1::Dtype dtype);
absl::StatusOr<DType> ParseIndexType(v1::Dtype dtype);

// OverLimit("max_function_products") at `field` where the learned function of a canonical spec costs more than that, for
// `batch` rows of so many queries and keys.
absl::Status CheckFunctionProducts(std::string_view field, const EncodingSpec& spec, int64_t batch, int64_t queries,
                                   int64_t keys, bool consecutive, const Limits& limits);

// Whole positions of one axis: `count` of them for each batch row, or for all (batch_stride 0).
struct PositionRows {
  std::vector<int32_t> positions;  // empty: none were given
  int64_t batch_stride = 0;
};

// Asks for room for `count` positions at the cost of context.ids_left: a few numbers on the wire may stand for many.
absl::Status ChargePositions(std::string_view field, int64_t count, ParseContext& context);

// Joins the batch extent that positions speak of, where they do. Before ParsePositionRows.
absl::Status JoinBatchOf(const v1::Positions& message, std::string_view path, BatchAxis& batch);

// Costs what ParsePositions costs. Errors are below `path`.
absl::StatusOr<PositionRows> ParsePositionRows(const v1::Positions& message, std::string_view path, int64_t count,
                                               const BatchAxis& batch, ParseContext& context);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_BIAS_PARSER_H_
