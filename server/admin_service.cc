// What runs and what is cached. Calls that change something answer on the admin listener only.
#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "phasor/v1/admin_service.grpc.pb.h"

#include "kernels/backend.h"
#include "kernels/encodings/plan.h"
#include "server/device_store.h"
#include "server/process_stats.h"
#include "server/services.h"
#include "server/text.h"

namespace phasor::server {
namespace {

using Base = v1::AdminService;
using RawService =
    Base::WithRawMethod_GetServerInfo<Base::WithRawMethod_ListTables<Base::WithRawMethod_EvictTables<Base::Service>>>;

constexpr int kDefaultPage = 100;
constexpr int kLargestPage = 1000;

v1::GetServerInfoResponse ServerInfo(const ServiceContext& context) {
  v1::GetServerInfoResponse info;
  info.set_version(context.version);
  info.set_numerics_version(kNumericsVersion);
  info.set_backend(std::string(context.engine->backend().name()));
  info.set_backend_description(context.engine->backend().description());
  for (const BackendInfo& backend : context.backends) {
    v1::BackendState* state = info.add_backends();
    state->set_name(std::string(backend.name));
    state->set_usable(backend.usable);
    state->set_reason(backend.reason);
  }
  for (const LimitRow& row : LimitRows()) {
    v1::Limit* limit = info.add_limits();
    limit->set_name(std::string(row.name));
    limit->set_value(context.limits.*row.field);
    limit->set_unit(std::string(row.unit));
    limit->set_meaning(std::string(row.meaning));
  }
  const EngineStats stats = context.engine->stats();
  info.set_worker_threads(stats.worker_threads);
  info.set_uptime_seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - context.started).count());
  v1::MemoryState* memory = info.mutable_memory();
  memory->set_cache_bytes(stats.cache_bytes);
  memory->set_cache_capacity_bytes(stats.cache_capacity_bytes);
  memory->set_evicted_in_use_bytes(stats.evicted_in_use_bytes);
  memory->set_pool_used_bytes(stats.pool_used_bytes);
  memory->set_pool_free_bytes(stats.pool_free_bytes);
  memory->set_inflight_bytes(stats.inflight_bytes);
  memory->set_resident_bytes(ReadResidentBytes());
  memory->set_upload_bytes(context.uploads->stats().bytes);
  memory->set_upload_capacity_bytes(context.uploads->options().total_bytes);
  memory->set_upload_peer_capacity_bytes(context.uploads->options().peer_bytes);
  info.set_upload_ttl_seconds(std::chrono::duration<double>(context.uploads->options().ttl).count());
  memory->set_shared_memory_bytes(context.regions->stats().bytes);
  const RegionOptions& regions = context.regions->options();
  memory->set_shared_memory_capacity_bytes(regions.total_bytes);
  memory->set_shared_memory_peer_capacity_bytes(regions.peer_bytes);
  memory->set_shared_memory_capacity_regions(regions.max_regions);
  info.set_shared_memory_lease_seconds(std::chrono::duration<double>(regions.lease).count());
  memory->set_device_memory_handles(context.devices->stats().open);
  const DeviceStoreOptions& devices = context.devices->options();
  memory->set_device_memory_capacity_handles(context.devices->on() ? devices.max_handles : 0);
  memory->set_device_memory_peer_capacity_handles(devices.peer_handles);
  info.set_device_memory_lease_seconds(std::chrono::duration<double>(devices.lease).count());
  info.set_inflight_requests(context.admission->inflight());
  info.set_draining(context.draining.load(std::memory_order_relaxed));
  return info;
}

