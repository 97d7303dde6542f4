#include "kernels/cuda/lane.h"

#include <utility>

namespace phasor::cuda {

PinnedBuffer::~PinnedBuffer() {
  if (data_ != nullptr) driver_->FreePinned(data_);
}

absl::Status PinnedBuffer::Reserve(int64_t bytes) {
  if (bytes <= size_) return absl::OkStatus();
  if (data_ != nullptr) driver_->FreePinned(std::exchange(data_, nullptr));
  size_ = 0;
  auto data = driver_->AllocatePinned(bytes);
  if (!data.ok()) return data.status();
  data_ = *data;
  size_ = bytes;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Lane>> Lane::Create(Driver* driver, DeviceMemory* memory, int device) {
  std::unique_ptr<Lane> lane(new Lane(driver, memory));
  if (absl::Status status = lane->Init(device); !status.ok()) return status;
  return lane;
}

absl::Status Lane::Init(int device) {
  const auto event = [&](Driver::Event* to) {
    auto made = driver_->CreateEvent(device);
    if (made.ok()) *to = *made;
    return made.status();
  };
  for (Driver::Stream& stream : streams_) {
    auto made = driver_->CreateStream(device);
    if (!made.ok()) return made.status();
    stream = *made;
  }
  for (auto& slot : slots_) {
    slot = std::make_unique<Slot>(driver_);
    for (Driver::Event& mark : slot->marks) {
      if (absl::Status status = event(&mark); !status.ok()) return status;
    }
  }
  return event(&fence_);
}

Lane::~Lane() {
  for (const auto& slot : slots_) {
    if (slot == nullptr) continue;
    for (const Driver::Event mark : slot->marks) {
      if (mark != Driver::Event{}) driver_->DestroyEvent(mark);
    }
  }
  if (fence_ != Driver::Event{}) driver_->DestroyEvent(fence_);
  for (const Driver::Stream stream : streams_) {
    if (stream != Driver::Stream{}) driver_->DestroyStream(stream);
  }
}

absl::StatusOr<std::byte*> Lane::ReserveConstants(int64_t bytes) {
  if (bytes > constants_.size()) {
    constants_ = DeviceBuffer();
    auto made = memory_->Allocate(bytes);
    if (!made.ok()) return made.status();
    constants_ = *std::move(made);
  }
  return constants_.data();
}

absl::Status Lane::Finish(Slot& slot, DeviceTimes* times) {
  if (!slot.busy) return absl::OkStatus();
  slot.busy = false;
  const absl::Status status = driver_->Synchronize(slot.marks[kOutEnd]);
  if (!status.ok()) {
    slot.unpack.clear();
    return status;
  }
  for (const auto& [strip, from] : slot.unpack) strip.Scatter(from);
  slot.unpack.clear();
  const auto add = [&](Mark from, Mark to, double* sum) {
    if (const auto seconds = driver_->Seconds(slot.marks[from], slot.marks[to]); seconds.ok()) *sum += *seconds;
  };
  add(kInBegin, kInEnd, &times->copy_in);
  add(kKernelBegin, kKernelEnd, &times->kernel);
  add(kOutBegin, kOutEnd, &times->copy_out);
  return absl::OkStatus();
}

absl::Status Lane::FinishAll(DeviceTimes* times) {
  absl::Status first;
  for (const auto& slot : slots_) first.Update(Finish(*slot, times));
  return first;
}

void Lane::Abandon() {
  for (const Driver::Stream stream : streams_) {
    // Where even this fails the device's state is lost, and nothing runs on it.
    if (driver_->Record(fence_, stream).ok()) driver_->Synchronize(fence_).IgnoreError();
  }
  for (const auto& slot : slots_) {
    slot->busy = false;
    slot->unpack.clear();
  }
}

}  // namespace phasor::cuda
