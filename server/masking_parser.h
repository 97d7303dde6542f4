// Masks of a request.
#ifndef PHASOR_SERVER_MASKING_PARSER_H_
#define PHASOR_SERVER_MASKING_PARSER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "phasor/v1/position_service.pb.h"

#include "kernels/program/masking.h"
#include "server/item_parser.h"
#include "server/work.h"

namespace phasor::server {

// The batch that several fields speak of: the first one sets it, the others must agree.
class BatchAxis {
 public:
  // OK, or InvalidField at `field` naming the field that set another extent.
  absl::Status Join(std::string_view field, int64_t extent);

  bool set() const { return extent_.has_value(); }
  int64_t extent() const { return extent_.value_or(1); }

 private:
  std::optional<int64_t> extent_;
  std::string field_;
};

// What the masks are put on: [batch, heads, queries, keys] of `dtype`.
struct MaskedShape {
  DType dtype = DType::kF32;
  int64_t heads = 0;
  int64_t queries = 0;
  int64_t keys = 0;
};

struct ParsedMasking {
  Masking masking;
  // The additive tensor, to be gathered by the engine (masking.additive is set then).
  std::optional<WorkInput> additive;
  // Canonical bytes of all of it, the additive tensor's content included.
  std::string key;
};

// Places of a pack's queries, aligned with the ends of their keys: within their sequence, or in the pack as a whole. Of
// keys: with `ends` for both.
std::vector<int64_t> PackedPlaces(const std::vector<int64_t>& ends, const std::vector<int64_t>& key_ends,
                                  bool in_pack = false);

// Joins the batch extents that `message` speaks of to `batch`. Comes before ParseMasking, so that all fields with a batch
// axis are known to agree.
absl::Status JoinBatchOf(const v1::Masking& message, std::string_view path, BatchAxis& batch);

// Storage must be there, also under validate_only: the key needs the content. Errors are below `path`.
absl::StatusOr<ParsedMasking> ParseMasking(const v1::Masking& message, std::string_view path, const MaskedShape& shape,
                                           const ParseContext& context);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_MASKING_PARSER_H_
