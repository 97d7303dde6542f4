#include "server/apply_intake.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "proto/raw/crc32c.h"
#include "server/grpc_status.h"
#include "server/stream_options.h"

namespace phasor::server {
namespace {

// Of an item that is held until its tensors have come: a chunk that is smaller, or much smaller than its message, is copied,
// since its bytes would keep all that they were received with.
constexpr int64_t kSmallChunk = int64_t{64} << 10;
// What such copies are put together in.
constexpr int64_t kBlock = int64_t{1} << 20;

}  // namespace

absl::StatusOr<std::vector<ApplyStep>> ApplyIntake::Take(const v1::StreamApplyRequest& message,
                                                         const raw::Payloads& payloads, int64_t message_bytes) {
  std::vector<ApplyStep> steps;
  const bool opens = message.has_open();
  const auto expected = static_cast<int64_t>(opens || next_item_ == 0 ? next_item_ : next_item_ - 1);
  if (message.item() != expected) {
    return InvalidField("item", absl::StrCat(message.item()), absl::StrCat(expected));
  }
  if (!opens && (!message.has_chunk() || next_item_ == 0)) {
    return InvalidField("part", message.has_chunk() ? "a chunk" : "nothing", next_item_ == 0 ? "open" : "open or chunk");
  }
  if (opens) {
    if (std::optional<ApplyStep> cut = Close()) steps.push_back(*std::move(cut));
    steps.push_back(Open(message, payloads, message_bytes));
  } else if (open_) {
    steps.push_back(Chunk(message.chunk(), payloads, message_bytes));
  } else if (!failed_) {
    return InvalidField("part", absl::StrCat("a chunk beyond the tensors of item ", message.item()), "open");
  }
  return steps;
}

std::optional<ApplyStep> ApplyIntake::Close() {
  if (!open_) return std::nullopt;
  return Fail(InvalidField("tensors", absl::StrCat(received_, " bytes of tensors[", tensor_, "]"),
                           absl::StrCat(bytes_[tensor_], " bytes, as its shape says")));
}

void ApplyIntake::Drop(size_t item) {
  if (next_item_ == 0 || item != next_item_ - 1) return;
  open_ = false;
  failed_ = true;
  pieces_.reset();
  Forget();
}

void ApplyIntake::Forget() {
  whole_.Clear();
  open_payloads_ = {};
  data_.clear();
  block_.reset();
}

ApplyStep ApplyIntake::Fail(absl::Status error) {
  ApplyStep step;
  step.kind = ApplyStep::Kind::kFailed;
  step.item = next_item_ - 1;
  step.error = std::move(error);
  Drop(step.item);
  return step;
}

void ApplyIntake::SkipFullTensors() {
  while (!complete() && received_ == bytes_[tensor_]) {
    ++tensor_;
    received_ = 0;
  }
}

ApplyStep ApplyIntake::Open(const v1::StreamApplyRequest& message, const raw::Payloads& payloads, int64_t message_bytes) {
  ++next_item_;
  failed_ = false;
  checksums_ = !message.no_checksums();
  tensor_ = 0;
  received_ = 0;
  absl::StatusOr<StreamedItem> streamed = parser_->ParseStreamedItem(message.open(), payloads);
  if (!streamed.ok()) return Fail(streamed.status());
  open_ = true;
  bytes_ = std::move(streamed->bytes);
  SkipFullTensors();
  ApplyStep step;
  step.item = next_item_ - 1;
  step.checksums = checksums_;
  if (streamed->in_pieces) {
    const int64_t all = std::accumulate(bytes_.begin(), bytes_.end(), int64_t{0});
    pieces_ = std::make_shared<const ApplyPieces>(std::move(streamed->item), std::max<int64_t>(all, 1));
    step.kind = ApplyStep::Kind::kHeader;
    step.request = pieces_->Header();
    step.is_last = complete();
    open_ = !step.is_last;
    return step;
  }
  pieces_.reset();
  whole_.Clear();
  *whole_.add_items() = message.open();
  open_payloads_ = payloads;
  data_.assign(bytes_.size(), {});
  row_bytes_.clear();
  for (const v1::Tensor& tensor : message.open().tensors()) {
    const int64_t last = tensor.shape().empty() ? 1 : tensor.shape(tensor.shape_size() - 1);
    row_bytes_.push_back(last * SizeOf(static_cast<DType>(tensor.dtype())));
  }
  if (complete()) return Whole();
  // The message is kept too: weights and ids may be most of it. Ids that a few numbers stand for are made again when the
  // tensors are there, and there has to be room for them then.
  step.bytes = std::accumulate(bytes_.begin(), bytes_.end(), message_bytes + streamed->position_bytes);
  return step;
}

absl::Status ApplyIntake::CheckChunk(const v1::TensorChunk& chunk, const raw::Payloads& payloads, int64_t size) const {
  if (chunk.tensor() != static_cast<int64_t>(tensor_)) {
    return InvalidField("chunk.tensor", absl::StrCat(chunk.tensor()), absl::StrCat(tensor_, ": tensors come in order"));
  }
  if (chunk.offset_bytes() != received_) {
    return InvalidField("chunk.offset_bytes", absl::StrCat(chunk.offset_bytes()),
                        absl::StrCat(received_, ": a tensor comes from front to back"));
  }
  const int64_t most = std::min(kMostChunkBytes, bytes_[tensor_] - received_);
  if (size < 1 || size > most) {
    return InvalidField("chunk.data", absl::StrCat(size, " bytes"), absl::StrCat("1 … ", most, " bytes"));
  }
  const int64_t row_bytes = pieces_ != nullptr ? pieces_->row_bytes(tensor_) : row_bytes_[tensor_];
  // The last chunk of a row that is longer than a chunk may be cannot be a whole row.
  if (row_bytes <= kMostChunkBytes && size % row_bytes != 0) {
    return InvalidField("chunk.data", absl::StrCat(size, " bytes"),
                        absl::StrCat("a multiple of ", row_bytes, ", the bytes of a row of the last axis"));
  }
  if (chunk.has_crc32c()) {
    const uint32_t crc = raw::Crc32c(*payloads.Find(chunk.data()));
    if (chunk.crc32c() != crc) {
      return InvalidField("chunk.crc32c", absl::StrCat(chunk.crc32c()), absl::StrCat(crc, ", of the data that arrived"));
    }
  }
  return absl::OkStatus();
}

void ApplyIntake::Keep(std::span<const raw::Piece> pieces, int64_t size, int64_t message_bytes) {
  std::vector<raw::Piece>& data = data_[tensor_];
  if (size >= kSmallChunk && message_bytes <= 2 * size) {
    data.insert(data.end(), pieces.begin(), pieces.end());
    return;
  }
  for (raw::Piece piece : pieces) {
    while (piece.size > 0) {
      if (block_ == nullptr || block_->size() == block_->capacity()) {
        block_ = std::make_shared<std::vector<std::byte>>();
        block_->reserve(static_cast<size_t>(std::min(kBlock, bytes_[tensor_])));
      }
      const size_t begin = block_->size(), n = std::min(piece.size, block_->capacity() - begin);
      block_->insert(block_->end(), piece.data, piece.data + n);
      const bool follows = !data.empty() && data.back().owner == block_;
      if (follows) {
        data.back().size += n;
      } else {
        data.push_back({block_, block_->data() + begin, n});
      }
      piece.data += n;
      piece.size -= n;
    }
  }
}

ApplyStep ApplyIntake::Chunk(const v1::TensorChunk& chunk, const raw::Payloads& payloads, int64_t message_bytes) {
  const int64_t size = payloads.SizeOf(chunk.data()).value_or(0);
  if (absl::Status status = CheckChunk(chunk, payloads, size); !status.ok()) return Fail(std::move(status));
  const std::span<const raw::Piece> pieces = *payloads.Find(chunk.data());
  ApplyStep step;
  step.item = next_item_ - 1;
  step.checksums = checksums_;
  step.tensor = tensor_;
  step.offset = received_;
  if (pieces_ == nullptr) Keep(pieces, size, message_bytes);
  received_ += size;
  SkipFullTensors();
  if (pieces_ == nullptr) return complete() ? Whole() : step;
  Chunks data;
  for (const raw::Piece& piece : pieces) data.push_back({piece.owner, piece.data, static_cast<int64_t>(piece.size)});
  step.kind = ApplyStep::Kind::kPiece;
  step.request = pieces_->At(step.tensor, step.offset, data);
  step.bytes = size;
  step.is_last = complete();
  open_ = !step.is_last;
  return step;
}

ApplyStep ApplyIntake::Whole() {
  open_ = false;
  for (size_t i = 0; i < data_.size(); ++i) {
    whole_.mutable_items(0)->mutable_tensors(static_cast<int>(i))->set_data(open_payloads_.Add(data_[i]));
  }
  absl::StatusOr<ValidatedApply> request = parser_->ParseApply(whole_, open_payloads_);
  Forget();  // the request keeps what it needs
  if (!request.ok()) return Fail(request.status());
  if (!request->items()[0].ok()) return Fail(request->items()[0].status());
  ApplyStep step;
  step.kind = ApplyStep::Kind::kWhole;
  step.item = next_item_ - 1;
  step.checksums = checksums_;
  step.is_last = true;
  step.bytes = request->charged_bytes();
  step.request = *std::move(request);
  return step;
}

}  // namespace phasor::server
