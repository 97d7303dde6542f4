// Memory of one device within a budget: buffers that belong to whoever works, and copies of tables that later work finds
// there.
#ifndef PHASOR_KERNELS_CUDA_DEVICE_MEMORY_H_
#define PHASOR_KERNELS_CUDA_DEVICE_MEMORY_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "kernels/cuda/driver.h"

namespace phasor::cuda {

class DeviceMemory;

// Device bytes in use; returns them when it dies. Not later than the DeviceMemory that it came from.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(DeviceMemory* memory, std::byte* data, int64_t size) : memory_(memory), data_(data), size_(size) {}
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;

  std::byte* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  DeviceMemory* memory_ = nullptr;
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

// Thread-safe. Blocks that come back are kept for the next one of their size: a runtime waits for the whole device to give
// memory out or take it back.
class DeviceMemory {
 public:
  DeviceMemory(Driver* driver, int device, int64_t budget_bytes);
  ~DeviceMemory();  // every buffer and table has been given back
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // Kept blocks and tables that nobody uses make room. bytes > 0. RESOURCE_EXHAUSTED beyond the budget, or where the device
  // has no more.
  absl::StatusOr<DeviceBuffer> Allocate(int64_t bytes);

  // A table on the device. Immutable once it is there.
  class Table {
   public:
    std::byte* data() const { return buffer_.data(); }
    int64_t size() const { return buffer_.size(); }

   private:
    friend class DeviceMemory;
    DeviceBuffer buffer_;
    absl::Status status_;
    bool ready_ = false;
  };
  using TableHandle = std::shared_ptr<const Table>;
  // The constant's copy on the device (its id is not 0): found, or made by `upload`, which copies the bytes to the given
  // address and returns when they are there. One upload a table: who comes while it runs waits for it. A failed one leaves
  // nothing behind. Errors: of Allocate and upload.
  absl::StatusOr<TableHandle> FindOrUpload(const Constant& constant,
                                           const std::function<absl::Status(std::byte* to)>& upload);

  // Gives the device back what is kept, and tables that nobody uses. Number of bytes.
  int64_t ReleaseUnused();

  struct Stats {
    int64_t used_bytes = 0, kept_bytes = 0, budget_bytes = 0;
    int64_t table_bytes = 0;  // part of used
    int64_t tables = 0, table_hits = 0, table_uploads = 0, table_evictions = 0;
  };
  Stats stats() const;

 private:
  friend class DeviceBuffer;
  struct Entry {
    std::shared_ptr<Table> table;
    std::list<uint64_t>::iterator used;  // in order_
  };

  using Blocks = std::vector<std::pair<std::byte*, int64_t>>;

  void Return(std::byte* data, int64_t bytes);
  // With the lock held. Kept blocks, from the largest, until they are `bytes` or none is left.
  Blocks TakeKept(int64_t bytes);
  // With the lock held. Tables that nobody uses, from the one that was used longest ago, likewise.
  std::vector<std::shared_ptr<Table>> TakeTables(int64_t bytes);
  // Blocks and tables until `bytes` are free again. Number of bytes.
  int64_t Release(int64_t bytes);

  Driver* const driver_;
  const int device_;
  const int64_t budget_;
  mutable std::mutex mutex_;
  std::condition_variable uploaded_;
  std::unordered_map<uint64_t, Entry> tables_;
  std::list<uint64_t> order_;                        // used last, first
  std::map<int64_t, std::vector<std::byte*>> kept_;  // by size
  Stats stats_;
};

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_DEVICE_MEMORY_H_
