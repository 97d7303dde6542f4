// Runs kernel bodies on the host: the same source that the device compiles, thread by thread, in an order of the test's
// choice and on several OS threads.
#ifndef PHASOR_TESTS_KERNELS_CUDA_HOST_GRID_H_
#define PHASOR_TESTS_KERNELS_CUDA_HOST_GRID_H_

#include <cstdint>
#include <thread>
#include <vector>

#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/launch.h"

namespace phasor::cuda {

enum class ThreadOrder : uint8_t { kForward, kReversed, kShuffled };

struct HostGrid {
  ThreadOrder order = ThreadOrder::kForward;
  int os_threads = 1;  // 3 or 5 for ThreadSanitizer: with a power of two, threads that conflict fall on one OS thread
  int64_t resident_blocks = 3;

  // The grid as the environment wants it, whatever a test chose: PHASOR_GRID is an order and a number of OS threads, as in
  // "reversed 5". So the same tests run under ThreadSanitizer in every order.
  HostGrid Wanted() const;

  // A permutation of [0, n).
  int64_t At(int64_t i, int64_t n) const {
    switch (order) {
      case ThreadOrder::kForward:
        return i;
      case ThreadOrder::kReversed:
        return n - 1 - i;
      case ThreadOrder::kShuffled:
        break;
    }
    // Multiplying by a number without a factor in common with n.
    int64_t step = 0x9e3779b1 % n;
    while (Gcd(step, n) != 1) ++step;
    return (i * step + n / 3) % n;
  }

  template <typename Body>
  void Run(const Body& body, LaunchShape shape) const {
    const HostGrid grid = Wanted();
    const int64_t n = shape.threads();
    const auto part = [&](int me) {
      for (int64_t i = me; i < n; i += grid.os_threads) body(GridThread{grid.At(i, n), n});
    };
    if (grid.os_threads == 1) return part(0);
    std::vector<std::thread> threads;
    for (int i = 0; i < grid.os_threads; ++i) threads.emplace_back(part, i);
    for (std::thread& thread : threads) thread.join();
  }

  // In host_grid.cc, so that not every test compiles every kernel.
  void Launch(const KernelParams& params) const;

 private:
  static int64_t Gcd(int64_t a, int64_t b) {
    while (b != 0) {
      const int64_t rest = a % b;
      a = b;
      b = rest;
    }
    return a;
  }
};

}  // namespace phasor::cuda

#endif  // PHASOR_TESTS_KERNELS_CUDA_HOST_GRID_H_
