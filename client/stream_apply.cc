// Client::StreamApply.
#include <algorithm>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"

#include "client/call_status.h"
#include "client/phasor_client.h"
#include "proto/raw/crc32c.h"
#include "proto/raw/message_writer.h"
#include "proto/raw/payload_cutter.h"
#include "proto/raw/schema.h"

namespace phasor::client {
namespace {

constexpr char kMethod[] = "/phasor.v1.PositionService/StreamApply";
constexpr int64_t kChunkBytes = 1 << 20;

// Bytes that a chunk of the tensor is a multiple of: the longest run of last axes that fits a chunk, so that tokens stay
// whole where they can.
absl::StatusOr<int64_t> UnitOf(const v1::Tensor& tensor, int64_t bytes, size_t index) {
  const auto error = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("tensors[", index, "]: given ", bytes, " bytes; allowed: what its shape and type say"));
  };
  const auto& shape = tensor.shape();
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return bytes == 0 ? absl::StatusOr<int64_t>(1) : error();
  int64_t elements = 1;
  for (const int64_t extent : shape) {
    if (extent < 0 || elements > bytes / extent) return error();
    elements *= extent;
  }
  if (bytes % elements != 0) return error();
  int64_t unit = bytes / elements;
  for (int axis = tensor.shape_size() - 1; axis >= 0; --axis) {
    if (axis < tensor.shape_size() - 1 && unit > kChunkBytes / shape[axis]) break;
    unit *= shape[axis];
  }
  return unit;
}

// What goes out, in order.
class Outgoing {
 public:
  static absl::StatusOr<Outgoing> Make(const v1::ApplyItem& item, const raw::Payloads& payloads,
                                       std::span<const raw::Piece> tensors) {
    Outgoing all;
    if (tensors.size() != static_cast<size_t>(item.tensors_size())) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensors: given ", tensors.size(), "; allowed: ", item.tensors_size(), ", as the item has"));
    }
    v1::StreamApplyRequest open;
    *open.mutable_open() = item;
    for (v1::Tensor& tensor : *open.mutable_open()->mutable_tensors()) tensor.clear_storage();
    absl::StatusOr<grpc::ByteBuffer> bytes = raw::Join(open, raw::kStreamApplyRequest, payloads);
    if (!bytes.ok()) return bytes.status();
    all.open_ = *std::move(bytes);
    for (size_t i = 0; i < tensors.size(); ++i) {
      const auto size = static_cast<int64_t>(tensors[i].size);
      absl::StatusOr<int64_t> unit = UnitOf(item.tensors(static_cast<int>(i)), size, i);
      if (!unit.ok()) return unit.status();
      const int64_t chunk = std::max(*unit, kChunkBytes / *unit * *unit);
      for (int64_t at = 0; at < size; at += chunk) all.chunks_.push_back({i, at, std::min(chunk, size - at)});
    }
    all.tensors_ = tensors;
    return all;
  }

  void Rewind() { next_ = 0; }

  // The next message; nothing after the last one.
  absl::StatusOr<std::optional<grpc::ByteBuffer>> Next() {
    if (next_++ == 0) return open_;
    if (next_ - 2 >= chunks_.size()) return std::nullopt;
    const Chunk& chunk = chunks_[next_ - 2];
    const raw::Piece& tensor = tensors_[chunk.tensor];
    const raw::Piece piece{tensor.owner, tensor.data + chunk.offset, static_cast<size_t>(chunk.bytes)};
    raw::Payloads payloads;
    v1::StreamApplyRequest message;
    v1::TensorChunk* body = message.mutable_chunk();
    body->set_tensor(static_cast<int64_t>(chunk.tensor));
    body->set_offset_bytes(chunk.offset);
    body->set_crc32c(raw::Crc32c({&piece, 1}));
    body->set_data(payloads.Add({&piece, 1}));
    absl::StatusOr<grpc::ByteBuffer> bytes = raw::Join(message, raw::kStreamApplyRequest, payloads);
    if (!bytes.ok()) return bytes.status();
    return *std::move(bytes);
  }

 private:
  struct Chunk {
    size_t tensor;
    int64_t offset, bytes;
  };
  grpc::ByteBuffer open_;
  std::vector<Chunk> chunks_;
  std::span<const raw::Piece> tensors_;
  size_t next_ = 0;
};

