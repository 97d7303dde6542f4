// What the machine can do: the denominators.
#ifndef PHASOR_TESTS_BENCH_FLOORS_H_
#define PHASOR_TESTS_BENCH_FLOORS_H_

#include <cstddef>
#include <cstdint>
#include <functional>

namespace phasor::bench {

// Memory in huge pages where the kernel grants them, touched once. Never freed: the process ends soon.
std::byte* TouchedMemory(size_t bytes);

// Writes `bytes` (a multiple of 64) with non-temporal stores of the widest vectors; on a machine without them, plain stores.
void StreamingStores(void* out, size_t bytes);

// Runs one here and the other at the same time on a thread that is there already, each on a core of its own where Linux
// allows it: with a thread started for it, the other waited for the core of the first as often as not when the machine was
// busy.
void OnTwoCores(const std::function<void()>& first, const std::function<void()>& second);

// Reads and writes `bytes` (a multiple of 8) where they lie: what any work in place costs memory.
void AddOneInPlace(void* data, size_t bytes);

// What a float32 library computes, with libm's cosf and sinf: [positions, pairs] each.
void LibmTable(const float* inv_freq, int64_t positions, int64_t pairs, float* cos, float* sin);

}  // namespace phasor::bench

#endif  // PHASOR_TESTS_BENCH_FLOORS_H_
