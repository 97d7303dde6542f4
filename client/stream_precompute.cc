// Client::StreamPrecompute.
#include <string>
#include <thread>
#include <utility>

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

constexpr char kMethod[] = "/phasor.v1.PositionService/StreamPrecompute";

// Where a stream is: enough to begin another one there.
struct Progress {
  int64_t item = 0;
  bool has_header = false;  // of `item`
  std::string fingerprint;
  int64_t row_bytes = 0;
  int64_t rows = 0;    // of `item`, all of which have come
  bool moved = false;  // since the last attempt
};

absl::Status Check(const v1::StreamPrecomputeResponse& message, const raw::Payloads& payloads) {
  for (const v1::ChunkData& array : message.chunk().arrays()) {
    const auto pieces = payloads.Find(array.data());
    if (!pieces) return absl::InternalError("a chunk without data");
    if (array.has_crc32c() && array.crc32c() != raw::Crc32c(*pieces)) {
      return absl::DataLossError(absl::StrCat("items[", message.item(), "]: the chunk at byte ",
                                              message.chunk().offset_bytes(), " of ", v1::ResultArray_Name(array.array()),
                                              " does not have its checksum"));
    }
  }
  return absl::OkStatus();
}

int64_t RowBytes(const v1::PrecomputeResult& result, int64_t rows) {
  if (rows == 0) return 0;
  const int64_t frequency_bytes = result.inv_freq().shape_size() > 0 ? 8 * result.inv_freq().shape(0) : 0;
  const int arrays = result.has_cos() ? 2 : 1;
  return (result.payload_bytes() - frequency_bytes) / arrays / rows;
}

// Notes where the stream is. False: the message has been seen before.
absl::StatusOr<bool> Note(const v1::StreamPrecomputeResponse& message, const raw::Payloads& payloads, Progress* at) {
  at->moved = true;
  if (message.has_header()) {
    const std::string& fingerprint = message.header().result().fingerprint();
    if (at->has_header && message.item() == at->item) {
      if (fingerprint == at->fingerprint) return false;
      return absl::AbortedError(
          absl::StrCat("items[", message.item(), "]: the server that the stream went on with makes other bits"));
    }
    const bool is_over = message.header().result().status().code() != 0 || message.header().result().not_modified();
    *at = {.item = message.item() + (is_over ? 1 : 0),
           .has_header = !is_over,
           .fingerprint = fingerprint,
           .row_bytes = RowBytes(message.header().result(), message.header().rows()),
           .rows = message.header().first_row(),
           .moved = true};
    return true;
  }
  if (message.has_end()) {
    *at = {.item = message.item() + 1, .has_header = false, .fingerprint = {}, .row_bytes = 0, .rows = 0, .moved = true};
    return true;
  }
  if (at->row_bytes > 0 && message.chunk().arrays_size() > 0 &&
      message.chunk().arrays(0).array() != v1::RESULT_ARRAY_INV_FREQ) {
    const int64_t size = payloads.SizeOf(message.chunk().arrays(0).data()).value_or(0);
    at->rows = (message.chunk().offset_bytes() + size) / at->row_bytes;
  }
  return true;
}

// One event of the queue.
bool Await(grpc::CompletionQueue& queue) {
  void* tag = nullptr;
  bool ok = false;
  return queue.Next(&tag, &ok) && ok;
}

}  // namespace

absl::Status Client::StreamPrecompute(const v1::StreamPrecomputeRequest& given, const raw::Payloads& payloads,
                                      StreamSink sink) {
  using Clock = std::chrono::system_clock;
  if (absl::Status status = CheckLimits(given.items_size(), payloads.total_bytes()); !status.ok()) return status;
  const bool has_deadline = options_.stream_deadline.count() > 0;
  const Clock::time_point deadline = has_deadline ? Clock::now() + options_.stream_deadline : Clock::time_point::max();
  v1::StreamPrecomputeRequest request = given;
  Progress at{.item = given.first_item(), .has_header = false, .fingerprint = {}, .rows = given.first_row()};
  for (int attempt = 0;; ++attempt) {
    absl::StatusOr<grpc::ByteBuffer> bytes = raw::Join(request, raw::kStreamPrecomputeRequest, payloads);
    if (!bytes.ok()) return bytes.status();
    grpc::ClientContext context;
    if (has_deadline) context.set_deadline(deadline);
    grpc::CompletionQueue queue;
    grpc::GenericStub stub(channel_);
    const auto call = stub.PrepareCall(&context, kMethod, &queue);
    call->StartCall(nullptr);
    bool open = Await(queue);
    if (open) {
      call->WriteLast(*bytes, {}, nullptr);
      open = Await(queue);
    }
    absl::Status status;
    at.moved = false;
    while (open && status.ok()) {
      grpc::ByteBuffer buffer;
      call->Read(&buffer, nullptr);
      if (!Await(queue)) break;
      v1::StreamPrecomputeResponse message;
      raw::Payloads received;
      status = raw::Cut(buffer, raw::kStreamPrecomputeResponse, {}, &message, &received);
      if (status.ok()) status = Check(message, received);
      if (!status.ok()) break;
      absl::StatusOr<bool> is_new = Note(message, received, &at);
      status = is_new.ok() ? (*is_new ? sink(message, received) : absl::OkStatus()) : is_new.status();
    }
    if (!status.ok()) context.TryCancel();
    grpc::Status finished;
    call->Finish(&finished, nullptr);
    Await(queue);
    queue.Shutdown();
    if (!status.ok()) return status;
    if (finished.ok() || at.item == given.items_size()) return absl::OkStatus();
    if (at.moved) attempt = 0;  // what counts is how often it fails at one place
    const std::chrono::milliseconds pause = PauseBefore(context, attempt);
    if (!MayTryAgain(finished, pause, attempt, deadline)) return FromGrpc(finished);
    std::this_thread::sleep_for(pause);
    request.set_first_item(at.item);
    request.set_first_row(at.rows);
  }
}

}  // namespace phasor::client
