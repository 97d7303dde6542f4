#include "client/expand_bias.h"

#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"

namespace phasor::client {
namespace {

// The product, or nothing where it does not fit.
std::optional<int64_t> Product(int64_t a, int64_t b) {
  int64_t product = 0;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

absl::Status CheckSize(const char* name, size_t given, std::optional<int64_t> wanted) {
  if (wanted && given == static_cast<size_t>(*wanted)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, ": given ", given, " bytes; allowed: ", wanted ? absl::StrCat(*wanted) : "extents that fit in 63 bits"));
}

}  // namespace

absl::Status ExpandBias(std::span<const std::byte> vector, int64_t element_size, int64_t heads, int64_t queries,
                        int64_t keys, std::span<std::byte> full) {
  if (element_size < 1 || element_size > 16) {
    return absl::InvalidArgumentError(absl::StrCat("element_size: given ", element_size, "; allowed: 1 … 16"));
  }
  constexpr int64_t kMost = int64_t{1} << 40;
  if (heads < 0 || queries < 1 || keys < 1 || queries > kMost || keys > kMost) {
    return absl::InvalidArgumentError(absl::StrCat("extents: given ", heads, " heads, ", queries, " queries, ", keys,
                                                   " keys; allowed: heads of at least 0, the others 1 … 2^40"));
  }
  const int64_t row_bytes = keys * element_size;
  const int64_t vector_bytes = (queries + keys - 1) * element_size;
  const std::optional<int64_t> head_bytes = Product(queries, row_bytes);
  if (auto status = CheckSize("vector", vector.size(), Product(heads, vector_bytes)); !status.ok()) return status;
  if (auto status = CheckSize("full", full.size(), head_bytes ? Product(heads, *head_bytes) : std::nullopt); !status.ok()) {
    return status;
  }
  std::byte* out = full.data();
  for (int64_t head = 0; head < heads; ++head) {
    const std::byte* row = vector.data() + head * vector_bytes + (queries - 1) * element_size;
    for (int64_t query = 0; query < queries; ++query, row -= element_size, out += row_bytes) {
      std::memcpy(out, row, static_cast<size_t>(row_bytes));
    }
  }
  return absl::OkStatus();
}

}  // namespace phasor::client
