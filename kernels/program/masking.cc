#include "kernels/program/masking.h"

#include <utility>

#include "kernels/core/key_bytes.h"

namespace phasor {
bool Masking::empty() const {
  return !causal && !window_before && !window_after && !chunk && query_cu_seqlens.empty() && key_padding.empty() &&
         !additive;
}

MaskRule RuleOf(const Masking& masking, int64_t query_offset, const void* additive) {
  MaskRule rule;
  rule.causal = masking.causal;
  rule.window_before = masking.window_before.value_or(0);
  rule.window_after = masking.window_after.value_or(0);
  rule.chunk = masking.chunk.value_or(0);
  rule.query_offset = query_offset;
  rule.prefix = masking.prefix;
  rule.query_cu_seqlens = masking.query_cu_seqlens;
  rule.key_cu_seqlens = masking.key_cu_seqlens;
  if (!masking.key_padding.empty()) {
    rule.key_padding = masking.key_padding.data();
    rule.key_padding_batch_stride = masking.key_padding_batch_stride;
  }
  if (masking.additive) {
    rule.additive = additive;
    rule.additive_dtype = *masking.additive;
    rule.additive_batch_stride = masking.additive_batch_stride;
    rule.additive_head_stride = masking.additive_head_stride;
    rule.additive_query_stride = masking.additive_query_stride;
  }
  rule.masked_value = masking.masked_value;
  rule.lowest_finite_rows = masking.lowest_finite_rows;
  return rule;
}

std::string KeyOf(const Masking& masking) {
  KeyBytes key;
  key.Int(masking.causal ? 1 : 0);
  key.Int(masking.window_before.value_or(0));
  key.Int(masking.window_after.value_or(0));
  key.Int(masking.chunk.value_or(0));
  key.Ints(masking.prefix);
  key.Ints(masking.query_cu_seqlens);
  key.Ints(masking.key_cu_seqlens);
  key.Text({reinterpret_cast<const char*>(masking.key_padding.data()), masking.key_padding.size()});
  key.Int(masking.key_padding_batch_stride);
  key.Int(masking.additive ? static_cast<int64_t>(*masking.additive) : 0);
  key.Int(masking.additive_batch_stride);
  key.Int(masking.additive_head_stride);
  key.Int(masking.additive_query_stride);
  key.Int(masking.masked_value ? 1 : 0);
  key.Double(masking.masked_value.value_or(0));
  key.Int(masking.lowest_finite_rows ? 1 : 0);
  return std::move(key).Take();
}

ProgramStep MaskStep(const MaskRule& rule, DType dtype, int64_t batch, int64_t heads, int64_t queries, int64_t keys,
                     void* data) {
  MaskTask task;
  task.dtype = dtype;
  task.batch = batch;
  task.heads = heads;
  task.queries = queries;
  task.keys = keys;
  task.rule = &rule;
  task.data = data;
  return ProgramStep::Of(task, batch * heads * queries);
}

}  // namespace phasor
