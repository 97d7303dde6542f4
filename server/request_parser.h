// From bytes to validated requests: the only door into the engine.
#ifndef PHASOR_SERVER_REQUEST_PARSER_H_
#define PHASOR_SERVER_REQUEST_PARSER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "grpcpp/support/byte_buffer.h"
#include "phasor/v1/position_service.pb.h"

#include "proto/raw/payloads.h"
#include "server/limits.h"
#include "server/request.h"
#include "server/stream_options.h"

namespace phasor::server {

class UploadStore;
struct RegionAccess;

// What a thread that must not be kept waiting may parse: about a millisecond's worth. Whoever finds the request to be longer
// sets `exceeded`; then it has not been parsed, and what is returned says nothing of it.
struct ParseBudget {
  int64_t message_bytes = int64_t{1} << 20;  // beside payloads
  int64_t ids = int64_t{64} << 10;           // positions once they are expanded
  bool exceeded = false;
};

// A call of StreamPrecompute. `batch.charged_bytes()` is all that it holds but the pieces of items that are made in pieces.
struct StreamRequest {
  ValidatedPrecompute batch;
  int64_t chunk_bytes = 0;  // 0: not given
  int64_t first_item = 0;
  int64_t first_row = 0;  // ≥ 0; how many rows there are is known later
  bool checksums = true;
};

// What opens an item of StreamApply.
struct StreamedItem {
  bool in_pieces = false;
  ApplyItem item;              // in pieces; its tensors have no payload
  std::vector<int64_t> bytes;  // of each tensor
  int64_t position_bytes = 0;  // not in pieces: what the item's positions take once they are expanded
};

// Checks all that request.h promises, with sizes computed before anything is allocated by them. Thread-safe, no state but
// the limits; costs microseconds per item plus a pass over position ids and masks.
//
// Errors of the call: INVALID_ARGUMENT (malformed message; no items or too many; payload of the request or of the answer
// over the limits). Errors of an item stay in its place in the batch, with paths such as "items[3].positions.ids.shape":
// INVALID_ARGUMENT with field, given and allowed; UNIMPLEMENTED for what the contract has but this version does not serve;
// FAILED_PRECONDITION and PERMISSION_DENIED of uploads and shared memory.
class RequestParser {
 public:
  // `uploads`: the content that tensors may name; null: none. Must outlive this.
  explicit RequestParser(const Limits& limits, UploadStore* uploads = nullptr) : limits_(limits), uploads_(uploads) {}

  // Payloads of tensors are left where they were received; the batch keeps them alive, and regions of shared memory.
  // `regions`: what the caller may name of that; null: none. `budget`: null: the caller has time.
  absl::StatusOr<ValidatedPrecompute> ParsePrecompute(const grpc::ByteBuffer& request, const RegionAccess* regions = nullptr,
                                                      ParseBudget* budget = nullptr) const;
  absl::StatusOr<ValidatedApply> ParseApply(const grpc::ByteBuffer& request, const RegionAccess* regions = nullptr,
                                            ParseBudget* budget = nullptr) const;
  absl::StatusOr<StreamRequest> ParseStreamPrecompute(const grpc::ByteBuffer& request) const;
  // `open`: an item without its tensors' bytes. Errors are the item's, paths relative to it.
  absl::StatusOr<StreamedItem> ParseStreamedItem(const v1::ApplyItem& open, const raw::Payloads& payloads) const;
  absl::StatusOr<ValidatedScores> ParseScores(const grpc::ByteBuffer& request, ParseBudget* budget = nullptr) const;

  // The same from parsed messages, whose Tensor.data fields hold tokens of `payloads` (proto/raw/payload_cutter.h).
  absl::StatusOr<ValidatedPrecompute> ParsePrecompute(const v1::PrecomputeRequest& request, const raw::Payloads& payloads,
                                                      const RegionAccess* regions = nullptr,
                                                      ParseBudget* budget = nullptr) const;
  absl::StatusOr<ValidatedApply> ParseApply(const v1::ApplyRequest& request, const raw::Payloads& payloads,
                                            const RegionAccess* regions = nullptr, ParseBudget* budget = nullptr) const;

  const Limits& limits() const { return limits_; }

 private:
  Limits limits_;
  UploadStore* uploads_;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_REQUEST_PARSER_H_
