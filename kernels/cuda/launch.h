// The shape of a launch as plain arithmetic. Kernels here are functors over a thread's number: they use no blocks, barriers,
// shared memory or warps, so a device runs them as a grid and a test as a loop, in any order.
#ifndef PHASOR_KERNELS_CUDA_LAUNCH_H_
#define PHASOR_KERNELS_CUDA_LAUNCH_H_

#include <algorithm>
#include <cstdint>

namespace phasor::cuda {

// One of `count` threads of a launch. A kernel body does works index, index + count, index + 2·count … of its `works`, so
// neighbours in a warp touch neighbours in memory, whatever the grid's size.
struct GridThread {
  int64_t index = 0;
  int64_t count = 1;
};

// A one-dimensional grid.
struct LaunchShape {
  uint32_t blocks = 0;
  uint32_t block_threads = 0;

  int64_t threads() const { return static_cast<int64_t>(blocks) * block_threads; }
  friend bool operator==(const LaunchShape&, const LaunchShape&) = default;
};

inline constexpr uint32_t kBlockThreads = 128;
// The launch limit of a grid's first dimension.
inline constexpr int64_t kMaxBlocks = (int64_t{1} << 31) - 1;

// How often a device is filled with blocks, at most. How many it holds depends on the body's registers: three to sixteen on
// a multiprocessor. Blocks for once, of as many as could be, would be filled in one and a third or five and a third turns,
// the last of them with the device partly idle. Of sixteen turns and more the last is no matter, and a thread still has
// several works where there are many, so that starting blocks is none either.
inline constexpr int64_t kFills = 16;

// Enough threads for one work each, but no more than `fills` times the blocks that the device could hold at once: the rest
// is done by the loop in the body. works ≥ 0 (0: an empty shape, not to be launched); resident_blocks > 0: blocks of
// kBlockThreads that all multiprocessors hold together, of bodies with few registers.
constexpr LaunchShape ShapeFor(int64_t works, int64_t resident_blocks, int64_t fills = kFills) {
  if (works <= 0) return {};
  const int64_t needed = (works - 1) / kBlockThreads + 1;
  const int64_t most = std::min(std::max<int64_t>(resident_blocks, 1), kMaxBlocks / fills) * fills;
  return {static_cast<uint32_t>(std::min(needed, most)), kBlockThreads};
}

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_LAUNCH_H_
