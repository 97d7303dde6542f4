// Philox 4×32-10, the counter-based random generator of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011):
// word w of block n is a function of the key and n alone, so any part of a sequence can be made anywhere.
#ifndef PHASOR_KERNELS_CORE_PHILOX_H_
#define PHASOR_KERNELS_CORE_PHILOX_H_

#include <array>
#include <cstdint>

namespace phasor {

inline constexpr uint32_t kPhiloxMultiplier0 = 0xD2511F53u;
inline constexpr uint32_t kPhiloxMultiplier1 = 0xCD9E8D57u;
inline constexpr uint32_t kPhiloxKeyStep0 = 0x9E3779B9u;  // the golden ratio
inline constexpr uint32_t kPhiloxKeyStep1 = 0xBB67AE85u;  // √3 − 1
inline constexpr int kPhiloxRounds = 10;

using PhiloxBlock = std::array<uint32_t, 4>;

// The four words of a block. `counter` and `key` least significant word first.
constexpr PhiloxBlock Philox(PhiloxBlock counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t product0 = uint64_t{kPhiloxMultiplier0} * counter[0];
    const uint64_t product1 = uint64_t{kPhiloxMultiplier1} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key[0] += kPhiloxKeyStep0;
    key[1] += kPhiloxKeyStep1;
  }
  return counter;
}

// Block `block` of the sequence of `seed`: the counter is the 128-bit number offset + block.
constexpr PhiloxBlock Philox(uint64_t seed, uint64_t offset, uint64_t block) {
  const uint64_t low = offset + block;
  const uint32_t carry = low < offset ? 1 : 0;
  return Philox({static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), carry, 0},
                {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

}  // namespace phasor

#endif  // PHASOR_KERNELS_CORE_PHILOX_H_
