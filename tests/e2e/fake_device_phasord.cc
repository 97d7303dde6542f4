// phasord whose device is made of host memory and can be made to fail: for tests of what callers and supervisors see of one.
//
//   fake_device_phasord CALL [FLAG…]    call number CALL to the driver loses the device; 0: none does
//
// Ends as phasord does, but for 70 where the driver was used wrongly; says on standard error how many calls it had, and how
// many connections to a device a runtime would have been asked for.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/cuda/cuda_backend.h"
#include "server/phasord.h"
#include "tests/kernels/cuda/fake_driver.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: fake_device_phasord CALL [FLAG…]\n", stderr);
    return 2;
  }
  auto driver = std::make_shared<phasor::cuda::FakeDriver>(phasor::cuda::FakeOptions{});
  driver->FailCall(std::atoll(argv[1]), absl::AbortedError("fakeErrorIllegalAddress"));
  std::vector<char*> arguments = {argv[0]};
  arguments.insert(arguments.end(), argv + 2, argv + argc);
  arguments.push_back(nullptr);
  const int code = phasor::server::RunPhasord(argc - 1, arguments.data(), [&driver](const phasor::BackendOptions& options) {
    return phasor::cuda::MakeCudaBackend(driver, *phasor::CreateBackend("cpu"), options);
  });
  std::fprintf(stderr, "calls to the driver: %ld\n", static_cast<long>(driver->calls()));
  const char* const connections = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  std::fprintf(stderr, "connections: %s\n", connections == nullptr ? "none" : connections);
  driver.reset();
  return testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed() ? 70 : code;
}
