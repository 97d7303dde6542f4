#include "server/scores_call.h"

#include <utility>

#include "server/work_job.h"

namespace phasor::server {
namespace {

int64_t ScratchBytes(const ValidatedScores& request) {
  int64_t bytes = 0;
  for (const auto& item : request.items()) {
    if (item.ok()) bytes += item->work->scratch_bytes;
  }
  return bytes;
}

}  // namespace

ScoresCall::ScoresCall(EngineCore* core, std::shared_ptr<CallContext> context, ValidatedScores request,
                       Done<ScoresResult> done)
    : Call(core, std::move(context), request.items().size(), {request.charged_bytes() + ScratchBytes(request), 0},
           request.validate_only(), std::move(done)),
      request_(std::move(request)) {}

void ScoresCall::Describe(size_t i) {
  ScoresResult& r = result(i);
  r.payload_bytes = item(i).payload_bytes;
  r.scale = item(i).scale;
  r.warnings = item(i).work->warnings;
  for (auto& [slot, array] : DescribeArrays(*item(i).work)) SetArray(slot, std::move(array), &r);
}

bool ScoresCall::TryNow(size_t i) {
  if (request_.items()[i].ok()) return false;
  result(i).status = request_.items()[i].status();
  return true;
}

void ScoresCall::Prepare(size_t i, int64_t queue_ns) {
  BeginItem();
  result(i).stages.queue_ns = queue_ns;
  const Stopwatch watch;
  auto plans = ResolveSources(core(), *item(i).work);
  result(i).stages.build_ns += watch.ns();
  if (!plans.ok()) return EndItem(i, plans.status());
  result(i).fingerprint = WorkFingerprint(*item(i).work, *plans);
  Describe(i);
  if (validate_only()) return EndItem();
  const auto self = std::static_pointer_cast<ScoresCall>(shared_from_this());
  std::make_shared<WorkJob<ScoresResult>>(self, i, item(i).work, *std::move(plans))->Start();
}

}  // namespace phasor::server
