// Masks as a caller says them: owned, checked, and turned into the rule and the step that backends run.
#ifndef PHASOR_KERNELS_PROGRAM_MASKING_H_
#define PHASOR_KERNELS_PROGRAM_MASKING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "kernels/backend.h"
#include "kernels/program.h"

namespace phasor {

// What is masked (MaskRule says what each member means); sizes are those of the scores [batch, heads, queries, keys].
struct Masking {
  bool causal = false;
  std::optional<int64_t> window_before;  // ≥ 1
  std::optional<int64_t> window_after;   // ≥ 1
  std::optional<int64_t> chunk;          // ≥ 1
  std::vector<int64_t> prefix;           // none, one for all, or one per batch row; each ≥ 0
  std::vector<int64_t> query_cu_seqlens;
  std::vector<int64_t> key_cu_seqlens;
  std::vector<uint8_t> key_padding;      // none, [keys] or [batch, keys]; 0 and 1
  int64_t key_padding_batch_stride = 0;  // keys, or 0: one row for all
  // The additive tensor: its type and strides in elements (0: the same for all); its bytes are somebody else's.
  std::optional<DType> additive;
  int64_t additive_batch_stride = 0;
  int64_t additive_head_stride = 0;
  int64_t additive_query_stride = 0;
  std::optional<double> masked_value;  // finite
  bool lowest_finite_rows = false;

  // True when nothing would be changed.
  bool empty() const;
};

// The rule for a bias or scores whose first query stands at place `query_offset`. Points into `masking` and `additive`.
// `masking` must fit the sizes that the task names.
MaskRule RuleOf(const Masking& masking, int64_t query_offset, const void* additive);

// Everything that decides which bits change and how, but for the additive tensor's content: for keys and fingerprints.
std::string KeyOf(const Masking& masking);

// Masks data [batch, heads, queries, keys] of `dtype` in place; `rule` and `data` must live until the step has ended.
ProgramStep MaskStep(const MaskRule& rule, DType dtype, int64_t batch, int64_t heads, int64_t queries, int64_t keys,
                     void* data);

}  // namespace phasor

#endif  // PHASOR_KERNELS_PROGRAM_MASKING_H_
