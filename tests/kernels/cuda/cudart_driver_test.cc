// What the driver asks of the CUDA runtime, and what it makes of its errors: above a runtime that only takes notes.
#include "kernels/cuda/cudart_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/kernels/cuda/fake_runtime.h"

namespace phasor::cuda {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CudartDriverTest : public testing::Test {
 protected:
  CudartDriverTest() { runtime.Reset(3); }

  // On a thread that has not chosen a device.
  static void OnFreshThread(const std::function<void()>& act) { std::thread(act).join(); }

  FakeRuntime& runtime = FakeRuntime::Get();
  std::shared_ptr<Driver> driver = MakeCudartDriver();
};

TEST_F(CudartDriverTest, DevicesAreListedWithoutAContext) {
  const auto devices = driver->Devices();
  ASSERT_TRUE(devices.ok());
  ASSERT_EQ(devices->size(), 3u);
  EXPECT_EQ((*devices)[1].id, 1);
  EXPECT_EQ((*devices)[1].name, "Fake");
  EXPECT_EQ((*devices)[1].uuid, "GPU-a1a2a3a4-a5a6-a7a8-a9aa-abacadaeafb0");
  EXPECT_EQ((*devices)[1].unusable, "");
  EXPECT_THAT(runtime.contexts, IsEmpty());
}

TEST_F(CudartDriverTest, OneWhosePropertiesFailDoesNotHideTheOthers) {
  runtime.no_properties[0] = cudaErrorUnknown;
  const auto devices = driver->Devices();
  ASSERT_TRUE(devices.ok()) << devices.status();
  ASSERT_EQ(devices->size(), 3u);
  EXPECT_EQ((*devices)[0].id, 0);
  EXPECT_THAT((*devices)[0].unusable, HasSubstr("cudaErrorFake"));
  EXPECT_EQ((*devices)[2].unusable, "");
  for (int id = 0; id < 3; ++id) runtime.no_properties[id] = cudaErrorUnknown;
  const auto none = driver->Devices();
  EXPECT_EQ(none.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(none.status().message()), AllOf(HasSubstr("device 0: "), HasSubstr("device 2: ")));
  runtime.Reset(0);
  EXPECT_EQ(driver->Devices().status().code(), absl::StatusCode::kUnavailable);
}

// A context takes half a gigabyte of a device, perhaps of one that is not ours.
TEST_F(CudartDriverTest, HostMemoryIsPinnedThroughADeviceThatIsUsed) {
  runtime.no_context[0] = cudaErrorDevicesUnavailable;
  std::array<std::byte, 64> block;
  OnFreshThread([&] {
    EXPECT_EQ(driver->Pin(block.data(), 64).code(), absl::StatusCode::kUnavailable) << "no device is lost by that";
  });
  driver->PinThrough(2);
  OnFreshThread([&] { EXPECT_TRUE(driver->Pin(block.data(), 64).ok()); });
  OnFreshThread([&] { driver->Unpin(block.data()); });
  std::byte* memory = nullptr;
  OnFreshThread([&] {
    const auto made = driver->AllocatePinned(100);
    ASSERT_TRUE(made.ok()) << made.status();
    memory = *made;
  });
  OnFreshThread([&] { driver->FreePinned(memory); });
  EXPECT_THAT(runtime.contexts, ElementsAre(2));
}

TEST_F(CudartDriverTest, NoThreadTouchesADeviceThatItDidNotName) {
  const auto stream = driver->CreateStream(1);
  const auto from = driver->CreateEvent(1), to = driver->CreateEvent(1);
  ASSERT_TRUE(stream.ok() && from.ok() && to.ok());
  std::array<std::byte, 64> block;
  const std::vector<std::function<absl::Status()>> calls = {
      [&] { return driver->Record(*from, *stream); },
      [&] { return driver->Wait(*stream, *from); },
      [&] { return driver->Synchronize(*from); },
      [&] { return driver->Seconds(*from, *to).status(); },
      [&] { return driver->CopyIn(*stream, Strip{block.data(), 64}, block.data()); },
      [&] { return driver->CopyOut(*stream, block.data(), Strip{block.data(), 64}); },
      [&] {
        ToeplitzParams params;
        params.rows = params.queries = params.keys = 1;
        return driver->Launch(*stream, params);
      },
      [&] { return driver->FreeBytes(1).status(); },
  };
  for (const auto& call : calls) OnFreshThread([&] { EXPECT_TRUE(call().ok()); });
  OnFreshThread([&] { driver->DestroyEvent(*from); });
  OnFreshThread([&] { driver->DestroyEvent(*to); });
  OnFreshThread([&] { driver->DestroyStream(*stream); });
  EXPECT_THAT(runtime.contexts, ElementsAre(1));
}

TEST_F(CudartDriverTest, Errors) {
  const std::vector<std::pair<cudaError_t, absl::StatusCode>> codes = {
      {cudaErrorMemoryAllocation, absl::StatusCode::kResourceExhausted},
      {cudaErrorDevicesUnavailable, absl::StatusCode::kUnavailable},
      {cudaErrorIllegalAddress, absl::StatusCode::kAborted},
      {cudaErrorECCUncorrectable, absl::StatusCode::kAborted},
      {cudaErrorInvalidValue, absl::StatusCode::kInternal},
  };
  for (const auto& [error, code] : codes) {
    runtime.errors["cudaMalloc"] = error;
    EXPECT_EQ(driver->Allocate(0, 64).status().code(), code) << static_cast<int>(error);
  }
}

TEST_F(CudartDriverTest, HandlesThatDoNotOpen) {
  const std::string handle(kDeviceHandleBytes, 'h');
  const std::vector<std::pair<cudaError_t, absl::StatusCode>> codes = {
      {cudaErrorAlreadyMapped, absl::StatusCode::kAlreadyExists},
      {cudaErrorInvalidResourceHandle, absl::StatusCode::kInvalidArgument},
      {cudaErrorMapBufferObjectFailed, absl::StatusCode::kInvalidArgument},
      {cudaErrorUnknown, absl::StatusCode::kInvalidArgument},  // the device still answers
      {cudaErrorMemoryAllocation, absl::StatusCode::kResourceExhausted},
  };
  for (const auto& [error, code] : codes) {
    runtime.errors["cudaIpcOpenMemHandle"] = error;
    EXPECT_EQ(driver->OpenIpc(1, handle).status().code(), code) << static_cast<int>(error);
  }
  runtime.errors["cudaIpcOpenMemHandle"] = cudaErrorAlreadyMapped;
  runtime.errors["cudaMemGetInfo"] = cudaErrorIllegalAddress;
  EXPECT_EQ(driver->OpenIpc(1, handle).status().code(), absl::StatusCode::kAborted);
}

// Copies of rows take the device's copy engine longer than one of the same bytes.
TEST_F(CudartDriverTest, RowsThatLieSideBySideAreOneCopy) {
  const auto stream = driver->CreateStream(0);
  ASSERT_TRUE(stream.ok());
  std::array<std::byte, 1024> host, device;
  const auto copy = [&](int64_t row_bytes, int64_t rows, int64_t pitch) {
    const Strip strip{host.data(), row_bytes, rows, pitch};
    EXPECT_TRUE(driver->CopyIn(*stream, strip, device.data()).ok());
    EXPECT_TRUE(driver->CopyOut(*stream, device.data(), strip).ok());
  };
  copy(48, 1, 0);
  copy(16, 5, 16);
  copy(16, 5, 32);
  EXPECT_THAT(runtime.copies, ElementsAre("1d 48", "1d 48", "1d 80", "1d 80", "2d 16x5", "2d 16x5"));
  driver->DestroyStream(*stream);
}

}  // namespace
}  // namespace phasor::cuda
