#include "kernels/cpu/mask_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/core/narrow.h"

namespace phasor {
namespace {

// The query's place, and the keys [begin, end) of its sequence, of which the first has place 0.
struct Sequence {
  int64_t place;
  KeyRun keys;
};

Sequence SequenceOf(const MaskRule& rule, int64_t keys, int64_t q) {
  if (rule.query_cu_seqlens.empty()) return {rule.query_offset + q, {0, keys}};
  // The sequence s with query_cu_seqlens[s] ≤ q < query_cu_seqlens[s + 1]: empty ones cannot hold q.
  const auto after = std::upper_bound(rule.query_cu_seqlens.begin(), rule.query_cu_seqlens.end(), q);
  const size_t s = static_cast<size_t>(after - rule.query_cu_seqlens.begin()) - 1;
  const KeyRun run{rule.key_cu_seqlens[s], rule.key_cu_seqlens[s + 1]};
  const int64_t queries = rule.query_cu_seqlens[s + 1] - rule.query_cu_seqlens[s];
  return {q - rule.query_cu_seqlens[s] + (run.end - run.begin) - queries, run};
}

int64_t FloorToMultiple(int64_t value, int64_t of) {
  const int64_t rest = value % of;
  return value - (rest < 0 ? rest + of : rest);
}

}  // namespace

KeyRuns VisibleRuns(const MaskRule& rule, int64_t keys, int64_t b, int64_t q) {
  const auto [place, sequence] = SequenceOf(rule, keys, q);
  const int64_t length = sequence.end - sequence.begin;
  // In places, of which the sequence has [0, length).
  KeyRun bounds{0, length};
  if (rule.chunk > 0) {
    const int64_t begin = FloorToMultiple(place, rule.chunk);
    bounds.begin = std::max(bounds.begin, begin);
    // A chunk that begins at 0 or later may end beyond any number.
    if (begin < 0 || rule.chunk < length - begin) bounds.end = std::min(bounds.end, begin + rule.chunk);
  }
  KeyRun near = bounds;
  if (rule.window_before > 0 && place - near.begin >= rule.window_before) near.begin = place - rule.window_before + 1;
  if (rule.causal) near.end = std::min(near.end, place + 1);
  if (rule.window_after > 0 && near.end - place > rule.window_after) near.end = place + rule.window_after;
  KeyRun prefix{bounds.begin, bounds.begin};
  if (!rule.prefix.empty()) {
    prefix.end = std::min(bounds.end, rule.prefix[rule.prefix.size() == 1 ? 0 : static_cast<size_t>(b)]);
  }
  KeyRuns visible;
  const auto append = [&](KeyRun run) {
    if (!run.empty()) visible.runs[visible.count++] = {run.begin + sequence.begin, run.end + sequence.begin};
  };
  if (!prefix.empty() && !near.empty() && near.begin <= prefix.end) {
    append({std::min(prefix.begin, near.begin), std::max(prefix.end, near.end)});
    return visible;
  }
  append(prefix);
  append(near);
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
