// One tensor: gathered from the pieces it came in, rotated where it lies.
#ifndef PHASOR_SERVER_TENSOR_ROTATION_H_
#define PHASOR_SERVER_TENSOR_ROTATION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

#include "kernels/backend.h"
#include "server/request.h"
#include "server/table_rows.h"

namespace phasor::server {

// Copies ranges of a payload that came in pieces of any length. Thread-safe after construction.
class Gather {
 public:
  explicit Gather(const Chunks& pieces);
  // Bytes [begin, end) of the payload to out[0, end − begin).
  void Copy(int64_t begin, int64_t end, std::byte* out) const;

 private:
  const Chunks& pieces_;
  std::vector<int64_t> starts_;  // of each piece
};

// Which channels turn, and how.
struct RotationShape {
  Pairing pairing = Pairing::kHalfSplit;
  int64_t first_channel = 0;
  bool backward = false;  // angles negated, with the table as it is
};

// The work on one tensor. `data` holds tensor.bytes bytes.
class TensorRotation {
 public:
  TensorRotation(const TensorInput& tensor, const RotationShape& shape, const TableRows& rows, bool per_batch,
                 std::byte* data);

  // Tokens are numbered batch row by batch row. Rotates those of [tokens.begin, tokens.end).
  absl::Status Rotate(RowRange tokens, const CancelFlag* cancel) const;

  // The tasks of all tokens, for somebody who runs them while this object lives; false (and nothing appended) when some of
  // their tables are not in tiles, or not in consecutive rows of them.
  bool Collect(std::vector<Task>* tasks, std::vector<int64_t>* rows) const;

  int64_t tokens() const { return tensor_.batch * tensor_.sequence; }
  // Tokens to rotate in about half a millisecond.
  int64_t tokens_per_slice() const;

  // Whether token after token lies one behind the other, so that a slice of tokens is a slice of bytes and can be gathered
  // and rotated in one go.
  bool TokensAreConsecutive() const;
  // Gathers and rotates the tokens, a piece that fits in a core's cache at a time. Bytes that belong to no token come with
  // the first and the last.
  absl::Status GatherAndRotate(const Gather& gather, RowRange tokens, const CancelFlag* cancel) const;

 private:
  absl::Status VisitTasks(RowRange tokens, const CancelFlag* cancel,
                          absl::FunctionRef<absl::Status(const RotateTask& task)> visit) const;
  RotateTask TaskFor(int64_t batch_row, int64_t position) const;

  const TensorInput& tensor_;
  const RotationShape shape_;
  const TableRows rows_;
  const bool per_batch_;
  std::byte* const data_;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_TENSOR_ROTATION_H_
