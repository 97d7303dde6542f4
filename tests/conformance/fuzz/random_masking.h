// Random masks over scores [batch, heads, queries, keys].
#ifndef PHASOR_TESTS_CONFORMANCE_FUZZ_RANDOM_MASKING_H_
#define PHASOR_TESTS_CONFORMANCE_FUZZ_RANDOM_MASKING_H_

#include <algorithm>
#include <vector>

#include "kernels/program/masking.h"
#include "tests/conformance/fuzz/run.h"

namespace phasor {

struct MaskedShape {
  int64_t batch, heads, queries, keys;
};

inline std::vector<int64_t> RandomLengths(Rng& rng, int64_t sequences, int64_t end) {
  std::vector<int64_t> ends = {0, end};
  for (int64_t i = 1; i < sequences; ++i) ends.push_back(rng.Int(0, end));
  std::sort(ends.begin(), ends.end());
  return ends;
}

// Each kind of mask is there or not. The additive tensor, where there is one, is a buffer of the run, in *additive.
inline Masking RandomMasking(Rng& rng, const MaskedShape& shape, FuzzRun& run, const void** additive) {
  Masking m;
  m.causal = rng.OneIn(2);
  if (rng.OneIn(4)) m.window_before = rng.Int(1, shape.keys + 2);
  if (rng.OneIn(4)) m.window_after = rng.Int(1, shape.keys + 2);
  if (rng.OneIn(5)) m.chunk = rng.OneIn(5) ? INT64_MAX : rng.Int(1, shape.keys + 2);
  if (rng.OneIn(4)) {
    for (int64_t i = rng.OneIn(2) ? shape.batch : 1; i > 0; --i) m.prefix.push_back(rng.Int(0, shape.keys + 1));
  }
  if (rng.OneIn(4)) {
    const int64_t sequences = rng.Int(1, 4);
    m.query_cu_seqlens = RandomLengths(rng, sequences, shape.queries);
    m.key_cu_seqlens = RandomLengths(rng, sequences, shape.keys);
  }
  if (rng.OneIn(4) && shape.keys > 0) {
    const bool per_batch = rng.OneIn(2);
    m.key_padding_batch_stride = per_batch ? shape.keys : 0;
    for (int64_t i = 0; i < (per_batch ? shape.batch : 1) * shape.keys; ++i) m.key_padding.push_back(rng.OneIn(3) ? 0 : 1);
  }
  *additive = nullptr;
  if (rng.OneIn(3)) {
    m.additive = rng.FloatType();
    m.additive_query_stride = shape.keys + rng.Int(0, 1);
    m.additive_head_stride = rng.OneIn(2) ? 0 : shape.queries * m.additive_query_stride;
    m.additive_batch_stride = rng.OneIn(2) ? 0 : shape.heads * shape.queries * m.additive_query_stride;
    *additive = run.Floats(rng, shape.batch * shape.heads * shape.queries * (shape.keys + 1), *m.additive, 5, rng.OneIn(2));
  }
  if (rng.OneIn(4)) m.masked_value = rng.Pick({-1e9, -12345.678, 0.0});
  m.lowest_finite_rows = rng.OneIn(2);
  return m;
}

// The rule of a random masking; both live as long as the run.
inline const MaskRule& AddMasking(Rng& rng, const MaskedShape& shape, FuzzRun& run) {
  const void* additive = nullptr;
  const Masking& masking = run.Hold(RandomMasking(rng, shape, run, &additive));
  return run.Hold(RuleOf(masking, rng.Int(-shape.keys, shape.keys), additive));
}

}  // namespace phasor

#endif  // PHASOR_TESTS_CONFORMANCE_FUZZ_RANDOM_MASKING_H_
