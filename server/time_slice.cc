#include "server/time_slice.h"

#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#endif

namespace phasor::server {

#ifdef __linux__
namespace {

// The kernel's sched_attr, whose header collides with the C library's.
struct Attributes {
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime, deadline, period;  // nanoseconds
};

}  // namespace

void AskForTimeSlice(std::chrono::microseconds slice) {
  constexpr uint32_t kOther = 0, kBatch = 3;
  Attributes attributes{};
  attributes.size = sizeof(attributes);
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return;
  if (attributes.policy != kOther && attributes.policy != kBatch) return;  // the operator has chosen another policy
  attributes.runtime = static_cast<uint64_t>(std::chrono::nanoseconds(slice).count());
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}
#else
void AskForTimeSlice(std::chrono::microseconds) {}
#endif

}  // namespace phasor::server
