// Runs a bias as a program on a backend, for tests.
#ifndef PHASOR_TESTS_KERNELS_PROGRAM_WINDOW_SPECS_H_
#define PHASOR_TESTS_KERNELS_PROGRAM_WINDOW_SPECS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "kernels/program/window_bias.h"

namespace phasor {

inline std::vector<int64_t> Consecutive(int64_t first, int64_t count) {
  std::vector<int64_t> positions(static_cast<size_t>(count));
  std::iota(positions.begin(), positions.end(), first);
  return positions;
}

// Memory aligned to 64 bytes.
class AlignedBytes {
 public:
  explicit AlignedBytes(int64_t bytes) : memory_(static_cast<size_t>(bytes) + 64, std::byte{0x5a}) {}
  std::byte* data() {
    const uintptr_t at = reinterpret_cast<uintptr_t>(memory_.data());
    return memory_.data() + (64 - at % 64) % 64;
  }

 private:
  std::vector<std::byte> memory_;
};

// The whole bias [heads, queries, keys] of a batch row as bytes; empty (and a failure) when something is refused.
// Biases over windows take no positions.
inline std::vector<std::byte> RunBias(const Backend& backend, const EncodingSpec& spec, DType dtype,
                                      const std::vector<int64_t>& queries, const std::vector<int64_t>& keys,
                                      int64_t first_head = 0, int64_t heads = -1, int64_t batch_row = 0) {
  const auto canonical = Canonicalize(spec);
  EXPECT_TRUE(canonical.ok()) << canonical.status();
  if (!canonical.ok()) return {};
  const auto resolved = Resolve(*canonical, std::nullopt, Precision::kExact);
  EXPECT_TRUE(resolved.ok()) << resolved.status();
  const auto traits = TraitsOf(canonical->spec);
  EXPECT_TRUE(traits.has_value());
  if (!resolved.ok() || !traits) return {};
  if (heads < 0) heads = traits->heads - first_head;
  const int64_t rows = traits->tokens > 0 ? traits->tokens : static_cast<int64_t>(queries.size());
  const int64_t columns = traits->tokens > 0 ? traits->tokens : static_cast<int64_t>(keys.size());
  AlignedBytes scratch(BiasScratchBytes(canonical->spec, dtype, heads, rows, columns));
  std::vector<std::byte> out(static_cast<size_t>(heads * rows * columns * SizeOf(dtype)));
  const BiasPart part{.dtype = dtype,
                      .first_head = first_head,
                      .heads = heads,
                      .batch_row = batch_row,
                      .query_positions = queries,
                      .key_positions = keys,
                      .out = out.data()};
  std::vector<ProgramStep> steps;
  AppendBiasSteps(resolved->plan, part, scratch.data(), &steps);
  const absl::Status status = RunProgram(backend, steps);
  EXPECT_TRUE(status.ok()) << status;
  return out;
}

// The same as doubles (dtype f64) or floats.
template <typename T>
std::vector<T> RunBiasAs(const Backend& backend, const EncodingSpec& spec, const std::vector<int64_t>& queries,
                         const std::vector<int64_t>& keys) {
  const std::vector<std::byte> bytes = RunBias(backend, spec, sizeof(T) == 8 ? DType::kF64 : DType::kF32, queries, keys);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace phasor

#endif  // PHASOR_TESTS_KERNELS_PROGRAM_WINDOW_SPECS_H_