// One attempt: writes and reads side by side until both have ended.
class Attempt {
 public:
  Attempt(Outgoing* outgoing, Client::ApplySink sink) : outgoing_(outgoing), sink_(sink) {}

  // How the stream ended for gRPC; `status()` is what ended it on this side.
  grpc::Status Run(grpc::GenericStub& stub, grpc::ClientContext& context) {
    call_ = stub.PrepareCall(&context, kMethod, &queue_);
    call_->StartCall(&read_tag_);
    reading_ = true;
    bool started = false;
    void* tag = nullptr;
    bool ok = false;
    while ((reading_ || writing_) && queue_.Next(&tag, &ok)) {
      const bool was_write = tag == &write_tag_;
      (was_write ? writing_ : reading_) = false;
      if (!ok) continue;  // a read: there are no more; a write: the server has answered
      if (!was_write && started) {
        status_ = Take();
        if (!status_.ok()) context.TryCancel();
      }
      if (!status_.ok()) continue;
      if (!was_write) Read();
      if (was_write || !started) Write();
      started = true;
    }
    grpc::Status finished;
    call_->Finish(&finished, &read_tag_);
    queue_.Next(&tag, &ok);
    queue_.Shutdown();
    return finished;
  }

  const absl::Status& status() const { return status_; }
  bool received() const { return received_; }

 private:
  void Read() {
    reading_ = true;
    call_->Read(&incoming_, &read_tag_);
  }

  void Write() {
    if (closed_) return;
    absl::StatusOr<std::optional<grpc::ByteBuffer>> message = std::nullopt;
    if (!item_failed_) message = outgoing_->Next();
    writing_ = true;
    if (!message.ok()) status_ = message.status();
    if (message.ok() && message->has_value()) return call_->Write(**message, &write_tag_);
    closed_ = true;
    call_->WritesDone(&write_tag_);
  }

  // A message of the answer.
  absl::Status Take() {
    received_ = true;
    v1::StreamApplyResponse message;
    raw::Payloads payloads;
    absl::Status status = raw::Cut(incoming_, raw::kStreamApplyResponse, {}, &message, &payloads);
    incoming_.Clear();
    if (!status.ok()) return absl::InternalError(absl::StrCat("the answer is malformed: ", status.message()));
    if (message.header().status().code() != 0 || message.end().status().code() != 0) item_failed_ = true;
    if (message.has_chunk()) {
      const auto pieces = payloads.Find(message.chunk().data());
      if (!pieces) return absl::InternalError("a chunk without data");
      if (message.chunk().has_crc32c() && message.chunk().crc32c() != raw::Crc32c(*pieces)) {
        return absl::DataLossError(absl::StrCat("tensors[", message.chunk().tensor(), "]: the chunk at byte ",
                                                message.chunk().offset_bytes(), " does not have its checksum"));
      }
    }
    return sink_(message, payloads);
  }

  Outgoing* const outgoing_;
  const Client::ApplySink sink_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  grpc::ByteBuffer incoming_;
  char read_tag_ = 0, write_tag_ = 0;  // their addresses are the events' tags
  bool reading_ = false, writing_ = false, closed_ = false, received_ = false, item_failed_ = false;
  absl::Status status_;
};

}  // namespace

absl::Status Client::StreamApply(const v1::ApplyItem& item, const raw::Payloads& payloads,
                                 std::span<const raw::Piece> tensors, ApplySink sink) {
  using Clock = std::chrono::system_clock;
  absl::StatusOr<Outgoing> outgoing = Outgoing::Make(item, payloads, tensors);
  if (!outgoing.ok()) return outgoing.status();
  const bool has_deadline = options_.stream_deadline.count() > 0;
  const Clock::time_point deadline = has_deadline ? Clock::now() + options_.stream_deadline : Clock::time_point::max();
  for (int attempt = 0;; ++attempt) {
    outgoing->Rewind();
    grpc::ClientContext context;
    if (has_deadline) context.set_deadline(deadline);
    grpc::GenericStub stub(channel_);
    Attempt stream(&*outgoing, sink);
    const grpc::Status finished = stream.Run(stub, context);
    if (!stream.status().ok()) return stream.status();
    if (finished.ok()) return absl::OkStatus();
    const std::chrono::milliseconds pause = PauseBefore(context, attempt);
    if (stream.received() || !MayTryAgain(finished, pause, attempt, deadline)) return FromGrpc(finished);
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace phasor::client
