#include "server/upload_call.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "phasor/v1/position_service.pb.h"

#include "proto/raw/payload_cutter.h"
#include "server/peer.h"
#include "server/text.h"
#include "server/upload_store.h"

namespace phasor::server {
namespace {

constexpr size_t kHashBytes = 32;
// Everything in a message but the piece.
constexpr size_t kMaxSkeleton = 4096;

class UploadReader final : public MessageReader {
 public:
  UploadReader(ServiceContext* context, std::string host, std::shared_ptr<CallContext> call)
      : context_(context), host_(std::move(host)), call_(std::move(call)) {}

  void OnMessage(grpc::ByteBuffer message, Turn turn) override {
    // Copying and hashing a piece takes milliseconds: a worker's work.
    struct Pending {
      grpc::ByteBuffer message;
      Turn turn;
    };
    auto pending = std::make_shared<Pending>(Pending{std::move(message), std::move(turn)});
    context_->engine->RunOnWorker(call_, [this, pending](absl::Status status) {
      Outcome outcome;
      bool more = false;
      if (!status.ok()) {
        outcome = RefuseFromEngine(status);
      } else {
        more = Take(pending->message, &outcome);
      }
      pending->message.Clear();
      if (more) {
        std::move(pending->turn).More();
      } else {
        std::move(pending->turn).Stop(std::move(outcome));
      }
    });
  }

  void OnEnd(Reply reply) override { std::move(reply).Send(End()); }

 private:
  // True: more messages are wanted. False: `outcome` is the answer.
  bool Take(const grpc::ByteBuffer& bytes, Outcome* outcome) {
    v1::UploadTensorRequest message;
    raw::Payloads payloads;
    const raw::CutLimits limits{.max_skeleton_bytes = kMaxSkeleton, .max_parts = 8};
    if (!raw::Cut(bytes, raw::kUploadTensorRequest, limits, &message, &payloads).ok()) {
      *outcome = Refuse(MalformedMessage("phasor.v1.UploadTensorRequest"));
      return false;
    }
    const bool first = !began_;
    if (first) {
      began_ = true;
      if (Begin(message, outcome)) return false;
    }
    const int64_t size = payloads.SizeOf(message.data()).value_or(0);
    if (absl::Status status = CheckPiece(size, first); !status.ok()) {
      *outcome = Refuse(std::move(status));
      return false;
    }
    for (const raw::Piece& piece : payloads.Find(message.data()).value_or(std::span<const raw::Piece>())) {
      upload_->Append(piece.data, static_cast<int64_t>(piece.size));
    }
    return true;
  }

  // Checks the first message and makes room. True: `outcome` is the answer already.
  bool Begin(const v1::UploadTensorRequest& message, Outcome* outcome) {
    const int64_t limit = context_->limits.max_upload_bytes;
    const int64_t size = message.size_bytes();
    expected_ = message.sha256();
    absl::Status status;
    if (size < 1) {
      status = InvalidField("size_bytes", size == 0 ? "nothing" : Cat(size), Cat("1 to ", limit));
    } else if (size > limit) {
      status = OverLimit("size_bytes", size, "max_upload_bytes", limit, "bytes");
    } else if (!expected_.empty() && expected_.size() != kHashBytes) {
      status = InvalidField("sha256", Cat(expected_.size(), " bytes"), "none, or 32 bytes");
    }
    if (!status.ok()) {
      *outcome = Refuse(std::move(status));
      return true;
    }
    if (const auto there = expected_.empty() ? nullptr : context_->uploads->Find(expected_)) {
      *outcome =
          there->size == size
              ? Answer(*there)
              : Refuse(InvalidField("size_bytes", Cat(size), Cat(there->size, ", the size of what has this SHA-256")));
      return true;
    }
    auto charge = context_->engine->Charge(size);
    if (!charge.ok()) {
      *outcome = RefuseFromEngine(charge.status());
      return true;
    }
    auto upload = context_->uploads->Begin(host_, size);
    if (!upload.ok()) {
      *outcome = Refuse(QuotaExceeded(Cat("uploads of ", host_), ToStd(upload.status().message())));
      return true;
    }
    charge_ = *std::move(charge);
    upload_ = *std::move(upload);
    return false;
  }

  absl::Status CheckPiece(int64_t size, bool first) const {
    if (size > kMaxUploadPiece) {
      return InvalidField("data", Cat(size, " bytes"), Cat("up to ", kMaxUploadPiece, " bytes in a message"));
    }
    if (size == 0 && !first) return InvalidField("data", "nothing", "at least 1 byte in every message after the first");
    if (size > upload_->size() - upload_->received()) {
      return InvalidField("data", Cat("more than ", upload_->size(), " bytes"),
                          Cat(upload_->size(), " bytes in all, as size_bytes says"));
    }
    return absl::OkStatus();
  }

  Outcome End() {
    if (absl::Status gone = call_->Check(); !gone.ok()) return Refuse(std::move(gone));
    if (!began_) return Refuse(InvalidField("size_bytes", "no message", "at least one message"));
    if (upload_->received() < upload_->size()) {
      return Refuse(InvalidField("data", Cat(upload_->received(), " bytes in all"),
                                 Cat(upload_->size(), " bytes, as size_bytes says")));
    }
    const auto content = upload_->Finish(expected_);
    if (!content.ok()) {
      return Refuse(InvalidField("sha256", absl::BytesToHexString(expected_),
                                 Cat(content.status().message(), ", the content's SHA-256; or none")));
    }
    return Answer(**content);
  }

  Outcome Answer(const UploadContent& content) const {
    v1::UploadTensorResponse response;
    response.set_sha256(content.sha256);
    response.set_size_bytes(content.size);
    response.set_ttl_seconds(std::chrono::duration_cast<std::chrono::seconds>(context_->uploads->options().ttl).count());
    return AnswerWith(response);
  }

  ServiceContext* const context_;
  const std::string host_;
  const std::shared_ptr<CallContext> call_;
  bool began_ = false;
  std::string expected_;
  std::shared_ptr<const void> charge_;
  std::unique_ptr<Upload> upload_;
};

}  // namespace

std::unique_ptr<MessageReader> OpenUpload(ServiceContext* context, const std::string& peer,
                                          std::shared_ptr<CallContext> call) {
  return std::make_unique<UploadReader>(context, HostOfPeer(peer), std::move(call));
}

}  // namespace phasor::server
