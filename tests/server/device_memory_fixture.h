// Tensors in the memory of a device that another process has, on the fake device.
#ifndef PHASOR_TESTS_SERVER_DEVICE_MEMORY_FIXTURE_H_
#define PHASOR_TESTS_SERVER_DEVICE_MEMORY_FIXTURE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "kernels/cuda/cuda_backend.h"
#include "server/device_store.h"
#include "server/region_access.h"
#include "tests/kernels/cuda/fake_driver.h"

namespace phasor::server {

// The backend of a fake device, and what a server beside it has.
struct FakeDevice {
  explicit FakeDevice(int64_t handles = 4, int devices = 1, BackendOptions backend_options = {})
      : driver(std::make_shared<cuda::FakeDriver>(Options(devices))) {
    auto made = cuda::MakeCudaBackend(driver, *CreateBackend("cpu"), backend_options);
    EXPECT_TRUE(made.ok()) << made.status();
    backend = *std::move(made);
    DeviceStoreOptions options;
    options.max_handles = handles;
    options.lease = std::chrono::hours(1);
    store = std::make_unique<DeviceStore>(options, SharingOf(*backend));
    access = RegionAccessOf(nullptr, "unix:", store.get());
  }
  static cuda::FakeOptions Options(int devices) {
    cuda::FakeOptions options;
    options.devices = devices;
    return options;
  }

  std::shared_ptr<cuda::FakeDriver> driver;
  std::unique_ptr<Backend> backend;  // until an engine takes it
  std::unique_ptr<DeviceStore> store;
  RegionAccess access;
};

inline v1::DeviceMemory OnDevice(const std::string& handle, uint64_t offset, uint64_t size, uint32_t device = 0) {
  v1::DeviceMemory place;
  place.set_handle(handle);
  place.set_device(device);
  place.set_offset_bytes(offset);
  place.set_size_bytes(size);
  return place;
}

}  // namespace phasor::server

#endif  // PHASOR_TESTS_SERVER_DEVICE_MEMORY_FIXTURE_H_
