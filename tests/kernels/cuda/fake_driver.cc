#include "tests/kernels/cuda/fake_driver.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <new>
#include <utility>

namespace phasor::cuda {

struct FakeStream {
  int device = 0;
  std::deque<std::function<bool(bool run)>> queue;  // run false: whether it can; true: does it
};
struct FakeEvent {
  int device = 0;
  int64_t recorded = 0, happened = 0;
};

namespace {

constexpr auto kAlignment = std::align_val_t{256};

std::byte* New(int64_t bytes) {
  auto* memory = static_cast<std::byte*>(::operator new(static_cast<size_t>(bytes), kAlignment));
  std::memset(memory, 0x5a, static_cast<size_t>(bytes));
  return memory;
}
void Delete(std::byte* memory) { ::operator delete(memory, kAlignment); }

FakeStream* Of(Driver::Stream stream) { return reinterpret_cast<FakeStream*>(stream); }
FakeEvent* Of(Driver::Event event) { return reinterpret_cast<FakeEvent*>(event); }

}  // namespace

FakeDriver::~FakeDriver() {
  for (const auto& [device, blocks] : allocated_) EXPECT_TRUE(blocks.empty()) << "device " << device;
  EXPECT_TRUE(pinned_.empty());
  EXPECT_TRUE(streams_.empty());
  EXPECT_TRUE(events_.empty());
  for (const auto& [handle, foreign] : foreign_) {
    EXPECT_EQ(foreign.opened, 0) << "a handle left open";
    munmap(foreign.data, static_cast<size_t>(foreign.mapped));
  }
}

std::string FakeDriver::Export(int device, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const int64_t page = sysconf(_SC_PAGESIZE);
  Foreign foreign;
  foreign.device = device;
  foreign.bytes = bytes;
  foreign.mapped = (bytes + page - 1) / page * page;
  void* const data = mmap(nullptr, static_cast<size_t>(foreign.mapped), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(data, MAP_FAILED);
  foreign.data = static_cast<std::byte*>(data);
  std::string handle(kDeviceHandleBytes, 'h');
  const size_t number = foreign_.size() + 1;
  std::memcpy(handle.data(), &number, sizeof(number));
  foreign_.emplace(handle, foreign);
  return handle;
}

std::string FakeDriver::ExportAgain(const std::string& freed) {
  Unexport(freed);
  const Foreign old = [&] {
    const std::lock_guard lock(mutex_);
    return foreign_.at(freed);
  }();
  std::string handle = Export(old.device, old.bytes);
  const std::lock_guard lock(mutex_);
  foreign_.at(handle).before = freed;
  return handle;
}

void FakeDriver::Reach(const Foreign& foreign, bool can) {
  EXPECT_EQ(mprotect(foreign.data, static_cast<size_t>(foreign.mapped), can ? PROT_READ | PROT_WRITE : PROT_NONE), 0);
}
void FakeDriver::Reach(bool can) const {
  for (const auto& [handle, foreign] : foreign_) {
    if (foreign.opened > 0) Reach(foreign, can);
  }
}

std::string FakeDriver::Read(const std::string& handle) const {
  const std::lock_guard lock(mutex_);
  const Foreign& foreign = foreign_.at(handle);
  Reach(foreign, true);
  std::string bytes(reinterpret_cast<const char*>(foreign.data), static_cast<size_t>(foreign.bytes));
  Reach(foreign, false);
  return bytes;
}
void FakeDriver::Write(const std::string& handle, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  const Foreign& foreign = foreign_.at(handle);
  ASSERT_LE(static_cast<int64_t>(bytes.size()), foreign.bytes);
  Reach(foreign, true);
  std::memcpy(foreign.data, bytes.data(), bytes.size());
  Reach(foreign, false);
}
void FakeDriver::Unexport(const std::string& handle) {
  const std::lock_guard lock(mutex_);
  foreign_.at(handle).is_exported = false;
}
int64_t FakeDriver::opened() const {
  const std::lock_guard lock(mutex_);
  int64_t sum = 0;
  for (const auto& [handle, foreign] : foreign_) sum += foreign.opened;
  return sum;
}

absl::StatusOr<DeviceMapping> FakeDriver::OpenIpc(int device, std::string_view handle) {
  const std::lock_guard lock(mutex_);
  if (absl::Status status = Next(device); !status.ok()) return status;
  const auto found = foreign_.find(std::string(handle));
  if (found == foreign_.end() || !found->second.is_exported || found->second.device != device) {
    return absl::InvalidArgumentError("fakeErrorInvalidResourceHandle");
  }
  const auto before = foreign_.find(found->second.before);
  if (before != foreign_.end() && before->second.opened > 0) return absl::AlreadyExistsError("fakeErrorAlreadyMapped");
  ++found->second.opened;
  return DeviceMapping{found->second.data, found->second.bytes};
}
void FakeDriver::CloseIpc(int device, std::byte* memory) {
  const std::lock_guard lock(mutex_);
  Enter(device);
  for (auto& [handle, foreign] : foreign_) {
    if (foreign.data != memory) continue;
    EXPECT_EQ(foreign.device, device);
    EXPECT_GT(foreign.opened, 0) << "closed twice";
    --foreign.opened;
    return;
  }
  ADD_FAILURE() << "closed, and was never open";
}

absl::Status FakeDriver::Next() {
  ++calls_;
  if (lost_) return failure_;
  if (fail_at_ == 0 || --fail_at_ > 0) return absl::OkStatus();
  if (IsDeviceLost(failure_)) lost_ = true;
  return failure_;
}

void FakeDriver::Enter(int device) {
  current_[std::this_thread::get_id()] = device;
  if (!options_.taken.contains(device)) contexts_.insert(device);
}
absl::Status FakeDriver::Next(int device) {
  Enter(device);
  if (absl::Status status = Next(); !status.ok()) return status;
  return options_.taken.contains(device) ? absl::UnavailableError("fakeErrorDevicesUnavailable") : absl::OkStatus();
}
int FakeDriver::PinningDevice() {
  return pins_through_ >= 0 ? pins_through_ : current_[std::this_thread::get_id()];  // 0 until a thread has chosen one
}

void FakeDriver::FailCall(int64_t n, absl::Status error) {
  const std::lock_guard lock(mutex_);
  fail_at_ = n;
  failure_ = std::move(error);
}
void FakeDriver::FailAllocations(int64_t n) {
  const std::lock_guard lock(mutex_);
  fail_allocations_ = n;
}
int64_t FakeDriver::calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}
int64_t FakeDriver::launches() const {
  const std::lock_guard lock(mutex_);
  return launches_;
}
std::set<int> FakeDriver::contexts() const {
  const std::lock_guard lock(mutex_);
  return contexts_;
}
int64_t FakeDriver::allocated_bytes(int device) const {
  const std::lock_guard lock(mutex_);
  int64_t sum = 0;
  if (const auto blocks = allocated_.find(device); blocks != allocated_.end()) {
    for (const auto& [data, bytes] : blocks->second) sum += bytes;
  }
  return sum;
}

absl::StatusOr<std::vector<DeviceInfo>> FakeDriver::Devices() {
  const std::lock_guard lock(mutex_);
  if (absl::Status status = Next(); !status.ok()) return status;
  std::vector<DeviceInfo> devices;
  for (int id = 0; id < options_.devices; ++id) {
    devices.push_back({id, "Fake", 9, 0, options_.device_bytes, options_.grid.resident_blocks});
    devices.back().uuid = "GPU-fa4e-" + std::to_string(id);
    if (options_.unusable.contains(id)) devices.back() = {.id = id, .unusable = "fakeErrorInvalidDevice"};
  }
  return devices;
}

absl::StatusOr<int64_t> FakeDriver::FreeBytes(int device) {
  const int64_t used = allocated_bytes(device);
  const std::lock_guard lock(mutex_);
  if (absl::Status status = Next(device); !status.ok()) return status;
  return options_.device_bytes - used;
}

absl::StatusOr<std::byte*> FakeDriver::Allocate(int device, int64_t bytes) {
  const int64_t used = allocated_bytes(device);
  const std::lock_guard lock(mutex_);
  if (absl::Status status = Next(device); !status.ok()) return status;
  if (fail_allocations_ > 0) {
    --fail_allocations_;
    return absl::ResourceExhaustedError("fakeErrorMemoryAllocation");
  }
  if (used + bytes > options_.device_bytes) return absl::ResourceExhaustedError("fakeErrorMemoryAllocation");
  std::byte* const memory = New(bytes);
  allocated_[device][memory] = bytes;
  return memory;
}
void FakeDriver::Free(int device, std::byte* memory) {
  const std::lock_guard lock(mutex_);
  Enter(device);
  // As the runtime does: what runs on the device ends first.
  while (Step()) {
  }
  EXPECT_EQ(allocated_[device].erase(memory), 1u);
  Delete(memory);
}
void FakeDriver::PinThrough(int device) {
  const std::lock_guard lock(mutex_);
  pins_through_ = device;
}
absl::StatusOr<std::byte*> FakeDriver::AllocatePinned(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (absl::Status status = Next(PinningDevice()); !status.ok()) return status;
  std::byte* const memory = New(bytes);
  pinned_[memory] = bytes;
  return memory;
}
void FakeDriver::FreePinned(std::byte* memory) {
  const std::lock_guard lock(mutex_);
  Enter(PinningDevice());
  EXPECT_EQ(pinned_.erase(memory), 1u);
  Delete(memory);
}
absl::Status FakeDriver::Pin(std::byte* memory, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (absl::Status status = Next(PinningDevice()); !status.ok()) return status;
  EXPECT_TRUE(pinned_.emplace(memory, bytes).second);
  return absl::OkStatus();
}
void FakeDriver::Unpin(std::byte* memory) {
  const std::lock_guard lock(mutex_);
  Enter(PinningDevice());
  EXPECT_EQ(pinned_.erase(memory), 1u);
}

absl::StatusOr<Driver::Stream> FakeDriver::CreateStream(int device) {
  const std::lock_guard lock(mutex_);
  if (absl::Status status = Next(device); !status.ok()) return status;
  auto* const stream = new FakeStream{device, {}};
  streams_.insert(stream);
  return Stream{reinterpret_cast<uintptr_t>(stream)};
}
void FakeDriver::DestroyStream(Stream handle) {
  auto* const stream = Of(handle);
  const std::lock_guard lock(mutex_);
  Enter(stream->device);
  EXPECT_TRUE(stream->queue.empty() || lost_) << "work left on a stream";
  EXPECT_EQ(streams_.erase(stream), 1u);
  delete stream;
}
absl::StatusOr<Driver::Event> FakeDriver::CreateEvent(int device) {
  const std::lock_guard lock(mutex_);
  if (absl::Status status = Next(device); !status.ok()) return status;
  auto* const event = new FakeEvent;
  event->device = device;
  events_.insert(event);
  return Event{reinterpret_cast<uintptr_t>(event)};
}
void FakeDriver::DestroyEvent(Event handle) {
  auto* const event = Of(handle);
  const std::lock_guard lock(mutex_);
  Enter(event->device);
  EXPECT_EQ(events_.erase(event), 1u);
  delete event;
}

absl::Status FakeDriver::Record(Event event_handle, Stream stream_handle) {
  auto* const event = Of(event_handle);
  auto* const stream = Of(stream_handle);
  const std::lock_guard lock(mutex_);
  if (absl::Status status = Next(stream->device); !status.ok()) return status;
  const int64_t number = ++event->recorded;
  stream->queue.push_back([event, number](bool run) {
    if (run) event->happened = number;
    return true;
  });
  return absl::OkStatus();
}

absl::Status FakeDriver::Wait(Stream stream_handle, Event event_handle) {
  auto* const event = Of(event_handle);
  auto* const stream = Of(stream_handle);
  const std::lock_guard lock(mutex_);
  if (absl::Status status = Next(stream->device); !status.ok()) return status;
  const int64_t number = event->recorded;
  stream->queue.push_back([event, number](bool) { return event->happened >= number; });
  return absl::OkStatus();
}

bool FakeDriver::Step() {
  std::vector<FakeStream*> ready;
  for (FakeStream* stream : streams_) {
    if (!stream->queue.empty() && stream->queue.front()(false)) ready.push_back(stream);
  }
  if (ready.empty()) return false;
  // One stream runs ahead of the others as far as it can, until another is preferred: what lacks an order shows sooner so
  // than where streams take turns.
  FakeStream* stream = ready[random_() % ready.size()];
  if (random_() % 16 != 0 && std::find(ready.begin(), ready.end(), preferred_) != ready.end()) stream = preferred_;
  preferred_ = stream;
  const auto operation = std::move(stream->queue.front());
  stream->queue.pop_front();
  operation(true);
  return true;
}

absl::Status FakeDriver::Synchronize(Event event_handle) {
  auto* const event = Of(event_handle);
  const std::lock_guard lock(mutex_);
  if (absl::Status status = Next(event->device); !status.ok()) return status;
  const int64_t number = event->recorded;
  while (event->happened < number) {
    if (!Step()) return absl::InternalError("fake: the event can never happen");
  }
  return absl::OkStatus();
}

absl::StatusOr<double> FakeDriver::Seconds(Event from_handle, Event to_handle) {
  auto* const from = Of(from_handle);
  auto* const to = Of(to_handle);
  const std::lock_guard lock(mutex_);
  if (absl::Status status = Next(to->device); !status.ok()) return status;
  if (from->recorded == 0 || from->happened < from->recorded || to->happened < to->recorded) {
    ADD_FAILURE() << "time between events that have not happened";
  }
  return 1e-6;
}

absl::Status FakeDriver::CopyIn(Stream stream_handle, const Strip& from, std::byte* to) {
  auto* const stream = Of(stream_handle);
  const std::lock_guard lock(mutex_);
  if (absl::Status status = Next(stream->device); !status.ok()) return status;
  stream->queue.push_back([from, to](bool run) {
    if (run) from.Gather(to);
    return true;
  });
  return absl::OkStatus();
}

absl::Status FakeDriver::CopyOut(Stream stream_handle, const std::byte* from, const Strip& to) {
  auto* const stream = Of(stream_handle);
  const std::lock_guard lock(mutex_);
  if (absl::Status status = Next(stream->device); !status.ok()) return status;
  const bool wrong = launches_ > 0 && launches_ == options_.wrong_launch;
  stream->queue.push_back([from, to, wrong](bool run) {
    if (!run) return true;
    to.Scatter(from);
    if (wrong) *to.host ^= std::byte{1};
    return true;
  });
  return absl::OkStatus();
}

absl::Status FakeDriver::Launch(Stream stream_handle, const KernelParams& params) {
  auto* const stream = Of(stream_handle);
  const std::lock_guard lock(mutex_);
  if (absl::Status status = Next(stream->device); !status.ok()) return status;
  EXPECT_GT(WorksOf(params), 0);
  ++launches_;
  stream->queue.push_back([this, params](bool run) {
    if (!run) return true;
    Reach(true);
    options_.grid.Launch(params);
    Reach(false);
    return true;
  });
  return absl::OkStatus();
}

}  // namespace phasor::cuda
