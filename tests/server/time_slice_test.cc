// A thread's wish, as far as this system grants wishes, and that it is the thread's own.
#include "server/time_slice.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "gtest/gtest.h"

namespace phasor::server {
namespace {

// The beginning of the kernel's sched_attr, whose header collides with the C library's.
struct Attributes {
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime, deadline, period;
};

// Of the calling thread, microseconds.
uint64_t Slice() {
  Attributes attributes{};
  EXPECT_EQ(syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0), 0);
  return attributes.runtime / 1000;
}

bool HasSlices() {
  // A container may forbid the call altogether.
  Attributes own{};
  if (syscall(SYS_sched_getattr, 0, &own, sizeof(own), 0) != 0 || syscall(SYS_sched_setattr, 0, &own, 0) != 0) return false;
  utsname names{};
  int major = 0, minor = 0;
  return uname(&names) == 0 && std::sscanf(names.release, "%d.%d", &major, &minor) == 2 &&
         (major > 6 || (major == 6 && minor >= 12));
}

TEST(TimeSliceTest, EachThreadHasItsOwn) {
  if (!HasSlices()) GTEST_SKIP() << "Linux before 6.12, or it may not be asked here: all threads have one length";
  const uint64_t before = Slice();
  std::thread([] {
    AskForTimeSlice(kShortSlice);
    EXPECT_EQ(Slice(), 300u);
    AskForTimeSlice(kLongSlice);
    EXPECT_EQ(Slice(), 20000u);
  }).join();
  EXPECT_EQ(Slice(), before);
}

TEST(TimeSliceTest, PriorityAndPolicyStay) {
  std::thread([] {
    const auto self = static_cast<id_t>(gettid());
    const int priority = getpriority(PRIO_PROCESS, self) + 2;
    ASSERT_EQ(setpriority(PRIO_PROCESS, self, priority), 0);
    AskForTimeSlice(kShortSlice);
    EXPECT_EQ(getpriority(PRIO_PROCESS, self), priority);
    sched_param none{};
    ASSERT_EQ(sched_setscheduler(0, SCHED_IDLE, &none), 0);
    AskForTimeSlice(kShortSlice);
    EXPECT_EQ(sched_getscheduler(0), SCHED_IDLE);
  }).join();
}

}  // namespace
}  // namespace phasor::server