// A page token is the number of entries before the page. The order is that of last use, so entries that are used between two
// calls may show twice or not at all; each page is right at its own time.
absl::StatusOr<v1::ListTablesResponse> ListTables(const ServiceContext& context, const v1::ListTablesRequest& request) {
  if (request.page_size() < 0 || request.page_size() > kLargestPage) {
    return InvalidField("page_size", Cat(request.page_size()), Cat("1 to ", kLargestPage));
  }
  int64_t first = 0;
  if (!request.page_token().empty() && (!absl::SimpleAtoi(request.page_token(), &first) || first < 0)) {
    return InvalidField("page_token", "something that is no next_page_token", "the next_page_token of the answer before");
  }
  const int64_t size = request.page_size() == 0 ? kDefaultPage : request.page_size();
  const std::vector<CachedPlan> plans = context.engine->ListTables();
  const int64_t count = static_cast<int64_t>(plans.size());
  first = std::min(first, count);
  const int64_t last = std::min(first + size, count);
  v1::ListTablesResponse response;
  for (int64_t i = first; i < last; ++i) {
    const CachedPlan& plan = plans[static_cast<size_t>(i)];
    v1::CachedTable* table = response.add_tables();
    table->set_name(plan.name);
    table->set_scheme(plan.scheme);
    table->set_dtype(plan.dtype);
    table->set_tiles(plan.tiles);
    table->set_rows(plan.rows);
    table->set_bytes(plan.bytes);
    table->set_hits(plan.hits);
  }
  if (last < count) response.set_next_page_token(Cat(last));
  return response;
}

// The names that can be evicted, the most recently used first, as many as fit in an error; empty: the cache is.
std::string CachedNames(const Engine& engine) {
  constexpr size_t kMost = 8;
  const std::vector<CachedPlan> plans = engine.ListTables();
  std::string names;
  for (size_t i = 0; i < std::min(plans.size(), kMost); ++i) Append(&names, i == 0 ? "" : ", ", plans[i].name);
  if (plans.size() > kMost) Append(&names, " and ", plans.size() - kMost, " more (ListTables lists them)");
  return names;
}

absl::StatusOr<v1::EvictTablesResponse> EvictTables(ServiceContext& context, const v1::EvictTablesRequest& request,
                                                    const Reply& reply) {
  if (!reply.on_admin_listener()) {
    return MakeError(absl::StatusCode::kPermissionDenied, "ADMIN_LISTENER_ONLY",
                     "EvictTables answers on the admin listener only (--admin-listen)", {{"method", "EvictTables"}});
  }
  if (request.names().empty() && !request.all()) {
    return InvalidField("names", "nothing", "names that ListTables gives, or all = true");
  }
  for (int i = 0; i < request.names_size() && !request.all(); ++i) {
    if (!context.engine->HasTable(request.names(i))) {
      return ResourceNotFound(Cat("names[", i, "]"), "phasor.v1.CachedTable", request.names(i),
                              CachedNames(*context.engine));
    }
  }
  const std::vector<std::string> names(request.names().begin(), request.names().end());
  const auto [tiles, bytes] = context.engine->Evict(names, request.all());
  context.answers.Clear();
  v1::EvictTablesResponse response;
  response.set_tiles(tiles);
  response.set_bytes(bytes);
  return response;
}

}  // namespace

ServiceMethods MakeAdminService(ServiceContext* context) {
  ServiceMethods made;
  made.name = Base::service_full_name();
  auto service = std::make_unique<RawService>();

  Method info;
  info.name = made.name + "/GetServerInfo";
  info.request_next = [raw = service.get()](auto* call, auto* request, auto* writer, auto* queue, void* tag) {
    raw->RequestGetServerInfo(call, request, writer, queue, queue, tag);
  };
  info.handle = Immediate<v1::GetServerInfoRequest>([context](const v1::GetServerInfoRequest&, const Reply&) {
    return absl::StatusOr<v1::GetServerInfoResponse>(ServerInfo(*context));
  });
  made.methods.push_back(std::move(info));

  Method list;
  list.name = made.name + "/ListTables";
  list.request_next = [raw = service.get()](auto* call, auto* request, auto* writer, auto* queue, void* tag) {
    raw->RequestListTables(call, request, writer, queue, queue, tag);
  };
  list.handle = Immediate<v1::ListTablesRequest>(
      [context](const v1::ListTablesRequest& request, const Reply&) { return ListTables(*context, request); });
  made.methods.push_back(std::move(list));

  Method evict;
  evict.name = made.name + "/EvictTables";
  evict.request_next = [raw = service.get()](auto* call, auto* request, auto* writer, auto* queue, void* tag) {
    raw->RequestEvictTables(call, request, writer, queue, queue, tag);
  };
  evict.handle =
      OnControlThread<v1::EvictTablesRequest>(context, [context](const v1::EvictTablesRequest& request, const Reply& reply) {
        return EvictTables(*context, request, reply);
      });
  made.methods.push_back(std::move(evict));

  made.service = std::move(service);
  return made;
}

}  // namespace phasor::server
