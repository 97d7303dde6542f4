// A device made of host memory, for tests alone. Streams are queues of work that runs only when somebody waits for it, in a
// random order of those that are possible: what lacks an event, or touches host memory too early, shows as wrong bits. Every
// call can be made to fail.
#ifndef PHASOR_TESTS_KERNELS_CUDA_FAKE_DRIVER_H_
#define PHASOR_TESTS_KERNELS_CUDA_FAKE_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "kernels/cuda/driver.h"
#include "tests/kernels/cuda/host_grid.h"

namespace phasor::cuda {

struct FakeOptions {
  int devices = 1;
  int64_t device_bytes = int64_t{1} << 30;
  HostGrid grid;
  uint64_t seed = 1;
  int64_t wrong_launch = 0;  // after this launch (1: the first) a bit of what is copied out next is wrong; 0: never
  std::set<int> unusable;    // devices that are listed so
  std::set<int> taken;       // devices that other processes have for themselves: no context can be made there
};

struct FakeStream;
struct FakeEvent;

class FakeDriver final : public Driver {
 public:
  explicit FakeDriver(FakeOptions options) : options_(options), random_(options.seed) {}
  // Everything has been given back: a test failure otherwise.
  ~FakeDriver() override;

  // Call number `n` from now on (1: the next) answers this; ABORTED stays for ever after. 0: none.
  void FailCall(int64_t n, absl::Status error);
  // The same of the next `n` allocations of device memory.
  void FailAllocations(int64_t n);
  int64_t calls() const;
  int64_t allocated_bytes(int device) const;
  int64_t launches() const;
  // Devices on which this process has a context: what is asked of a device makes one there, for the thread's current one
  // where none is named.
  std::set<int> contexts() const;

  // Memory of `device` that another process has, as a handle of it. It is there for kernels alone while it is mapped:
  // anybody else who touches it ends the process with SIGSEGV.
  std::string Export(int device, int64_t bytes);
  // The other process freed that one and got its address again: the handle is new, and opens only when the old one is open
  // nowhere.
  std::string ExportAgain(const std::string& freed);
  // The same by a process that sees the bytes: all of the allocation, which goes on.
  std::string Read(const std::string& handle) const;
  void Write(const std::string& handle, std::string_view bytes);
  // The other process frees it: its handle opens nothing any more; who has it mapped still does.
  void Unexport(const std::string& handle);
  // How often the handles are open now, all together.
  int64_t opened() const;

  absl::StatusOr<std::vector<DeviceInfo>> Devices() override;
  absl::StatusOr<int64_t> FreeBytes(int device) override;
  absl::StatusOr<std::byte*> Allocate(int device, int64_t bytes) override;
  void Free(int device, std::byte* memory) override;
  void PinThrough(int device) override;
  absl::StatusOr<std::byte*> AllocatePinned(int64_t bytes) override;
  void FreePinned(std::byte* memory) override;
  absl::Status Pin(std::byte* memory, int64_t bytes) override;
  void Unpin(std::byte* memory) override;
  absl::StatusOr<DeviceMapping> OpenIpc(int device, std::string_view handle) override;
  void CloseIpc(int device, std::byte* memory) override;
  absl::StatusOr<Stream> CreateStream(int device) override;
  void DestroyStream(Stream stream) override;
  absl::StatusOr<Event> CreateEvent(int device) override;
  void DestroyEvent(Event event) override;
  absl::Status Record(Event event, Stream stream) override;
  absl::Status Wait(Stream stream, Event event) override;
  absl::Status Synchronize(Event event) override;
  absl::StatusOr<double> Seconds(Event from, Event to) override;
  absl::Status CopyIn(Stream stream, const Strip& from, std::byte* to) override;
  absl::Status CopyOut(Stream stream, const std::byte* from, const Strip& to) override;
  absl::Status Launch(Stream stream, const KernelParams& params) override;

 private:
  absl::Status Next();  // counts a call, and fails it where a test wants that
  // The same of a call that needs the device's context; it is the thread's current device then.
  absl::Status Next(int device);
  void Enter(int device);  // without a chance to fail
  int PinningDevice();
  bool Step();  // one operation of a random stream; false: none can run

  struct Foreign {
    int device = 0;
    std::byte* data = nullptr;
    int64_t bytes = 0, mapped = 0;  // whole pages
    int64_t opened = 0;
    bool is_exported = true;
    std::string before;  // the handle of what was at this address
  };
  // Whether the bytes of all that is open (or of one, whatever it is) can be reached.
  void Reach(bool can) const;
  static void Reach(const Foreign& foreign, bool can);

  const FakeOptions options_;
  mutable std::mutex mutex_;
  std::mt19937_64 random_;
  int64_t calls_ = 0, fail_at_ = 0, fail_allocations_ = 0, launches_ = 0;
  absl::Status failure_;
  bool lost_ = false;
  std::map<std::thread::id, int> current_;
  std::set<int> contexts_;
  int pins_through_ = -1;
  std::map<int, std::map<std::byte*, int64_t>> allocated_;
  std::map<std::byte*, int64_t> pinned_;
  std::map<std::string, Foreign> foreign_;  // by handle
  std::set<FakeStream*> streams_;
  FakeStream* preferred_ = nullptr;  // perhaps gone: never looked into
  std::set<FakeEvent*> events_;
};

}  // namespace phasor::cuda

#endif  // PHASOR_TESTS_KERNELS_CUDA_FAKE_DRIVER_H_
