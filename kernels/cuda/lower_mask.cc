#include "kernels/cuda/lower_mask.h"

#include <algorithm>

#include "kernels/cuda/lower.h"

namespace phasor::cuda {

LoweredMask::LoweredMask(const MaskRule& rule, DType dtype, int64_t batch, int64_t heads, int64_t queries, int64_t keys,
                         ConstantList& constants)
    : rule_(rule), dtype_(dtype), heads_(heads), queries_(queries), keys_(keys) {
  const auto add = [&](std::span<const int64_t> numbers) {
    return numbers.empty() ? -1 : constants.Add(numbers.data(), static_cast<int64_t>(numbers.size_bytes()));
  };
  prefix_ = add(rule.prefix);
  query_cu_seqlens_ = add(rule.query_cu_seqlens);
  key_cu_seqlens_ = add(rule.key_cu_seqlens);
  key_padding_ = constants.Add(rule.key_padding, batch == 0 ? 0 : (batch - 1) * rule.key_padding_batch_stride + keys);
  // Additive rows of one query after the other, of one head after the other, of one batch row after the other, as far as
  // one step leads from each to the next; the rest are parts of their own.
  if (rule.additive == nullptr) return;
  const int64_t q = queries > 1 ? rule.additive_query_stride : 0;
  const int64_t h = heads > 1 ? rule.additive_head_stride : 0;
  const int64_t b = batch > 1 ? rule.additive_batch_stride : 0;
  int64_t count = 1;
  const auto append = [&](int64_t stride, int64_t extent, int64_t& per) {
    if (stride == 0) return true;
    if (count > 1 && stride != count * pitch_) return false;
    if (count == 1) pitch_ = stride;
    per = count;
    count *= extent;
    return true;
  };
  append(q, queries, per_query_);
  if (!append(h, heads, per_head_)) {
    rows_per_part_ = queries;
  } else if (!append(b, batch, per_batch_)) {
    rows_per_part_ = heads * queries;
  }
}

int64_t LoweredMask::bytes_per_row() const {
  return static_cast<int64_t>(sizeof(KeptKeys)) + (rule_.additive == nullptr ? 0 : keys_ * SizeOf(rule_.additive_dtype));
}

LoweredMask::Part LoweredMask::PartOf(RowRange rows) const {
  // The additive rows of the first and of the last row, or of all queries and heads between them.
  const int64_t last = rows.end - 1;
  int64_t first_q = rows.begin % queries_, last_q = last % queries_;
  int64_t first_h = rows.begin / queries_ % heads_, last_h = last / queries_ % heads_;
  const int64_t first_b = rows.begin / queries_ / heads_, last_b = last / queries_ / heads_;
  if (rows.begin / queries_ != last / queries_) first_q = 0, last_q = queries_ - 1;
  if (first_b != last_b) first_h = 0, last_h = heads_ - 1;
  const int64_t from = first_b * per_batch_ + first_h * per_head_ + first_q * per_query_;
  const int64_t to = last_b * per_batch_ + last_h * per_head_ + last_q * per_query_;
  const int64_t size = SizeOf(rule_.additive_dtype);
  // What no step leads to is the part's own.
  int64_t at = from * pitch_;
  if (per_batch_ == 0) at += first_b * rule_.additive_batch_stride;
  if (per_head_ == 0 && rows_per_part_ == queries_) at += first_h * rule_.additive_head_stride;
  return {rows,
          StripOf(static_cast<const std::byte*>(rule_.additive) + at * size, keys_ * size, to - from + 1, pitch_ * size),
          from};
}

std::vector<LoweredMask::Part> LoweredMask::PartsOf(RowRange rows) const {
  std::vector<Part> parts;
  if (rule_.additive == nullptr) return {{rows, {}, 0}};
  for (int64_t begin = rows.begin; begin < rows.end;) {
    const int64_t end = rows_per_part_ == 0 ? rows.end : std::min(rows.end, (begin / rows_per_part_ + 1) * rows_per_part_);
    parts.push_back(PartOf({begin, end}));
    begin = end;
  }
  return parts;
}

void LoweredMask::AddInputs(RowRange rows, std::vector<Strip>& inputs) const {
  if (rule_.additive == nullptr) return;
  for (const Part& part : PartsOf(rows)) inputs.push_back(part.strip);
}

Strip LoweredMask::Scratch(RowRange rows) const {
  return ScratchOf((rows.end - rows.begin) * static_cast<int64_t>(sizeof(KeptKeys)));
}

void LoweredMask::AddLaunches(RowRange rows, const Addresses& at, size_t first_input, std::byte* scratch, std::byte* data,
                              std::vector<KernelParams>& launches) const {
  const MaskedBits bits = MaskedBitsOf(rule_, dtype_);
  KeptKeysParams find;
  find.rule = rule_;
  find.rule.prefix = {ConstantList::At<int64_t>(at, prefix_), rule_.prefix.size()};
  find.rule.query_cu_seqlens = {ConstantList::At<int64_t>(at, query_cu_seqlens_), rule_.query_cu_seqlens.size()};
  find.rule.key_cu_seqlens = {ConstantList::At<int64_t>(at, key_cu_seqlens_), rule_.key_cu_seqlens.size()};
  find.rule.key_padding = ConstantList::At<uint8_t>(at, key_padding_);
  find.rule.additive = nullptr;
  find.finds_rows_without_key = bits.differ() || rule_.additive != nullptr;
  find.kept = reinterpret_cast<KeptKeys*>(scratch);
  MaskParams hide;
  hide.dtype = dtype_;
  hide.kept = find.kept;
  hide.entry_bits = bits.entry;
  hide.row_bits = bits.row;
  hide.key_padding = find.rule.key_padding;
  hide.key_padding_batch_stride = rule_.key_padding_batch_stride;
  hide.hides_minus_infinity = rule_.masked_value.has_value();
  hide.data = data;
  for (const Part& part : PartsOf(rows)) {
    find.rows = hide.rows = {rows.begin, part.rows.begin - rows.begin, part.rows.end - rows.begin, heads_, queries_, keys_};
    if (rule_.additive != nullptr) {
      find.additive = {at.inputs[first_input++], rule_.additive_dtype, part.first_row, per_batch_, per_head_, per_query_};
      hide.additive = find.additive;
    }
    launches.emplace_back(find);
    launches.emplace_back(hide);
  }
}

namespace {

class LoweredMaskTask final : public Lowered {
 public:
  explicit LoweredMaskTask(const MaskTask& task)
      : task_(task), mask_(*task.rule, task.dtype, task.batch, task.heads, task.queries, task.keys, constants_) {}

