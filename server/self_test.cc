#include "server/self_test.h"

#include <array>
#include <bit>
#include <cstdint>

#include "absl/strings/str_format.h"

#include "kernels/encodings/encoding.h"

namespace phasor::server {
namespace {

constexpr int kPairs = 4;
constexpr std::array<int64_t, 3> kPositions = {1, 131071, 2147483647};

// cos and sin of position · 10^−i, i = 0 … 3, rounded to nearest from 400-bit arithmetic (mpmath).
constexpr uint32_t kCosF32[3][kPairs] = {{0x3f0a5140, 0x3f7eb898, 0x3f7ffcb9, 0x3f7ffff8},
                                         {0xbf51675e, 0x3f6e2af5, 0xbf495071, 0x3f23eb83},
                                         {0xbf30579a, 0x3da5e4a1, 0xbf367b35, 0xbf2619cd}};
constexpr uint32_t kSinF32[3][kPairs] = {{0x3f576aa4, 0x3dcc7576, 0x3c23d657, 0x3a83126d},
                                         {0xbf13430a, 0x3ebbbedb, 0xbf1e241a, 0xbf44a329},
                                         {0xbf399422, 0xbf7f28a4, 0x3f338ba5, 0xbf42cc77}};
constexpr uint16_t kCosBF16[3][kPairs] = {
    {0x3f0a, 0x3f7f, 0x3f80, 0x3f80}, {0xbf51, 0x3f6e, 0xbf49, 0x3f24}, {0xbf30, 0x3da6, 0xbf36, 0xbf26}};
constexpr uint16_t kSinBF16[3][kPairs] = {
    {0x3f57, 0x3dcc, 0x3c24, 0x3a83}, {0xbf13, 0x3ebc, 0xbf1e, 0xbf45}, {0xbf3a, 0xbf7f, 0x3f34, 0xbf43}};

template <typename Bits>
absl::Status CheckTable(const Backend& backend, const AnglePlan& plan, DType dtype, const Bits (&want_cos)[3][kPairs],
                        const Bits (&want_sin)[3][kPairs]) {
  Bits cos[3][kPairs] = {};
  Bits sin[3][kPairs] = {};
  AngleTask task;
  task.plan = &plan;
  task.positions.ids = kPositions;
  task.dtype = dtype;
  task.cos = cos;
  task.sin = sin;
  task.row_stride = kPairs;
  const int64_t rows = static_cast<int64_t>(kPositions.size());
  if (absl::Status status = backend.Run(task, RowRange{0, rows}, nullptr); !status.ok()) return status;
  for (size_t row = 0; row < kPositions.size(); ++row) {
    for (int pair = 0; pair < kPairs; ++pair) {
      if (cos[row][pair] == want_cos[row][pair] && sin[row][pair] == want_sin[row][pair]) continue;
      return absl::InternalError(absl::StrFormat(
          "self-test: backend %s gives cos %#x, sin %#x for position %d, pair %d in %s, not %#x, %#x", backend.name(),
          cos[row][pair], sin[row][pair], kPositions[row], pair, Name(dtype), want_cos[row][pair], want_sin[row][pair]));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SelfTest(const Backend& backend) {
  RopeSpec rope;
  rope.head_dim = 2 * kPairs;  // inv_freq 1, 1/10, 1/100, 1/1000
  const auto spec = Canonicalize(EncodingSpec(rope));
  if (!spec.ok()) return spec.status();
  const auto resolved = Resolve(*spec, std::nullopt, Precision::kExact);
  if (!resolved.ok()) return resolved.status();
  const AnglePlan& plan = std::get<AnglePlan>(resolved->plan);
  if (absl::Status status = CheckTable(backend, plan, DType::kF32, kCosF32, kSinF32); !status.ok()) return status;
  return CheckTable(backend, plan, DType::kBF16, kCosBF16, kSinBF16);
}

}  // namespace phasor::server
