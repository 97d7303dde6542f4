// Requests after parsing and validation. Only RequestParser makes them, so whoever holds one need not check again: every
// shape agrees with its payload, every position is in range, every size was computed without overflow and is within the
// limits.
#ifndef PHASOR_SERVER_REQUEST_H_
#define PHASOR_SERVER_REQUEST_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "kernels/backend.h"
#include "kernels/core/dtype.h"
#include "kernels/encodings/encoding.h"
#include "server/bytes.h"
#include "server/positions.h"
#include "server/region.h"
#include "server/table_source.h"
#include "server/work.h"

namespace phasor::server {

class RegionStore;

struct TableRequest {
  PositionSet positions;              // plain; others are for `work`
  TableForm form = TableForm::kHalf;  // for sinusoids kSinCosInterleaved or kSinCosConcatenated
  bool include_inv_freq = false;
  bool inverse = false;
};

enum class BiasForm : uint8_t { kFull = 1, kVector = 2, kRow = 3 };
struct BiasRequest {
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t query_offset = 0;
  int64_t first_head = 0;
  int64_t heads = 0;
  BiasForm form = BiasForm::kVector;
};

// Whom a result is shared with: `store` outlives the engine.
struct SharedResult {
  RegionStore* store = nullptr;  // null: the result is not shared
  std::string owner;
};

struct PrecomputeItem {
  TableSource source;
  DType dtype = DType::kF32;
  std::variant<TableRequest, BiasRequest> window;
  std::shared_ptr<const Work> work;  // when set, `window` does not count
  std::string if_fingerprint_not;    // 32 bytes or empty
  int64_t payload_bytes = 0;         // exact size of the answer's payload, inv_freq included
  int64_t inv_freq_bytes = 0;        // of that, without work
  SharedPlace place;                 // for the arrays but inv_freq, as PlacementOf lays them out; not with `shared`
  SharedResult shared;
  bool once = false;   // builds no tiles of the cache: the whole is too large for them
  bool whole = false;  // of a stream: made as a whole although it can be cut
};

// A tensor to work on: [batch, sequence, heads, head_dim] through strides (elements), whatever the layout on the wire.
// THD: batch 1, sequence = tokens.
struct TensorInput {
  DType dtype = DType::kF32;
  int64_t batch = 0, sequence = 0, heads = 0, head_dim = 0;
  int64_t batch_stride = 0, sequence_stride = 0, head_stride = 0;
  std::vector<int64_t> shape;    // as on the wire, for the answer
  std::vector<int64_t> strides;  // as on the wire, may be empty
  int64_t bytes = 0;             // size of the storage
  // The pieces received, not yet gathered, or one in shared memory, or on a device, where the host must not look; empty
  // under validate_only.
  Chunks payload;
};

struct ApplyItem {
  std::shared_ptr<const Work> work;  // when set, only payload_bytes counts of the rest
  TableSource source;
  // One position per token, [batch · sequence] in (batch, sequence) order when `per_batch`, else [sequence] for every batch
  // row.
  PositionSet positions;  // plain; others are for `work`
  bool per_batch = false;
  bool inverse = false;
  bool backward = false;  // angles negated, the factor as it is; not with inverse
  std::vector<TensorInput> tensors;
  int64_t payload_bytes = 0;
  // Of each tensor's result: where in shared memory it goes, its size exactly; none: into the answer. Empty: none at all. On
  // a device: where the tensor lies.
  std::vector<SharedPlace> places;
};

struct ScoresItem {
  std::shared_ptr<const Work> work;  // never null
  double scale = 1;                  // factor on q·k, for the answer; the work has it too
  int64_t payload_bytes = 0;
};

// An item that was refused keeps its place in the batch.
template <typename T>
using Batch = std::vector<absl::StatusOr<T>>;

// The seal: constructible by the parser alone (and by tests through it), and by StreamPieces and ApplyPieces from parts of
// what it made.
template <typename T>
class Validated {
 public:
  const Batch<T>& items() const { return items_; }
  Batch<T>& items() { return items_; }
  bool validate_only() const { return validate_only_; }
  // Payload of the request and of the answer together: what admission charges.
  int64_t charged_bytes() const { return charged_bytes_; }
  // More than 0: this is a piece of a stream of so many bytes. The stream was admitted, so the piece is charged with it,
  // takes no place in the queue and is served while the server drains.
  int64_t stream_bytes() const { return stream_bytes_; }

 private:
  friend class RequestParser;
  friend class ApplyPieces;
  friend class StreamPieces;
  friend struct ValidatedAccess;  // tests only
  Validated() = default;
  Batch<T> items_;
  bool validate_only_ = false;
  int64_t charged_bytes_ = 0;
  int64_t stream_bytes_ = 0;
};

using ValidatedPrecompute = Validated<PrecomputeItem>;
using ValidatedApply = Validated<ApplyItem>;
using ValidatedScores = Validated<ScoresItem>;

}  // namespace phasor::server

#endif  // PHASOR_SERVER_REQUEST_H_