  absl::Status CheckRows(RowRange rows) const override {
    return RowsWithin(rows, task_.batch * task_.heads * task_.queries, "mask: rows outside [0, batch·heads·queries)");
  }
  std::span<const Constant> constants() const override { return constants_.all(); }
  bool movable() const { return mask_.movable(); }
  int64_t bytes_per_row() const override { return 2 * row_bytes() + mask_.bytes_per_row(); }
  Transfers TransfersOf(RowRange rows) const override {
    Transfers moves;
    moves.inputs.push_back(
        {static_cast<std::byte*>(task_.data) + rows.begin * row_bytes(), (rows.end - rows.begin) * row_bytes(), 1, 0});
    mask_.AddInputs(rows, moves.inputs);
    moves.outputs = {moves.inputs[0], mask_.Scratch(rows)};
    moves.in_place = {0, -1};
    return moves;
  }
  std::vector<KernelParams> Launches(RowRange rows, const Addresses& at) const override {
    std::vector<KernelParams> launches;
    mask_.AddLaunches(rows, at, 1, at.outputs[1], at.outputs[0], launches);
    return launches;
  }

 private:
  int64_t row_bytes() const { return task_.keys * SizeOf(task_.dtype); }

  const MaskTask& task_;
  ConstantList constants_;
  const LoweredMask mask_;
};

}  // namespace

LoweredOr LowerTask(const MaskTask& task) {
  if (task.rule == nullptr) return absl::InvalidArgumentError("mask: rule must not be null");
  if (task.batch < 0 || task.heads < 0 || task.queries < 0 || task.keys < 0) {
    return absl::InvalidArgumentError("mask: extents must be at least 0");
  }
  if (absl::Status status = CheckRule(*task.rule, task.dtype, task.batch, task.queries, task.keys); !status.ok()) {
    return status;
  }
  if (task.data == nullptr) return absl::InvalidArgumentError("mask: data must not be null");
  if (task.keys > kMaxMaskedKeys) return LeftToCpu("layout");
  auto lowered = std::make_unique<LoweredMaskTask>(task);
  if (!lowered->movable()) return LeftToCpu("layout");
  return lowered;
}

}  // namespace phasor::cuda
