// Reused memory for everything large: tiles, gathered tensors, assembled answers. Fresh pages cost more than any kernel
// that fills them, so blocks are kept and handed out again.
#ifndef PHASOR_SERVER_BUFFER_POOL_H_
#define PHASOR_SERVER_BUFFER_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"

#include "kernels/backend.h"

namespace phasor::server {

namespace internal {
class PoolState;
struct PoolBlock {
  std::byte* data = nullptr;
  int64_t size = 0;  // of its size class
  bool pinned = false;
};
}  // namespace internal

// A block in use. Its bytes are whatever the last user left. Dies on any thread, also after the pool.
class Buffer {
 public:
  Buffer(std::shared_ptr<internal::PoolState> pool, internal::PoolBlock block, int64_t size)
      : pool_(std::move(pool)), block_(block), size_(size) {}
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const { return block_.data; }
  int64_t size() const { return size_; }  // as asked for

 private:
  std::shared_ptr<internal::PoolState> pool_;
  internal::PoolBlock block_;
  int64_t size_;
};

// Thread-safe. Blocks come in size classes a quarter of a power of two apart, so at most a fifth of a block is unused
// (blocks below 16 KiB: rounded up to 4 KiB). Alignment: 4 KiB, and 2 MiB with huge pages asked for from 2 MiB on.
class BufferPool {
 public:
  // Free blocks are kept up to `keep_bytes`; beyond, those unused for longest return to the system. A block that is larger
  // than that alone returns at once and leaves the others.
  // `pinning` (null: none) is asked for blocks of 1 MiB and more, once each, for as long as they are the pool's.
  explicit BufferPool(int64_t keep_bytes, std::shared_ptr<const HostPinning> pinning = nullptr);
  ~BufferPool();

  // A block of at least `size` ≥ 0 bytes. RESOURCE_EXHAUSTED when the system has no memory.
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(int64_t size);

  // Returns free blocks to the system until at most `keep_bytes` are left.
  void Trim(int64_t keep_bytes);

  struct Stats {
    int64_t used_bytes = 0, free_bytes = 0;  // whole blocks
    int64_t reused = 0, fresh = 0;           // allocations since start
  };
  Stats stats() const;

 private:
  std::shared_ptr<internal::PoolState> state_;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_BUFFER_POOL_H_
