// Which devices are used: those that the kernels are compiled for, and that do what they are asked.
#include "kernels/cuda/usable_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "kernels/cuda/architectures.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/kernels/cuda/fake_driver.h"

namespace phasor::cuda {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<FakeDriver> DriverOf(int devices) {
  FakeOptions options;
  options.devices = devices;
  return std::make_shared<FakeDriver>(options);
}

TEST(RunsOnTest, MachineCodeOfItsMajorAndPtxOfTheNewest) {
  constexpr std::array kBuilt = {75, 80, 90, 100, 120};
  for (const auto& [major, minor] :
       {std::pair{7, 5}, {8, 0}, {8, 6}, {8, 9}, {9, 0}, {10, 0}, {10, 3}, {12, 0}, {12, 1}, {13, 0}}) {
    EXPECT_TRUE(RunsOn(kBuilt, major, minor)) << major << "." << minor;
  }
  for (const auto& [major, minor] : {std::pair{6, 1}, {7, 0}, {7, 2}, {11, 0}}) {
    EXPECT_FALSE(RunsOn(kBuilt, major, minor)) << major << "." << minor;
  }
  EXPECT_FALSE(RunsOn({}, 9, 0));
}

TEST(UsableDevicesTest, AllOrThoseThatAreWanted) {
  const auto driver = DriverOf(3);
  const auto all = FindUsableDevices(driver, {});
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_THAT(all->ids, ElementsAre(0, 1, 2));
  EXPECT_EQ(all->left_out, "");
  EXPECT_EQ(driver->launches(), 3);
  EXPECT_EQ(driver->allocated_bytes(0), 0) << "nothing is kept";
  const auto one = FindUsableDevices(driver, {2});
  ASSERT_TRUE(one.ok());
  EXPECT_THAT(one->ids, ElementsAre(2));
  EXPECT_EQ(driver->launches(), 4) << "the others are not touched";
  const auto unknown = FindUsableDevices(driver, {1, 3});
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(unknown.status().message(), "device: given 3; allowed: 0, 1, 2");
}

// Every call that it takes to try the first of two devices fails once: the other is used, and it is said why.
TEST(UsableDevicesTest, OneThatDoesNotWorkIsLeftOut) {
  int left_out = 0;
  for (int n = 2; n < 200; ++n) {
    const auto driver = DriverOf(2);
    driver->FailCall(n, absl::InternalError("fakeErrorNoKernelImageForDevice"));
    const auto usable = FindUsableDevices(driver, {});
    if (driver->calls() < n) break;
    if (!usable.ok()) {
      ADD_FAILURE() << n << ": " << usable.status();
      continue;
    }
    if (usable->left_out.empty()) continue;  // a time that could not be had
    ++left_out;
    ASSERT_EQ(usable->ids.size(), 1u) << n;
    EXPECT_THAT(usable->left_out, AllOf(HasSubstr(usable->ids[0] == 1 ? "device 0 (" : "device 1 ("),
                                        HasSubstr("compute capability"), HasSubstr("fakeErrorNoKernelImage")));
  }
  EXPECT_GT(left_out, 20);
}

TEST(UsableDevicesTest, NoneIsUnavailableAndSoIsOneThatWasNamed) {
  const auto driver = DriverOf(2);
  driver->FailAllocations(100);
  const auto none = FindUsableDevices(driver, {});
  EXPECT_EQ(none.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(none.status().message()), AllOf(HasSubstr("device 0"), HasSubstr("device 1")));
  const auto other = DriverOf(2);
  other->FailCall(2, absl::InternalError("broken"));
  const auto named = FindUsableDevices(other, {0, 1});
  EXPECT_EQ(named.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(named.status().message()), AllOf(HasSubstr("device 0"), HasSubstr("broken")));
}

TEST(UsableDevicesTest, TheBackendSaysWhichAreNotUsed) {
  BackendOptions options;
  options.devices = {1};
  const auto backend = MakeCudaBackend(DriverOf(2), *CreateBackend("cpu"), options, "device 0 (X): broken");
  ASSERT_TRUE(backend.ok());
  EXPECT_THAT((*backend)->description(), HasSubstr("; not used: device 0 (X): broken"));
}

}  // namespace
}  // namespace phasor::cuda
