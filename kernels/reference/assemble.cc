#include <algorithm>
#include <optional>

#include "kernels/reference/tasks.h"

namespace phasor::reference {
namespace {

// Where an output column comes from.
struct Source {
  bool from_sin;
  int64_t pair;
};

// The source of column `c` of the (first) output array, nothing for a column of zeros. Of the two forms with two arrays
// this is the cos array; the sin array has the same pairs.
std::optional<Source> SourceOf(const AssembleTask& task, int64_t c) {
  const int64_t n = task.pairs;
  switch (task.form) {
    case TableForm::kHalf:
      return c < n ? std::optional<Source>({false, c}) : std::nullopt;
    case TableForm::kDuplicated:
      return c < 2 * n ? std::optional<Source>({false, c % n}) : std::nullopt;
    case TableForm::kInterleavedDuplicated:
      return c < 2 * n ? std::optional<Source>({false, c / 2}) : std::nullopt;
    case TableForm::kConcatenated:
      return c < 2 * n ? std::optional<Source>({c >= n, c % n}) : std::nullopt;
    case TableForm::kSinCosInterleaved:
      return c < 2 * n ? std::optional<Source>({c % 2 == 0, c / 2}) : std::nullopt;
    case TableForm::kSinCosConcatenated: {
      // An odd width has a sine more than cosines when there are pairs enough for it, else a last column of zeros.
      const int64_t sines = std::min(n, (task.columns + 1) / 2);
      if (c < sines) return Source{true, c};
      if (c - sines < std::min(n, task.columns / 2)) return Source{false, c - sines};
      return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace

absl::Status RunRow(const AssembleTask& task, int64_t row) {
  const bool two_arrays =
      task.form == TableForm::kHalf || task.form == TableForm::kDuplicated || task.form == TableForm::kInterleavedDuplicated;
  if (task.cos == nullptr || task.sin == nullptr || (task.out == nullptr && !(two_arrays && task.out_sin != nullptr))) {
    return absl::InvalidArgumentError("table form without a table or an output");
  }
  const int64_t table_row = task.table_rows.empty() ? row : task.table_rows[row];
  for (int64_t c = 0; c < task.columns; ++c) {
    const std::optional<Source> source = SourceOf(task, c);
    const int64_t from = source ? table_row * task.table_stride + source->pair : 0;
    const auto bits = [&](bool of_sin) {
      return source ? LoadBits(of_sin ? task.sin : task.cos, from, task.element_size) : 0;
    };
    if (task.out != nullptr) {
      StoreBits(task.out, row * task.columns + c, task.element_size, bits(source && source->from_sin));
    }
    if (two_arrays && task.out_sin != nullptr) {
      StoreBits(task.out_sin, row * task.columns + c, task.element_size, bits(true));
    }
  }
  return absl::OkStatus();
}

}  // namespace phasor::reference
