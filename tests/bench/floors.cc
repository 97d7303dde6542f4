#include "tests/bench/floors.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace phasor::bench {

std::byte* TouchedMemory(size_t bytes) {
  constexpr size_t kHuge = size_t{2} << 20;
  bytes = (bytes + kHuge - 1) / kHuge * kHuge;
  void* memory = std::aligned_alloc(kHuge, bytes);
  if (memory == nullptr) std::abort();
  madvise(memory, bytes, MADV_HUGEPAGE);
  std::memset(memory, 1, bytes);
  return static_cast<std::byte*>(memory);
}

#if defined(__x86_64__)

namespace {

__attribute__((target("avx512f"))) void Streaming512(char* out, size_t bytes) {
  const __m512i value = _mm512_set1_epi32(0x3f800000);
  for (size_t i = 0; i < bytes; i += 64) _mm512_stream_si512(reinterpret_cast<__m512i*>(out + i), value);
  _mm_sfence();
}

__attribute__((target("avx2"))) void Streaming256(char* out, size_t bytes) {
  const __m256i value = _mm256_set1_epi32(0x3f800000);
  for (size_t i = 0; i < bytes; i += 64) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(out + i), value);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(out + i + 32), value);
  }
  _mm_sfence();
}

}  // namespace

void StreamingStores(void* out, size_t bytes) {
  if (__builtin_cpu_supports("avx512f")) {
    Streaming512(static_cast<char*>(out), bytes);
  } else if (__builtin_cpu_supports("avx2")) {
    Streaming256(static_cast<char*>(out), bytes);
  } else {
    std::memset(out, 1, bytes);
  }
}

#else

void StreamingStores(void* out, size_t bytes) { std::memset(out, 1, bytes); }

#endif

namespace {

void StayOnCore(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  (void)pthread_setaffinity_np(pthread_self(), sizeof(cores), &cores);
}

// A thread that does one piece of work after the other, and sleeps when none has come for a while: whoever sleeps on a busy
// core wakes late.
class SecondThread {
 public:
  SecondThread() {
    std::thread([this] {
      StayOnCore(1);
      for (int next = 1;; ++next) {
        const auto tired = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
        while (asked_.load(std::memory_order_acquire) < next && std::chrono::steady_clock::now() < tired) {
        }
        asked_.wait(next - 1, std::memory_order_acquire);
        (*work_)();
        done_.store(next, std::memory_order_release);
      }
    }).detach();
  }
  void Begin(const std::function<void()>& work) {
    work_ = &work;
    asked_.fetch_add(1, std::memory_order_release);
    asked_.notify_one();
  }
  void Wait() const {
    while (done_.load(std::memory_order_acquire) < asked_.load(std::memory_order_relaxed)) {
    }
  }

 private:
  std::atomic<int> asked_ = 0, done_ = 0;
  const std::function<void()>* work_ = nullptr;
};

}  // namespace

void OnTwoCores(const std::function<void()>& first, const std::function<void()>& second) {
  static auto* const other = new SecondThread;  // as long as the process
  cpu_set_t before;
  const bool known = pthread_getaffinity_np(pthread_self(), sizeof(before), &before) == 0;
  StayOnCore(0);
  other->Begin(second);
  first();
  other->Wait();
  if (known) (void)pthread_setaffinity_np(pthread_self(), sizeof(before), &before);
}

void AddOneInPlace(void* data, size_t bytes) {
  auto* numbers = static_cast<uint64_t*>(data);
  for (size_t i = 0; i < bytes / sizeof(uint64_t); ++i) ++numbers[i];
}

void LibmTable(const float* inv_freq, int64_t positions, int64_t pairs, float* cos, float* sin) {
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t i = 0; i < pairs; ++i) {
      const float angle = static_cast<float>(p) * inv_freq[i];
      cos[p * pairs + i] = cosf(angle);
      sin[p * pairs + i] = sinf(angle);
    }
  }
}

}  // namespace phasor::bench
