#include <cmath>
#include <limits>

#include "kernels/core/narrow.h"
#include "kernels/reference/tasks.h"

namespace phasor::reference {
namespace {

int64_t FloorDivide(int64_t value, int64_t by) {
  const int64_t quotient = value / by;
  return value % by < 0 ? quotient - 1 : quotient;
}

// MaskRule's definition, word by word.
bool Visible(const MaskRule& rule, int64_t b, int64_t q, int64_t k) {
  int64_t query = rule.query_offset + q, key = k;
  for (size_t s = 0; s + 1 < rule.query_cu_seqlens.size(); ++s) {
    if (q < rule.query_cu_seqlens[s] || q >= rule.query_cu_seqlens[s + 1]) continue;
    if (k < rule.key_cu_seqlens[s] || k >= rule.key_cu_seqlens[s + 1]) return false;
    const int64_t queries = rule.query_cu_seqlens[s + 1] - rule.query_cu_seqlens[s];
    const int64_t keys = rule.key_cu_seqlens[s + 1] - rule.key_cu_seqlens[s];
    query = q - rule.query_cu_seqlens[s] + keys - queries;
    key = k - rule.key_cu_seqlens[s];
  }
  if (rule.key_padding != nullptr && rule.key_padding[b * rule.key_padding_batch_stride + k] == 0) return false;
  if (rule.chunk > 0 && FloorDivide(query, rule.chunk) != FloorDivide(key, rule.chunk)) return false;
  if (!rule.prefix.empty() && key < rule.prefix[rule.prefix.size() == 1 ? 0 : b]) return true;
  if (rule.causal && key > query) return false;
  if (rule.window_before > 0 && query - key >= rule.window_before) return false;
  if (rule.window_after > 0 && key - query >= rule.window_after) return false;
  return true;
}

bool IsMinusInfinity(double value) { return std::isinf(value) && value < 0; }

double Additive(const MaskRule& rule, int64_t b, int64_t h, int64_t q, int64_t k) {
  const int64_t at = b * rule.additive_batch_stride + h * rule.additive_head_stride + q * rule.additive_query_stride + k;
  return VisitFloat(rule.additive_dtype, [&](auto tag) {
    using A = typename decltype(tag)::type;
    A value;
    std::memcpy(&value, static_cast<const char*>(rule.additive) + at * static_cast<int64_t>(sizeof(A)), sizeof(A));
    return Widen<double>(value);
  });
}

// x + y as MaskRule says.
template <typename T>
uint64_t Sum(T x, double y, bool in_double) {
  if (in_double) return BitsOf(Narrow<T>(Widen<double>(x) + y));
  if constexpr (std::is_same_v<T, double>) {
    return 0;  // never in f32
  } else {
    return BitsOf(Narrow<T>(Widen<float>(x) + static_cast<float>(y)));
  }
}

template <typename T>
uint64_t Masked(const MaskRule& rule, bool row_has_key) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (row_has_key) return BitsOf(Narrow<T>(rule.masked_value.value_or(-kInfinity)));
  const uint64_t minus_infinity = BitsOf(Narrow<T>(-kInfinity));
  return rule.lowest_finite_rows ? minus_infinity - 1 : minus_infinity;
}

}  // namespace

void MaskRow(const MaskRule& rule, DType dtype, int64_t b, int64_t h, int64_t q, int64_t keys, void* row) {
  bool has_key = false;
  for (int64_t k = 0; k < keys; ++k) {
    has_key |= Visible(rule, b, q, k) && (rule.additive == nullptr || !IsMinusInfinity(Additive(rule, b, h, q, k)));
  }
  const bool in_double = dtype == DType::kF64 || rule.additive_dtype == DType::kF64;
  VisitFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t k = 0; k < keys; ++k) {
      if (!has_key || !Visible(rule, b, q, k)) {
        StoreBits(row, k, sizeof(T), Masked<T>(rule, has_key));
      } else if (rule.additive != nullptr && rule.masked_value && IsMinusInfinity(Additive(rule, b, h, q, k))) {
        StoreBits(row, k, sizeof(T), Masked<T>(rule, has_key));
      } else if (rule.additive != nullptr) {
        const T x = FromBits<T>(LoadBits(row, k, sizeof(T)));
        StoreBits(row, k, sizeof(T), Sum<T>(x, Additive(rule, b, h, q, k), in_double));
      }
    }
  });
}

absl::Status RunRow(const MaskTask& task, int64_t row) {
  if (task.rule == nullptr || task.data == nullptr) return absl::InvalidArgumentError("mask without a rule or data");
  const int64_t h = row / task.queries % task.heads, b = row / task.queries / task.heads;
  MaskRow(*task.rule, task.dtype, b, h, row % task.queries, task.keys,
          static_cast<char*>(task.data) + row * task.keys * SizeOf(task.dtype));
  return absl::OkStatus();
}

absl::Status RunRow(const BiasMatrixTask& task, int64_t row) {
  if (task.vector == nullptr || task.out == nullptr) {
    return absl::InvalidArgumentError("bias matrix without a vector or an output");
  }
  const int64_t q = row % task.queries, h = row / task.queries % task.heads, b = row / task.queries / task.heads;
  const int64_t size = SizeOf(task.dtype);
  const int64_t query =
      task.query_positions != nullptr ? task.query_positions[b * task.query_batch_stride + q] : task.query_offset + q;
  for (int64_t k = 0; k < task.keys; ++k) {
    const int64_t key = task.key_positions != nullptr ? task.key_positions[b * task.key_batch_stride + k] : k;
    const int64_t from = b * task.vector_batch_stride + h * task.vector_head_stride + key - query - task.first_distance;
    StoreBits(task.out, row * task.keys + k, size, LoadBits(task.vector, from, size));
  }
  if (task.mask != nullptr) {
    MaskRow(*task.mask, task.dtype, b, h, q, task.keys, static_cast<char*>(task.out) + row * task.keys * size);
  }
  return absl::OkStatus();
}

}  // namespace phasor::reference
