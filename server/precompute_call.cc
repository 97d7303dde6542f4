#include "server/precompute_call.h"

#include <utility>
#include <variant>

#include "server/describe.h"
#include "server/placement.h"
#include "server/precompute_job.h"
#include "server/region_store.h"

namespace phasor::server {
namespace {

// Bytes that are not part of the answer but grow with the request: the vector that a full bias is laid out from.
int64_t ScratchBytes(const ValidatedPrecompute& request) {
  int64_t bytes = 0;
  for (const auto& item : request.items()) {
    if (!item.ok()) continue;
    if (item->work != nullptr) {
      bytes += item->work->scratch_bytes;
      continue;
    }
    const auto* bias = std::get_if<BiasRequest>(&item->window);
    if (bias == nullptr || bias->form != BiasForm::kFull) continue;
    bytes += bias->heads * ShapeOfBias(*bias).count * SizeOf(item->dtype);
  }
  return bytes;
}

std::shared_ptr<PrecomputeJob> MakeJob(std::shared_ptr<PrecomputeCall> call, size_t item,
                                       std::shared_ptr<const PlanEntry> plan) {
  const bool table = std::holds_alternative<TableRequest>(call->item(item).window);
  return (table ? MakeTableJob : MakeBiasJob)(std::move(call), item, std::move(plan));
}

}  // namespace

PrecomputeCall::PrecomputeCall(EngineCore* core, std::shared_ptr<CallContext> context, ValidatedPrecompute request,
                               Done<PrecomputeResult> done)
    : Call(core, std::move(context), request.items().size(),
           {request.charged_bytes() + ScratchBytes(request), request.stream_bytes()}, request.validate_only(),
           std::move(done)),
      request_(std::move(request)) {
  for (const auto& item : request_.items()) places_.push_back(item.ok() ? item->place : SharedPlace());
}

bool PrecomputeCall::MayLookNow(const PrecomputeItem& item) {
  const auto* table = std::get_if<TableRequest>(&item.window);
  if (table == nullptr) return true;
  const auto ids = static_cast<int64_t>(table->positions.ids.size());
  if (ids > ids_now_left_ || (!Consecutive(table->positions) && table->positions.count > kFewIds)) return false;
  ids_now_left_ -= ids;
  return true;
}

std::byte* PrecomputeCall::PlaceOf(size_t i, size_t array) const {
  if (!places_[i]) return nullptr;
  const Placement placement = PlacementOf(item(i));
  return array < placement.offsets.size() ? places_[i].data() + placement.offsets[array] : nullptr;
}

bool PrecomputeCall::FindShared(size_t i) {
  const SharedResult& shared = item(i).shared;
  const auto region = shared.store->FindShared(shared.owner, result(i).fingerprint);
  if (region == nullptr) return false;
  SetPlaced(PlacementOf(item(i)), region, 0, &result(i));
  result(i).shared_region = region;
  result(i).shared_lease = shared.store->options().lease;
  result(i).cache = CacheOutcome::kHit;
  return true;
}

bool PrecomputeCall::Share(size_t i) {
  const SharedResult& shared = item(i).shared;
  const int64_t bytes = PlacementOf(item(i)).bytes;
  if (shared.store == nullptr || bytes == 0) return false;
  if (FindShared(i)) {
    EndItem();
    return true;
  }
  auto region = shared.store->NewShared(shared.owner, bytes);
  if (!region.ok()) {
    EndItem(i, region.status());
    return true;
  }
  places_[i] = {*std::move(region), 0, bytes};
  return false;
}

absl::Status PrecomputeCall::Made(size_t i) {
  SharedPlace& place = places_[i];
  if (!place) return absl::OkStatus();
  if (const SharedResult& shared = item(i).shared; shared.store != nullptr) {
    auto region = shared.store->Share(shared.owner, result(i).fingerprint, std::move(place.region));
    if (!region.ok()) return region.status();
    place.region = *std::move(region);
    result(i).shared_region = place.region;
    result(i).shared_lease = shared.store->options().lease;
  }
  SetPlaced(PlacementOf(item(i)), place.region, place.offset, &result(i));
  place.region.reset();  // a use of the region ends with its call, and this may outlive it a little
  return absl::OkStatus();
}

bool PrecomputeCall::Describe(size_t i, const PlanEntry& plan) {
  PrecomputeResult& r = result(i);
  r.status = DescribePrecompute(item(i), plan, *context(), &r);
  r.not_modified = r.status.ok() && item(i).if_fingerprint_not == r.fingerprint;
  return !r.status.ok() || validate_only() || r.not_modified;
}

bool PrecomputeCall::DescribeWork(size_t i, const PlanEntries& plans) {
  const Work& work = *item(i).work;
  PrecomputeResult& r = result(i);
  r.fingerprint = WorkFingerprint(work, plans);
  r.payload_bytes = item(i).payload_bytes;
  r.warnings = work.warnings;
  r.rope_delta = work.rope_delta;
  if (!plans.empty()) {
    r.attention_factor = plans.front()->resolved.attention_factor;
    r.softmax_scale_multiplier = plans.front()->resolved.softmax_scale_multiplier;
  }
  for (auto& [slot, array] : DescribeArrays(work)) SetArray(slot, std::move(array), &r);
  r.not_modified = !r.fingerprint.empty() && item(i).if_fingerprint_not == r.fingerprint;
  return validate_only() || r.not_modified;
}

bool PrecomputeCall::TryNow(size_t i) {
  if (!request_.items()[i].ok()) {
    result(i).status = request_.items()[i].status();
    return true;
  }
  if (item(i).work != nullptr) {
    const bool described = validate_only() || item(i).shared.store != nullptr;
    if (!described && item(i).if_fingerprint_not.empty()) return false;
    const auto plans = FindSources(core(), *item(i).work);
    if (plans && DescribeWork(i, *plans)) return true;
    if (plans && item(i).shared.store != nullptr && FindShared(i)) return true;
    result(i) = PrecomputeResult();
    return false;
  }
  const TableSource& source = item(i).source;
  auto plan = core()->plans.Find(source.spec, source.sequence_length, source.precision);
  if (plan == nullptr || !MayLookNow(item(i))) return false;
  if (Describe(i, *plan)) return true;
  if (item(i).shared.store != nullptr) {
    if (FindShared(i)) return true;
  } else {
    const auto self = std::static_pointer_cast<PrecomputeCall>(shared_from_this());
    if (MakeJob(self, i, std::move(plan))->FinishNow()) {
      result(i).status = Made(i);
      return true;
    }
  }
  result(i) = PrecomputeResult();
  return false;
}

void PrecomputeCall::Prepare(size_t i, int64_t queue_ns) {
  BeginItem();
  result(i).stages.queue_ns = queue_ns;
  const Stopwatch watch;
  if (item(i).work != nullptr) {
    auto plans = ResolveSources(core(), *item(i).work);
    result(i).stages.build_ns += watch.ns();
    if (!plans.ok()) return EndItem(i, plans.status());
    if (DescribeWork(i, *plans)) return EndItem();
    if (Share(i)) return;
    result(i).cache = CacheOutcome::kBypass;
    const auto self = std::static_pointer_cast<PrecomputeCall>(shared_from_this());
    return std::make_shared<WorkJob<PrecomputeResult>>(self, i, item(i).work, *std::move(plans))->Start();
  }
  const TableSource& source = item(i).source;
  auto plan = core()->plans.Resolve(source.spec, source.sequence_length, source.precision, source.weight_bytes);
  if (!plan.ok()) return EndItem(i, plan.status());
  const bool complete = Describe(i, **plan);
  result(i).stages.build_ns += watch.ns();
  if (!result(i).status.ok()) return EndItem(i, result(i).status);
  if (complete) return EndItem();
  if (Share(i)) return;
  const auto self = std::static_pointer_cast<PrecomputeCall>(shared_from_this());
  MakeJob(self, i, *std::move(plan))->Start();
}

}  // namespace phasor::server
