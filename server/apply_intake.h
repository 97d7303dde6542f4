// The receiving half of a stream of Apply: messages, in order, as steps of work.
#ifndef PHASOR_SERVER_APPLY_INTAKE_H_
#define PHASOR_SERVER_APPLY_INTAKE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "phasor/v1/position_service.pb.h"

#include "proto/raw/payloads.h"
#include "server/apply_pieces.h"
#include "server/request_parser.h"

namespace phasor::server {

// What a message asks for.
struct ApplyStep {
  enum class Kind : uint8_t {
    kNothing,  // none, or the first bytes of an item that is worked on as a whole: when it opens, `bytes` is what it will
               // hold
    kHeader,   // describe the item: `request`
    kPiece,    // work on a chunk: `request`, whose results are bytes [offset, …) of `tensor`
    kWhole,    // work on an item whose tensors have all come: `request`
    kFailed,   // the item is over: `error`, paths relative to the item
  };
  Kind kind = Kind::kNothing;
  size_t item = 0;
  bool checksums = true;
  std::optional<ValidatedApply> request;
  size_t tensor = 0;
  int64_t offset = 0;
  int64_t bytes = 0;     // of the work in memory
  bool is_last = false;  // kPiece: the item's tensors have all come
  absl::Status error;
};

// Not thread-safe.
class ApplyIntake {
 public:
  explicit ApplyIntake(const RequestParser* parser) : parser_(parser) {}

  // At most two steps: what was open and is not complete fails before the next item begins. Errors end the call.
  // `message_bytes`: of the whole message as it came, which pieces of it keep in memory.
  absl::StatusOr<std::vector<ApplyStep>> Take(const v1::StreamApplyRequest& message, const raw::Payloads& payloads,
                                              int64_t message_bytes);
  // No more messages come: the step for an item that is not complete.
  std::optional<ApplyStep> Close();
  // The item failed elsewhere: what still comes of it is nothing.
  void Drop(size_t item);

 private:
  ApplyStep Open(const v1::StreamApplyRequest& message, const raw::Payloads& payloads, int64_t message_bytes);
  ApplyStep Chunk(const v1::TensorChunk& chunk, const raw::Payloads& payloads, int64_t message_bytes);
  void Keep(std::span<const raw::Piece> pieces, int64_t size, int64_t message_bytes);
  absl::Status CheckChunk(const v1::TensorChunk& chunk, const raw::Payloads& payloads, int64_t size) const;
  ApplyStep Whole();
  ApplyStep Fail(absl::Status error);
  void Forget();  // what an item that is worked on as a whole holds
  // Beyond tensors that are complete.
  void SkipFullTensors();
  bool complete() const { return tensor_ == bytes_.size(); }

  const RequestParser* const parser_;
  size_t next_item_ = 0;
  // The item that is coming in, next_item_ − 1.
  bool open_ = false;
  bool failed_ = false;
  bool checksums_ = true;
  std::shared_ptr<const ApplyPieces> pieces_;  // null: worked on as a whole
  std::vector<int64_t> bytes_;                 // of each tensor
  std::vector<int64_t> row_bytes_;             // of the last axis of each
  size_t tensor_ = 0;                          // that bytes come of, and how many have
  int64_t received_ = 0;
  // As a whole: the message, and what has come.
  v1::ApplyRequest whole_;
  raw::Payloads open_payloads_;
  std::vector<std::vector<raw::Piece>> data_;
  std::shared_ptr<std::vector<std::byte>> block_;  // that small chunks are copied into; the last piece of data_ ends in it
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_APPLY_INTAKE_H_
