// The raw codec against generated code. Input: one byte that chooses the message (two bits) and the longest slice (the
// rest), then the message's bytes.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>

#include "tests/proto/codec_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto kind = phasor::raw::KindOf(data[0] % phasor::raw::kKinds);
  const size_t longest_slice = 1 + data[0] / phasor::raw::kKinds;
  std::mt19937_64 random(size);
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string difference = phasor::raw::Difference(kind, bytes, longest_slice, random);
  if (!difference.empty()) {
    std::fprintf(stderr, "%s\n", difference.c_str());
    std::abort();
  }
  return 0;
}
