#include "server/buffer_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <list>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace phasor::server {
namespace internal {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kHugePage = int64_t{2} << 20;
// Below, copies through the runtime's own buffers are as quick.
constexpr int64_t kLeastPinned = int64_t{1} << 20;
constexpr int64_t kLargestBlock = int64_t{1} << 46;

int64_t ClassOf(int64_t size) {
  size = std::max(size, kPage);
  const int64_t below = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(size - 1)));
  const int64_t step = std::max(below / 4, kPage);
  return (size + step - 1) / step * step;
}

void* Map(int64_t size) {
  void* p = mmap(nullptr, static_cast<size_t>(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

std::byte* MapBlock(int64_t size) {
  if (size < kHugePage) return static_cast<std::byte*>(Map(size));
  // A huge page must start at a multiple of its size: map more and cut both ends.
  auto* begin = static_cast<std::byte*>(Map(size + kHugePage));
  if (begin == nullptr) return nullptr;
  const auto address = reinterpret_cast<uintptr_t>(begin);
  const int64_t head = static_cast<int64_t>((kHugePage - address % kHugePage) % kHugePage);
  if (head > 0) munmap(begin, static_cast<size_t>(head));
  if (head < kHugePage) munmap(begin + head + size, static_cast<size_t>(kHugePage - head));
  madvise(begin + head, static_cast<size_t>(size), MADV_HUGEPAGE);  // advice: a kernel without them is fine
  return begin + head;
}

}  // namespace

// Outlives the pool while blocks are in use.
class PoolState {
 public:
  PoolState(int64_t keep_bytes, std::shared_ptr<const HostPinning> pinning)
      : pinning_(std::move(pinning)), keep_bytes_(keep_bytes) {}
  ~PoolState() { Trim(0); }

  PoolBlock Take(int64_t size) {
    const int64_t rounded = ClassOf(size);
    {
      std::lock_guard lock(mutex_);
      auto found = by_class_.find(rounded);
      if (found != by_class_.end()) {
        // The last one freed: its lines are most likely still in a cache.
        const auto position = found->second.back();
        const PoolBlock block = *position;
        found->second.pop_back();
        if (found->second.empty()) by_class_.erase(found);
        free_.erase(position);
        stats_.free_bytes -= rounded;
        stats_.used_bytes += rounded;
        ++stats_.reused;
        return block;
      }
    }
    PoolBlock block{MapBlock(rounded), rounded, false};
    if (block.data == nullptr) {
      // Kept blocks of other sizes may be what is missing.
      Trim(0);
      block.data = MapBlock(rounded);
      if (block.data == nullptr) return block;
    }
    if (pinning_ != nullptr && rounded >= kLeastPinned) block.pinned = pinning_->Pin(block.data, rounded);
    std::lock_guard lock(mutex_);
    stats_.used_bytes += rounded;
    ++stats_.fresh;
    return block;
  }

  void Return(PoolBlock block) {
    std::vector<PoolBlock> surplus;
    {
      std::lock_guard lock(mutex_);
      stats_.used_bytes -= block.size;
      if (block.size > keep_bytes_) {
        // It cannot stay, and must not push out those that can.
        surplus = {block};
      } else {
        stats_.free_bytes += block.size;
        free_.push_back(block);
        by_class_[block.size].push_back(std::prev(free_.end()));
        surplus = TakeOldest(keep_bytes_);
      }
    }
    Unmap(surplus);
  }

  void Trim(int64_t keep_bytes) {
    std::vector<PoolBlock> surplus;
    {
      std::lock_guard lock(mutex_);
      surplus = TakeOldest(keep_bytes);
    }
    Unmap(surplus);
  }

  void Close() {
    {
      std::lock_guard lock(mutex_);
      keep_bytes_ = 0;
    }
    Trim(0);
  }

  BufferPool::Stats stats() const {
    std::lock_guard lock(mutex_);
    return stats_;
  }

 private:
  using Blocks = std::list<PoolBlock>;

  void Unmap(const std::vector<PoolBlock>& blocks) const {
    for (const PoolBlock& block : blocks) {
      if (block.pinned) pinning_->Unpin(block.data);
      munmap(block.data, static_cast<size_t>(block.size));
    }
  }

  std::vector<PoolBlock> TakeOldest(int64_t keep_bytes) {
    std::vector<PoolBlock> taken;
    while (stats_.free_bytes > keep_bytes && !free_.empty()) {
      const PoolBlock oldest = free_.front();
      // Each class lists its blocks in the order of `free_`, so the oldest of all is the first of its class.
      auto found = by_class_.find(oldest.size);
      found->second.erase(found->second.begin());
      if (found->second.empty()) by_class_.erase(found);
      free_.pop_front();
      stats_.free_bytes -= oldest.size;
      taken.push_back(oldest);
    }
    return taken;
  }

  const std::shared_ptr<const HostPinning> pinning_;
  mutable std::mutex mutex_;
  int64_t keep_bytes_;
  Blocks free_;  // the longest unused first
  std::map<int64_t, std::vector<Blocks::iterator>> by_class_;
  BufferPool::Stats stats_;
};

}  // namespace internal

Buffer::~Buffer() { pool_->Return(block_); }

BufferPool::BufferPool(int64_t keep_bytes, std::shared_ptr<const HostPinning> pinning)
    : state_(std::make_shared<internal::PoolState>(keep_bytes, std::move(pinning))) {}
BufferPool::~BufferPool() { state_->Close(); }

absl::StatusOr<std::shared_ptr<Buffer>> BufferPool::Allocate(int64_t size) {
  internal::PoolBlock block;
  if (size <= internal::kLargestBlock) block = state_->Take(size);
  if (block.data == nullptr) return absl::ResourceExhaustedError(absl::StrCat("no memory for a buffer of ", size, " bytes"));
  return std::make_shared<Buffer>(state_, block, size);
}

void BufferPool::Trim(int64_t keep_bytes) { state_->Trim(keep_bytes); }

BufferPool::Stats BufferPool::stats() const { return state_->stats(); }

}  // namespace phasor::server
