#include "kernels/tasks/mask_rows.h"

#include <cstring>

#include "kernels/core/narrow.h"

namespace phasor {

KeyRuns VisibleRuns(const MaskRule& rule, int64_t keys, int64_t b, int64_t q) {
  const KeyRunPair pair = VisibleRunPair(rule, keys, b, q);
  KeyRuns visible;
  for (const KeyRun& run : {pair.first, pair.second}) {
    if (!run.empty()) visible.runs[static_cast<size_t>(visible.count++)] = run;
  }
  return visible;
}

bool HasKey(const MaskRule& rule, const KeyRuns& visible, int64_t b, int64_t h, int64_t q) {
  const uint8_t* padding = rule.key_padding == nullptr ? nullptr : rule.key_padding + b * rule.key_padding_batch_stride;
  for (int i = 0; i < visible.count; ++i) {
    const auto [begin, end] = visible.runs[i];
    if (rule.additive == nullptr) {
      if (padding == nullptr) return true;
      if (std::memchr(padding + begin, 1, static_cast<size_t>(end - begin)) != nullptr) return true;
      continue;
    }
    const bool found = VisitFloat(rule.additive_dtype, [&](auto tag) {
      using A = typename decltype(tag)::type;
      const A* row = static_cast<const A*>(rule.additive) + AdditiveRow(rule, b, h, q);
      constexpr BitsType<A> kMinusInfinity = kInfinityBits<A> | kSignBit<A>;
      for (int64_t k = begin; k < end; ++k) {
        if ((padding == nullptr || padding[k] != 0) && BitsOf(row[k]) != kMinusInfinity) return true;
      }
      return false;
    });
    if (found) return true;
  }
  return false;
}

MaskedBits MaskedBitsOf(const MaskRule& rule, DType dtype) {
  return VisitFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr BitsType<T> kMinusInfinity = kInfinityBits<T> | kSignBit<T>;
    MaskedBits bits;
    bits.entry = rule.masked_value ? BitsOf(Narrow<T>(*rule.masked_value)) : kMinusInfinity;
    bits.row = rule.lowest_finite_rows ? kMinusInfinity - 1u : kMinusInfinity;
    return bits;
  });
}

absl::Status CheckRule(const MaskRule& rule, DType dtype, int64_t batch, int64_t queries, int64_t keys) {
  if (!IsFloat(dtype)) return absl::InvalidArgumentError("mask: the element type must be a float");
  if (rule.additive != nullptr && !IsFloat(rule.additive_dtype)) {
    return absl::InvalidArgumentError("mask: the additive type must be a float");
  }
  const size_t prefixes = rule.prefix.size();
  if (prefixes > 1 && prefixes != static_cast<size_t>(batch)) {
    return absl::InvalidArgumentError("mask: prefixes must be none, one, or one per batch row");
  }
  const auto& q = rule.query_cu_seqlens;
  const auto& k = rule.key_cu_seqlens;
  if (q.size() != k.size()) return absl::InvalidArgumentError("mask: both sides need the same sequences");
  if (!q.empty() && (q.size() < 2 || q.front() != 0 || k.front() != 0 || q.back() != queries || k.back() != keys)) {
    return absl::InvalidArgumentError("mask: cumulative lengths must go from 0 to the number of queries and of keys");
  }
  return absl::OkStatus();
}

}  // namespace phasor
