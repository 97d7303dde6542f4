// Precompute: tables and biases.
#ifndef PHASOR_SERVER_PRECOMPUTE_CALL_H_
#define PHASOR_SERVER_PRECOMPUTE_CALL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "server/call.h"
#include "server/engine.h"
#include "server/engine_core.h"
#include "server/request.h"
#include "server/work_job.h"

namespace phasor::server {

// Positions of a call that a thread which must not be kept waiting may look at one by one.
inline constexpr int64_t kFewIds = 4096;

class PrecomputeCall final : public Call<PrecomputeResult> {
 public:
  PrecomputeCall(EngineCore* core, std::shared_ptr<CallContext> context, ValidatedPrecompute request,
                 Done<PrecomputeResult> done);

  const PrecomputeItem& item(size_t i) const { return *request_.items()[i]; }
  // Where item i is to be made; none: in memory of the call's own, or in the cache.
  const SharedPlace& place(size_t i) const { return places_[i]; }
  std::byte* PlaceOf(size_t i, size_t array) const override;

  // Whether the thread that reads calls may copy so many bytes of the answer beside what it has copied for this call, and
  // that it does. On that thread alone.
  bool MayCopyNow(int64_t bytes) const { return bytes <= copy_now_left_; }
  void CopiesNow(int64_t bytes) { copy_now_left_ -= bytes; }

 protected:
  bool TryNow(size_t i) override;
  void Prepare(size_t i, int64_t queue_ns) override;
  absl::Status Made(size_t i) override;
  void DropRequest() override { request_.items().clear(); }

 private:
  // Describes item i; true when that is all it needs.
  bool Describe(size_t i, const PlanEntry& plan);
  // Whether the thread that reads calls may look at the item's positions; they are counted then.
  bool MayLookNow(const PrecomputeItem& item);

  bool DescribeWork(size_t i, const PlanEntries& plans);

  // Answers described item i with what is shared already; whether it could.
  bool FindShared(size_t i);
  // Makes room to share item i; true when there is nothing left to do for it.
  bool Share(size_t i);

  ValidatedPrecompute request_;
  std::vector<SharedPlace> places_;
  // What is left of what the thread that reads calls may do for all items together: bytes to copy, ids to hash.
  int64_t copy_now_left_ = kInlineCopyBytes;
  int64_t ids_now_left_ = kFewIds;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_PRECOMPUTE_CALL_H_
