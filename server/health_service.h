// grpc.health.v1.Health: who serves, for those who ask once and for those who watch.
//
// gRPC brings a service of its own, which lives on threads and a completion queue of its own: those take connections away
// from the queues that serve everything else, and make every small call dearer. This one is a service like the others.
#ifndef PHASOR_SERVER_HEALTH_SERVICE_H_
#define PHASOR_SERVER_HEALTH_SERVICE_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "grpc/health/v1/health.pb.h"

#include "server/transport.h"

namespace phasor::server {

// Streams of Watch that one listener serves at a time; more are refused with RESOURCE_EXHAUSTED.
inline constexpr size_t kMaxHealthWatches = 4096;
// Longest name that may be asked for.
inline constexpr size_t kMaxHealthNameBytes = 200;

// The statuses of one gRPC server, by service, and the streams that watch them. Thread-safe.
class Health {
 public:
  using ServingStatus = grpc::health::v1::HealthCheckResponse::ServingStatus;

  // Of services that were not known before too. Streams that watch one of them are told when its status changes; a client
  // that takes messages slowly misses all but the newest.
  void Set(const std::vector<std::string>& services, bool serving);

  // Streams end with UNAVAILABLE when they have been told the newest status; new ones are refused. Check goes on.
  void EndWatches();

  // Its methods refer to this object.
  ServiceMethods MakeService();

 private:
  class Watch;
  struct State {
    ServingStatus status;
    bool ended;
  };

  // SERVICE_UNKNOWN for a service that was not set.
  State StateOf(std::string_view service) const;
  // All names, for an error's text.
  std::string Known() const;
  absl::Status Add(std::shared_ptr<Watch> watch);
  void Remove(const std::shared_ptr<Watch>& watch);
  void UpdateWatches();

  mutable std::mutex mutex_;
  std::map<std::string, bool, std::less<>> serving_;
  std::set<std::shared_ptr<Watch>> watches_;
  bool ended_ = false;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_HEALTH_SERVICE_H_
