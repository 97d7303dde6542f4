#include "server/apply_call.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "server/apply_job.h"
#include "server/describe.h"
#include "server/work_job.h"

namespace phasor::server {
namespace {

// Items of a batch are given to a backend together where it takes more than this at once: about as much (a millisecond to
// gather), and so many.
constexpr int64_t kGroupedBytes = int64_t{4} << 20;
constexpr int64_t kMostGrouped = 256;
// Whether the rotations of a call, all of them, are little enough for the thread that reads calls.
bool IsLittle(const ValidatedApply& request) {
  int64_t bytes = 0, tokens = 0;
  for (const auto& item : request.items()) {
    if (!item.ok()) continue;
    if (!item->places.empty()) return false;  // what fails half done must not be done again in place
    tokens += item->positions.count;
    for (const TensorInput& tensor : item->tensors) bytes += tensor.bytes;
  }
  return bytes <= kInlineCopyBytes && tokens <= kFewTokens;
}

int64_t ScratchBytes(const ValidatedApply& request) {
  int64_t bytes = 0;
  for (const auto& item : request.items()) {
    if (item.ok() && item->work != nullptr) bytes += item->work->scratch_bytes;
  }
  return bytes;
}

}  // namespace

ApplyCall::ApplyCall(EngineCore* core, std::shared_ptr<CallContext> context, ValidatedApply request, Done<ApplyResult> done)
    : Call(core, std::move(context), request.items().size(),
           {request.charged_bytes() + ScratchBytes(request), request.stream_bytes()}, request.validate_only(),
           std::move(done)),
      request_(std::move(request)),
      little_(!core->slow_backend && IsLittle(request_)) {}

std::byte* ApplyCall::PlaceOf(size_t i, size_t tensor) const {
  const std::vector<SharedPlace>& places = request_.items()[i]->places;
  return tensor < places.size() && places[tensor] ? places[tensor].data() : nullptr;
}

absl::Status ApplyCall::Made(size_t i) {
  std::vector<SharedPlace>& places = item(i).places;
  for (size_t t = 0; t < places.size(); ++t) {
    const SharedPlace& place = places[t];
    if (!place) continue;
    Array& tensor = result(i).tensors[t];
    tensor.data = {Bytes{place.owner(), place.data(), place.size}};
    tensor.region = place.region;
    tensor.allocation = place.allocation;
  }
  return absl::OkStatus();
}

bool ApplyCall::TryNow(size_t i) {
  if (!request_.items()[i].ok()) {
    result(i).status = request_.items()[i].status();
    return true;
  }
  if (item(i).work != nullptr || (!validate_only() && !little_)) return false;
  const TableSource& source = item(i).source;
  const auto plan = core()->plans.Find(source.spec, source.sequence_length, source.precision);
  if (plan == nullptr) return false;
  // A description takes a pass over all ids; of a range it takes none.
  const auto ids = static_cast<int64_t>(item(i).positions.ids.size());
  if (ids > ids_now_left_) return false;
  ids_now_left_ -= ids;
  result(i).status = DescribeApply(item(i), *plan, *context(), &result(i));
  if (validate_only() || !result(i).status.ok()) return true;
  const auto self = std::static_pointer_cast<ApplyCall>(shared_from_this());
  if (std::make_shared<ApplyJob>(self, i, plan)->FinishNow()) return true;
  result(i) = ApplyResult();
  return false;
}

void ApplyCall::PrepareWork(size_t i, const std::shared_ptr<const Work>& work, const Stopwatch& watch) {
  auto plans = ResolveSources(core(), *work);
  ApplyResult& r = result(i);
  r.stages.build_ns += watch.ns();
  if (!plans.ok()) return EndItem(i, plans.status());
  r.fingerprint = WorkFingerprint(*work, *plans);
  r.payload_bytes = item(i).payload_bytes;
  r.warnings = work->warnings;
  r.rope_delta = work->rope_delta;
  if (!plans->empty()) r.softmax_scale_multiplier = plans->front()->resolved.softmax_scale_multiplier;
  if (validate_only()) {
    for (auto& [slot, array] : DescribeArrays(*work)) SetArray(slot, std::move(array), &r);
    return EndItem();
  }
  r.cache = CacheOutcome::kBypass;
  const auto self = std::static_pointer_cast<ApplyCall>(shared_from_this());
  std::make_shared<WorkJob<ApplyResult>>(self, i, work, *std::move(plans))->Start();
}

std::shared_ptr<const PlanEntry> ApplyCall::PlanFor(size_t i, int64_t queue_ns) {
  BeginItem();
  result(i).stages.queue_ns = queue_ns;
  const Stopwatch watch;
  if (const auto& work = item(i).work; work != nullptr) {
    PrepareWork(i, work, watch);
    return nullptr;
  }
  const TableSource& source = item(i).source;
  auto plan = core()->plans.Resolve(source.spec, source.sequence_length, source.precision, source.weight_bytes);
  absl::Status status = plan.ok() ? DescribeApply(item(i), **plan, *context(), &result(i)) : plan.status();
  result(i).stages.build_ns += watch.ns();
  if (status.ok() && !validate_only()) return *std::move(plan);
  if (status.ok()) {
    EndItem();
  } else {
    EndItem(i, std::move(status));
  }
  return nullptr;
}

void ApplyCall::Prepare(size_t i, int64_t queue_ns) {
  auto plan = PlanFor(i, queue_ns);
  if (plan == nullptr) return;
  const auto self = std::static_pointer_cast<ApplyCall>(shared_from_this());
  std::make_shared<ApplyJob>(self, i, std::move(plan))->Start();
}

int64_t ApplyCall::ItemsAtOnce() const {
  if (core()->backend->BytesAtOnce() <= kGroupedBytes) return 1;
  int64_t largest = 1;
  for (const auto& item : request_.items()) {
    if (!item.ok()) continue;
    int64_t bytes = 0;
    for (const TensorInput& tensor : item->tensors) bytes += tensor.bytes;
    largest = std::max(largest, bytes);
  }
  return std::clamp<int64_t>(kGroupedBytes / largest, 1, kMostGrouped);
}

void ApplyCall::PrepareSome(std::span<const size_t> items, int64_t queue_ns) {
  if (items.size() == 1) return Prepare(items[0], queue_ns);
  const auto self = std::static_pointer_cast<ApplyCall>(shared_from_this());
  std::vector<phasor::Task> tasks;
  std::vector<int64_t> rows;
  std::vector<std::shared_ptr<ApplyJob>> grouped;
  for (const size_t i : items) {
    auto plan = PlanFor(i, queue_ns);
    if (plan == nullptr) continue;
    // Work in the caller's own memory is not begun twice.
    auto job = std::make_shared<ApplyJob>(self, i, plan);
    if (item(i).places.empty() && job->Join(&tasks, &rows)) {
      grouped.push_back(std::move(job));
    } else {
      std::make_shared<ApplyJob>(self, i, std::move(plan))->Start();
    }
  }
  if (grouped.empty()) return;
  const Stopwatch watch;
  absl::Status status = context()->Check();
  if (status.ok()) status = core()->backend->RunAll(tasks, rows, &context()->cancelled);
  for (const auto& job : grouped) job->Grouped(status, watch.ns());
}

}  // namespace phasor::server
