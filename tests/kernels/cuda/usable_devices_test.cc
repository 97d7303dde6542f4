// Which devices are used: those that the kernels are compiled for, and that do what they are asked.
#include "kernels/cuda/usable_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cuda/architectures.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/kernels/cuda/fake_driver.h"

namespace phasor::cuda {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<FakeDriver> DriverOf(int devices, FakeOptions options = {}) {
  options.devices = devices;
  return std::make_shared<FakeDriver>(options);
}

absl::StatusOr<UsableDevices> Find(const std::shared_ptr<FakeDriver>& driver, const std::vector<int>& wanted) {
  static const std::unique_ptr<Backend> reference = *CreateBackend("reference");
  return FindUsableDevices(driver, wanted, *reference);
}

// Launches that it takes to try a device: a bias, two tables and a rotation, these in two types.
constexpr int64_t kTrialLaunches = 7;

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
  const auto all = Find(driver, {});
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_THAT(all->ids, ElementsAre(0, 1, 2));
  EXPECT_EQ(all->left_out, "");
  EXPECT_EQ(driver->launches(), 3 * kTrialLaunches);
  EXPECT_EQ(driver->allocated_bytes(0), 0) << "nothing is kept";
  const auto one = Find(driver, {2});
  ASSERT_TRUE(one.ok());
  EXPECT_THAT(one->ids, ElementsAre(2));
  EXPECT_EQ(driver->launches(), 4 * kTrialLaunches) << "the others are not touched";
  const auto unknown = Find(driver, {1, 3});
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(unknown.status().message(), "device: given 3; allowed: 0, 1, 2");
}

// Every call that it takes to try the first of two devices fails once: the other is used, and it is said why.
TEST(UsableDevicesTest, OneThatDoesNotWorkIsLeftOut) {
  int left_out = 0;
  for (int n = 2; n < 500; ++n) {
    const auto driver = DriverOf(2);
    driver->FailCall(n, absl::InternalError("fakeErrorNoKernelImageForDevice"));
    const auto usable = Find(driver, {});
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
  EXPECT_GT(left_out, 140);
}

// What a kernel stores is wrong by a bit, of any of the launches.
TEST(UsableDevicesTest, WrongBitsOfAnyKernelAreNoticed) {
  for (int64_t n = 1; n <= kTrialLaunches; ++n) {
    FakeOptions fake;
    fake.wrong_launch = n;
    const auto driver = DriverOf(2, fake);
    const auto usable = Find(driver, {});
    ASSERT_TRUE(usable.ok()) << usable.status();
    EXPECT_THAT(usable->ids, ElementsAre(1)) << n;
    EXPECT_THAT(usable->left_out, HasSubstr("wrong bits in a ")) << n;
  }
}

TEST(UsableDevicesTest, ABadDeviceDoesNotHideTheOthers) {
  FakeOptions fake;
  fake.unusable = {0};
  fake.taken = {2};
  const auto driver = DriverOf(4, fake);
  const auto usable = Find(driver, {});
  ASSERT_TRUE(usable.ok()) << usable.status();
  EXPECT_THAT(usable->ids, ElementsAre(1, 3));
  EXPECT_EQ(usable->left_out,
            "device 0: fakeErrorInvalidDevice; device 2 (Fake, compute capability 9.0): fakeErrorDevicesUnavailable");
  EXPECT_THAT(std::string(Find(driver, {0}).status().message()), HasSubstr("device 0: fakeErrorInvalidDevice"));
  EXPECT_EQ(Find(driver, {0}).status().code(), absl::StatusCode::kUnavailable) << "it is there, so it is no mistake";
  // Nor does one that stopped to answer since it was tried.
  const auto backend = MakeCudaBackend(driver, *CreateBackend("cpu"), {});
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ((*backend)->stats().devices.size(), 2u);
  EXPECT_THAT((*backend)->description(), HasSubstr("; not used: device 0: fakeErrorInvalidDevice; device 2 (Fake"));
  BackendOptions options;
  options.devices = {2};
  EXPECT_EQ(MakeCudaBackend(driver, *CreateBackend("cpu"), options).status().code(), absl::StatusCode::kUnavailable);
}

// A context is half a gigabyte of somebody's device.
TEST(UsableDevicesTest, DevicesThatAreNotUsedGetNoContext) {
  FakeOptions fake;
  fake.taken = {0};
  const auto driver = DriverOf(3, fake);
  BackendOptions options;
  options.devices = {1};
  ASSERT_TRUE(Find(driver, options.devices).ok());
  const auto backend = MakeCudaBackend(driver, *CreateBackend("cpu"), options);
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto pinning = (*backend)->pinning();
  // A thread that has not asked the driver for anything yet, as a server's workers have not.
  std::thread([&] {
    std::vector<std::byte> block(4096);
    EXPECT_TRUE(pinning->Pin(block.data(), 4096));
    pinning->Unpin(block.data());
  }).join();
  EXPECT_THAT(driver->contexts(), ElementsAre(1));
}

TEST(UsableDevicesTest, NoneIsUnavailableAndSoIsOneThatWasNamed) {
  const auto driver = DriverOf(2);
  driver->FailAllocations(100);
  const auto none = Find(driver, {});
  EXPECT_EQ(none.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(none.status().message()), AllOf(HasSubstr("device 0"), HasSubstr("device 1")));
  const auto other = DriverOf(2);
  other->FailCall(2, absl::InternalError("broken"));
  const auto named = Find(other, {0, 1});
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
