#include "server/mask_piece.h"

#include <algorithm>
#include <utility>

namespace phasor::server {

AdditiveRows::AdditiveRows(Chunks payload) : payload_(std::move(payload)) {
  int64_t start = 0;
  starts_.reserve(payload_.size());
  for (const Bytes& chunk : payload_) {
    starts_.push_back(start);
    start += chunk.size;
  }
}

void AdditiveRows::Append(int64_t from, int64_t size, WorkInput* rows) const {
  // The last chunk that starts at or before `from`.
  auto i = static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), from) - starts_.begin()) - 1;
  for (int64_t at = from; at < from + size; ++i) {
    const Bytes& chunk = payload_[i];
    const int64_t inside = at - starts_[i], count = std::min(from + size - at, chunk.size - inside);
    if (count > 0) rows->payload.push_back({chunk.owner, chunk.data + inside, count});
    at += std::max<int64_t>(count, 0);
  }
  rows->bytes += size;
}

WorkInput AdditiveRows::Of(const ContiguousBox& box, int64_t keys, const Masking& masking) const {
  const int64_t size = SizeOf(*masking.additive), row = keys * size;
  const auto count = [&](size_t axis, int64_t stride) { return stride == 0 ? 1 : box.count[axis]; };
  const int64_t batch = count(0, masking.additive_batch_stride), heads = count(1, masking.additive_head_stride);
  const int64_t queries = count(2, masking.additive_query_stride);
  const bool dense = masking.additive_query_stride == keys;
  WorkInput rows;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t from = (box.first[0] + b) * masking.additive_batch_stride +
                           (box.first[1] + h) * masking.additive_head_stride + box.first[2] * masking.additive_query_stride;
      if (dense) {
        Append(from * size, queries * row, &rows);
        continue;
      }
      for (int64_t q = 0; q < queries; ++q) Append((from + q * masking.additive_query_stride) * size, row, &rows);
    }
  }
  return rows;
}

MaskPiece::MaskPiece(const Masking& masking, int64_t query_offset, const ContiguousBox& box, int64_t queries, int64_t keys,
                     Additive additive)
    : masking_(masking),
      box_(box),
      query_offset_(query_offset),
      keys_(keys),
      gathered_(additive == Additive::kGathered),
      queries_(box.count[2]) {
  if (!masking.query_cu_seqlens.empty() && box.count[2] < queries) {
    CutPack(box.first[2], box.first[2] + box.count[2], keys);
  }
}

// Places in a sequence are counted back from its end, so the last one keeps its whole length; what the first one has before
// the box is of no account.
void MaskPiece::CutPack(int64_t first, int64_t end, int64_t keys) {
  const std::vector<int64_t>& ends = masking_.query_cu_seqlens;
  const std::vector<int64_t>& key_ends = masking_.key_cu_seqlens;
  // The sequence of the first query.
  auto s = static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), first) - ends.begin()) - 1;
  // Keys before it and behind the last one belong to sequences without queries.
  query_ends_ = {0, 0};
  key_ends_ = {0, key_ends[s]};
  for (; ends[s] < end; ++s) {
    query_ends_.push_back(ends[s + 1] - first);
    key_ends_.push_back(key_ends[s + 1]);
  }
  queries_ = query_ends_.back();
  query_ends_.push_back(queries_);
  key_ends_.push_back(keys);
}

MaskRule MaskPiece::Rule(const void* additive) const {
  MaskRule rule = RuleOf(masking_, query_offset_ + box_.first[2], additive);
  if (rule.prefix.size() > 1) {
    rule.prefix = rule.prefix.subspan(static_cast<size_t>(box_.first[0]), static_cast<size_t>(box_.count[0]));
  }
  if (rule.key_padding != nullptr) rule.key_padding += box_.first[0] * rule.key_padding_batch_stride;
  if (!query_ends_.empty()) {
    rule.query_cu_seqlens = query_ends_;
    rule.key_cu_seqlens = key_ends_;
  }
  if (!gathered_) return rule;
  int64_t rows = 1;
  const auto next = [&](int64_t* stride, size_t axis) {
    if (*stride == 0) return;
    *stride = rows * keys_;
    rows *= box_.count[axis];
  };
  next(&rule.additive_query_stride, 2);
  next(&rule.additive_head_stride, 1);
  next(&rule.additive_batch_stride, 0);
  return rule;
}

ProgramStep MaskStep(const MaskPiece& piece, const MaskRule& rule, DType dtype, const ContiguousBox& box, int64_t keys,
                     void* data) {
  ProgramStep step = MaskStep(rule, dtype, box.count[0], box.count[1], piece.queries(), keys, data);
  step.rows = box.size();
  return step;
}

}  // namespace phasor::server
