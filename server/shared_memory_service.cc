// Regions of shared memory: made, renewed and released.
#include <string>
#include <utility>

#include "phasor/v1/shared_memory_service.grpc.pb.h"

#include "server/grpc_status.h"
#include "server/region_access.h"
#include "server/services.h"
#include "server/text.h"

namespace phasor::server {
namespace {

using Base = v1::SharedMemoryService;
using RawService =
    Base::WithRawMethod_CreateRegion<Base::WithRawMethod_RenewRegion<Base::WithRawMethod_ReleaseRegion<Base::Service>>>;

constexpr char kRegionType[] = "phasor.v1.SharedRegion";

absl::StatusOr<v1::CreateRegionResponse> Create(RegionStore& store, const RegionAccess& access,
                                                const v1::CreateRegionRequest& request) {
  if (request.size_bytes() < 1) return InvalidField("size_bytes", Cat(request.size_bytes()), "at least 1");
  auto region = store.Create(access.owner, request.size_bytes());
  if (!region.ok()) return region.status();
  v1::CreateRegionResponse response;
  Write(**region, store.options().lease, response.mutable_region());
  return response;
}

absl::StatusOr<v1::RenewRegionResponse> Renew(RegionStore& store, const RegionAccess& access,
                                              const v1::RenewRegionRequest& request) {
  const auto region = store.Find(access.owner, request.region());
  if (region == nullptr) return ResourceNotFound("region", kRegionType, request.region(), "");
  v1::RenewRegionResponse response;
  Write(*region, store.options().lease, response.mutable_region());
  return response;
}

absl::StatusOr<v1::ReleaseRegionResponse> Release(RegionStore& store, const RegionAccess& access,
                                                  const v1::ReleaseRegionRequest& request) {
  if (!store.Release(access.owner, request.region())) {
    return ResourceNotFound("region", kRegionType, request.region(), "");
  }
  return v1::ReleaseRegionResponse();
}

// Checks who asks, then answers on the control thread: giving a gigabyte of pages takes a while.
template <typename Request, typename Response>
std::function<void(grpc::ByteBuffer, Reply)> ForLocalCallers(
    ServiceContext* context, absl::StatusOr<Response> (*answer)(RegionStore&, const RegionAccess&, const Request&)) {
  return OnControlThread<Request>(context,
                                  [context, answer](const Request& request, const Reply& reply) -> absl::StatusOr<Response> {
                                    const RegionAccess access = RegionAccessOf(context->regions, reply.peer());
                                    if (absl::Status status = CheckAccess("", &access); !status.ok()) return status;
                                    return answer(*context->regions, access, request);
                                  });
}

}  // namespace

ServiceMethods MakeSharedMemoryService(ServiceContext* context) {
  ServiceMethods made;
  made.name = Base::service_full_name();
  auto service = std::make_unique<RawService>();

  Method create;
  create.name = made.name + "/CreateRegion";
  create.request_next = [raw = service.get()](auto* call, auto* request, auto* writer, auto* queue, void* tag) {
    raw->RequestCreateRegion(call, request, writer, queue, queue, tag);
  };
  create.handle = ForLocalCallers(context, &Create);
  made.methods.push_back(std::move(create));

  Method renew;
  renew.name = made.name + "/RenewRegion";
  renew.request_next = [raw = service.get()](auto* call, auto* request, auto* writer, auto* queue, void* tag) {
    raw->RequestRenewRegion(call, request, writer, queue, queue, tag);
  };
  renew.handle = ForLocalCallers(context, &Renew);
  made.methods.push_back(std::move(renew));

  Method release;
  release.name = made.name + "/ReleaseRegion";
  release.request_next = [raw = service.get()](auto* call, auto* request, auto* writer, auto* queue, void* tag) {
    raw->RequestReleaseRegion(call, request, writer, queue, queue, tag);
  };
  release.handle = ForLocalCallers(context, &Release);
  made.methods.push_back(std::move(release));

  made.service = std::move(service);
  return made;
}

}  // namespace phasor::server
