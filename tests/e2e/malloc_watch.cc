// Preloaded into a server under test: counts what it asks of malloc in one piece beyond a size. The counters stand in the
// file that PHASOR_MALLOC_WATCH names, so that the test reads them while the server runs.
#include "tests/e2e/malloc_watch.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>

extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
}

namespace {

std::atomic<phasor::MallocCounts*> g_counts{nullptr};  // null: not yet, or nobody asked

void Count(size_t size) {
  if (size <= phasor::kLargeAllocation) return;
  phasor::MallocCounts* const counts = g_counts.load(std::memory_order_acquire);
  if (counts == nullptr) return;
  counts->large.fetch_add(1, std::memory_order_relaxed);
  counts->last_size.store(static_cast<int64_t>(size), std::memory_order_relaxed);
}

__attribute__((constructor)) void MapCounts() {
  const char* const path = std::getenv("PHASOR_MALLOC_WATCH");
  if (path == nullptr) return;
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  void* const memory = mmap(nullptr, sizeof(phasor::MallocCounts), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory != MAP_FAILED) g_counts.store(static_cast<phasor::MallocCounts*>(memory), std::memory_order_release);
}

}  // namespace

extern "C" {

void* malloc(size_t size) {
  Count(size);
  return __libc_malloc(size);
}

void* calloc(size_t count, size_t size) {
  size_t bytes = 0;
  if (!__builtin_mul_overflow(count, size, &bytes)) Count(bytes);
  return __libc_calloc(count, size);
}

void* realloc(void* block, size_t size) {
  Count(size);
  return __libc_realloc(block, size);
}

void* memalign(size_t alignment, size_t size) {
  Count(size);
  return __libc_memalign(alignment, size);
}

void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void** block, size_t alignment, size_t size) {
  *block = memalign(alignment, size);
  return *block == nullptr ? ENOMEM : 0;
}

}  // extern "C"
