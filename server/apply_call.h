// Apply: rotations of tensors that the caller sent.
#ifndef PHASOR_SERVER_APPLY_CALL_H_
#define PHASOR_SERVER_APPLY_CALL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "server/call.h"
#include "server/engine.h"
#include "server/engine_core.h"
#include "server/request.h"

namespace phasor::server {

// Tokens of a call that a thread which must not be kept waiting may look at.
inline constexpr int64_t kFewTokens = 4096;

// Payloads are gathered once, into a pooled buffer (or the place in shared memory that the result has) that is rotated in
// place and becomes the answer. Received pieces are released as soon as they have been gathered. A tensor that lies where
// its result belongs is not gathered at all.
class ApplyCall final : public Call<ApplyResult> {
 public:
  ApplyCall(EngineCore* core, std::shared_ptr<CallContext> context, ValidatedApply request, Done<ApplyResult> done);

  ApplyItem& item(size_t i) { return *request_.items()[i]; }
  std::byte* PlaceOf(size_t i, size_t tensor) const override;

 protected:
  bool TryNow(size_t i) override;
  void Prepare(size_t i, int64_t queue_ns) override;
  // Rotations of small tensors are one piece of work for a backend that takes more at once than a core's cache holds.
  void PrepareSome(std::span<const size_t> items, int64_t queue_ns) override;
  int64_t ItemsAtOnce() const override;
  absl::Status Made(size_t i) override;
  void DropRequest() override { request_.items().clear(); }

 private:
  // The item's plan, when the item is a plain rotation that is to be made; else null, and the item has ended or been
  // started.
  std::shared_ptr<const PlanEntry> PlanFor(size_t i, int64_t queue_ns);
  void PrepareWork(size_t i, const std::shared_ptr<const Work>& work, const Stopwatch& watch);

  ValidatedApply request_;
  const bool little_;                  // the calling thread may rotate it
  int64_t ids_now_left_ = kFewTokens;  // of all items together, that this thread may yet hash
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_APPLY_CALL_H_
