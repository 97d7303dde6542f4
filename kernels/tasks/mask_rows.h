// Which keys a row of a mask leaves, as runs: what causal, window, chunk, prefix and packing come to. Shared by backends;
// the runs themselves are found on devices too.
#ifndef PHASOR_KERNELS_TASKS_MASK_ROWS_H_
#define PHASOR_KERNELS_TASKS_MASK_ROWS_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/status/status.h"

#include "kernels/core/dtype.h"
#include "kernels/core/host_device.h"
#include "kernels/tasks/mask_tasks.h"

namespace phasor {

// Keys [begin, end).
struct KeyRun {
  int64_t begin = 0;
  int64_t end = 0;
  constexpr bool empty() const { return begin >= end; }
};

// Two runs, in order and apart from each other; either may be empty.
struct KeyRunPair {
  KeyRun first;
  KeyRun second;
};

// At most two runs, in order, apart from each other, none empty.
struct KeyRuns {
  std::array<KeyRun, 2> runs;
  int count = 0;
};

// The query's place, and the keys [begin, end) of its sequence, of which the first has place 0.
struct KeySequence {
  int64_t place = 0;
  KeyRun keys;
};

PHASOR_HOST_DEVICE inline KeySequence SequenceOf(const MaskRule& rule, int64_t keys, int64_t q) {
  if (rule.query_cu_seqlens.empty()) return {rule.query_offset + q, {0, keys}};
  // The sequence s with query_cu_seqlens[s] ≤ q < query_cu_seqlens[s + 1]: empty ones cannot hold q.
  const int64_t* const ends = rule.query_cu_seqlens.data();
  const int64_t* const after = std::upper_bound(ends, ends + rule.query_cu_seqlens.size(), q);
  const int64_t s = after - ends - 1;
  const int64_t* const key_ends = rule.key_cu_seqlens.data();
  const KeyRun run{key_ends[s], key_ends[s + 1]};
  return {q - ends[s] + (run.end - run.begin) - (ends[s + 1] - ends[s]), run};
}

// The keys that query q of batch row b may see, key_padding and `additive` aside.
PHASOR_HOST_DEVICE inline KeyRunPair VisibleRunPair(const MaskRule& rule, int64_t keys, int64_t b, int64_t q) {
  const KeySequence sequence = SequenceOf(rule, keys, q);
  const int64_t place = sequence.place, first = sequence.keys.begin;
  const int64_t length = sequence.keys.end - first;
  // In places, of which the sequence has [0, length).
  KeyRun bounds{0, length};
  if (rule.chunk > 0) {
    const int64_t rest = place % rule.chunk;
    const int64_t begin = place - (rest < 0 ? rest + rule.chunk : rest);
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
    prefix.end = std::min(bounds.end, rule.prefix.data()[rule.prefix.size() == 1 ? 0 : b]);
  }
  const auto moved = [first](KeyRun run) { return run.empty() ? KeyRun{} : KeyRun{run.begin + first, run.end + first}; };
  if (!prefix.empty() && !near.empty() && near.begin <= prefix.end) {
    return {moved({std::min(prefix.begin, near.begin), std::max(prefix.end, near.end)}), {}};
  }
  return {moved(prefix), moved(near)};
}

// The same as a list.
KeyRuns VisibleRuns(const MaskRule& rule, int64_t keys, int64_t b, int64_t q);

// False when no key is left to the row (MaskRule).
bool HasKey(const MaskRule& rule, const KeyRuns& visible, int64_t b, int64_t h, int64_t q);

// Where the row's additive entries begin.
inline int64_t AdditiveRow(const MaskRule& rule, int64_t b, int64_t h, int64_t q) {
  return b * rule.additive_batch_stride + h * rule.additive_head_stride + q * rule.additive_query_stride;
}

// What masked entries of a row hold, as bits of `dtype`: of rows with a key, and of rows without.
struct MaskedBits {
  uint64_t entry = 0;
  uint64_t row = 0;
  bool differ() const { return entry != row; }
};
MaskedBits MaskedBitsOf(const MaskRule& rule, DType dtype);

// OK, or INVALID_ARGUMENT where the rule does not fit the sizes.
absl::Status CheckRule(const MaskRule& rule, DType dtype, int64_t batch, int64_t queries, int64_t keys);

}  // namespace phasor

#endif  // PHASOR_KERNELS_TASKS_MASK_ROWS_H_
