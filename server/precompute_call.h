// Precompute: tables and biases.
#ifndef PHASOR_SERVER_PRECOMPUTE_CALL_H_
#define PHASOR_SERVER_PRECOMPUTE_CALL_H_

#include <memory>

#include "server/call.h"
#include "server/engine.h"
#include "server/engine_core.h"
#include "server/request.h"
#include "server/work_job.h"

namespace phasor::server {

class PrecomputeCall final : public Call<PrecomputeResult> {
 public:
  PrecomputeCall(EngineCore* core, std::shared_ptr<CallContext> context, ValidatedPrecompute request,
                 Done<PrecomputeResult> done);

  const PrecomputeItem& item(size_t i) const { return *request_.items()[i]; }

 protected:
  bool TryNow(size_t i) override;
  void Prepare(size_t i, int64_t queue_ns) override;
  void DropRequest() override { request_.items().clear(); }

 private:
  // Describes item i; true when that is all it needs.
  bool Describe(size_t i, const PlanEntry& plan);

  bool DescribeWork(size_t i, const PlanEntries& plans);

  ValidatedPrecompute request_;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_PRECOMPUTE_CALL_H_
