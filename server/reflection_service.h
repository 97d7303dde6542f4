// grpc.reflection.v1 and v1alpha: which services there are, and their descriptors.
//
// gRPC's own service is a synchronous one, with threads and a completion queue of its own, which take connections away from
// the queues that serve everything else and make every small call dearer. This one is a service like the others.
#ifndef PHASOR_SERVER_REFLECTION_SERVICE_H_
#define PHASOR_SERVER_REFLECTION_SERVICE_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "server/transport.h"

namespace phasor::server {

// Streams that one listener serves at a time; more are refused with RESOURCE_EXHAUSTED.
inline constexpr int kMaxReflectionStreams = 256;
// Longest question, bytes: INVALID_ARGUMENT.
inline constexpr size_t kMaxReflectionRequestBytes = 4096;

// Answers from the descriptors that are linked into the program. Thread-safe once the names are set.
class Reflection {
 public:
  // Of `list_services`, besides its own.
  void SetServices(std::vector<std::string> names);

  // Both versions. Their methods refer to this object.
  std::vector<ServiceMethods> MakeServices();

 private:
  class Stream;
  friend class Stream;

  std::vector<std::string> services_;
  std::atomic<int> streams_{0};
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_REFLECTION_SERVICE_H_
