#include "server/apply_intake.h"

#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "proto/raw/crc32c.h"
#include "server/grpc_status.h"
#include "server/stream_options.h"

namespace phasor::server {

absl::StatusOr<std::vector<ApplyStep>> ApplyIntake::Take(const v1::StreamApplyRequest& message,
                                                         const raw::Payloads& payloads) {
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
    steps.push_back(Open(message, payloads));
  } else if (open_) {
    steps.push_back(Chunk(message.chunk(), payloads));
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
  data_.clear();
  pieces_.reset();
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

ApplyStep ApplyIntake::Open(const v1::StreamApplyRequest& message, const raw::Payloads& payloads) {
  ++next_item_;
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
  if (complete()) return Whole();
  step.bytes = std::accumulate(bytes_.begin(), bytes_.end(), int64_t{0});
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
  if (pieces_ != nullptr && size % pieces_->row_bytes(tensor_) != 0) {
    return InvalidField(
        "chunk.data", absl::StrCat(size, " bytes"),
        absl::StrCat("a multiple of ", pieces_->row_bytes(tensor_), ", the bytes of a row of the last axis"));
  }
  if (chunk.has_crc32c()) {
    const uint32_t crc = raw::Crc32c(*payloads.Find(chunk.data()));
    if (chunk.crc32c() != crc) {
      return InvalidField("chunk.crc32c", absl::StrCat(chunk.crc32c()), absl::StrCat(crc, ", of the data that arrived"));
    }
  }
  return absl::OkStatus();
}

ApplyStep ApplyIntake::Chunk(const v1::TensorChunk& chunk, const raw::Payloads& payloads) {
  const int64_t size = payloads.SizeOf(chunk.data()).value_or(0);
  if (absl::Status status = CheckChunk(chunk, payloads, size); !status.ok()) return Fail(std::move(status));
  const std::span<const raw::Piece> pieces = *payloads.Find(chunk.data());
  ApplyStep step;
  step.item = next_item_ - 1;
  step.checksums = checksums_;
  step.tensor = tensor_;
  step.offset = received_;
  received_ += size;
  if (pieces_ == nullptr) data_[tensor_].insert(data_[tensor_].end(), pieces.begin(), pieces.end());
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
  v1::ApplyItem* item = whole_.mutable_items(0);
  for (size_t i = 0; i < data_.size(); ++i)
    item->mutable_tensors(static_cast<int>(i))->set_data(open_payloads_.Add(data_[i]));
  data_.clear();
  absl::StatusOr<ValidatedApply> request = parser_->ParseApply(whole_, open_payloads_);
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
