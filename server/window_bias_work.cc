#include "server/window_bias_work.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace phasor::server {
namespace {

// The mask's place at the start of scratch; what follows keeps its alignment.
constexpr int64_t kRuleBytes = 512;
static_assert(sizeof(MaskRule) <= kRuleBytes && std::is_trivially_destructible_v<MaskRule>);

// The values of the learned functions that have few: by distance, or a table.
struct FewValues {
  int64_t first = 0;  // distance
  int64_t count = 0;  // of each head
};

// Nothing where every entry is computed by itself, or costs next to nothing.
std::optional<FewValues> FewValuesOf(const EncodingSpec& spec, const WindowLayout& layout) {
  const BiasRequest& request = layout.request;
  if (const auto* window = std::get_if<ContinuousWindowBiasSpec>(&spec)) {
    return FewValues{0, TokenWindow{window->window_height, window->window_width, false}.table_rows()};
  }
  const bool full = request.form == BiasForm::kFull && !layout.rows_differ;
  if (!std::holds_alternative<DynamicPositionBiasSpec>(spec) || !full || !layout.Consecutive()) return std::nullopt;
  return FewValues{layout.keys.places.front() - layout.queries.places.back(), request.queries + request.keys - 1};
}

// Makes them, as [heads, count].
class FewValuesWork final : public Work {
 public:
  FewValuesWork(TableSource source, const WindowLayout& layout, FewValues values)
      : dtype_(layout.dtype), first_head_(layout.request.first_head), heads_(layout.request.heads), values_(values) {
    sources = {std::move(source)};
    WorkArray array;
    array.slot = Slot::kBias;
    array.dtype = dtype_;
    array.shape = {heads_, values.count};
    array.bytes = heads_ * values.count * SizeOf(dtype_);
    outputs = {std::move(array)};
    const EncodingSpec& spec = sources.front().spec.spec;
    const bool is_window = std::holds_alternative<ContinuousWindowBiasSpec>(spec);
    scratch_bytes = is_window ? values.count * 2 * static_cast<int64_t>(sizeof(double))
                              : BiasScratchBytes(spec, dtype_, heads_, 1, values.count);
  }

  absl::StatusOr<std::vector<ProgramStep>> Steps(std::span<const Resolved* const> plans,
                                                 const WorkMemory& memory) const override {
    std::vector<ProgramStep> steps;
    const Plan& plan = plans[0]->plan;
    if (std::holds_alternative<ContinuousWindowBiasPlan>(plan)) {
      AppendWindowTableSteps(plan, dtype_, first_head_, heads_, {0, values_.count}, memory.outputs[0],
                             reinterpret_cast<double*>(memory.scratch), &steps);
    } else {
      AppendBiasVectorSteps(plan, dtype_, first_head_, heads_, values_.first, values_.count, memory.outputs[0],
                            memory.scratch, &steps);
    }
    return steps;
  }

 private:
  const DType dtype_;
  const int64_t first_head_, heads_;
  const FewValues values_;
};

}  // namespace

WindowBiasWork::WindowBiasWork(TableSource source, WindowLayout layout, WorkArray array) {
  sources = {std::move(source)};
  auto shared = std::make_shared<Shared>();
  shared->layout = std::move(layout);
  if (auto additive = std::exchange(shared->layout.additive, std::nullopt)) {
    shared->additive.emplace(additive->payload);
    inputs = {*std::move(additive)};
  }
  shared_ = std::move(shared);
  const WindowLayout& l = this->layout();
  rows_ = {{0, 0, 0}, AllRows()};
  if (l.masked) {
    masked_.emplace(l.masking, l.request.query_offset, rows_, l.rows(), l.request.keys, MaskPiece::Additive::kAsItCame);
  }
  scratch_bytes = kRuleBytes + ScratchBytes(l.request.heads, l.rows());
  position_bytes = static_cast<int64_t>((l.queries.places.size() + l.keys.places.size()) * sizeof(int64_t));
  outputs = {std::move(array)};
}

WindowBiasWork::WindowBiasWork(TableSource source, std::shared_ptr<const Shared> shared, const ContiguousBox& rows)
    : shared_(std::move(shared)), rows_(rows) {
  sources = {std::move(source)};
  const WindowLayout& l = layout();
  if (l.masked) {
    masked_.emplace(l.masking, l.request.query_offset, rows, l.rows(), l.request.keys, MaskPiece::Additive::kGathered);
  }
  if (shared_->additive) inputs = {shared_->additive->Of(rows, l.request.keys, l.masking)};
}

std::array<int64_t, 3> WindowBiasWork::AllRows() const {
  const WindowLayout& l = layout();
  return {l.batch_rows(), l.request.heads, l.request.form == BiasForm::kVector ? 1 : l.rows()};
}

int64_t WindowBiasWork::ScratchBytes(int64_t heads, int64_t queries) const {
  const BiasRequest& request = layout().request;
  if (layout().indices) return BiasScratchBytes(spec(), layout().dtype, 1, 1, 1);
  if (request.form == BiasForm::kVector) {
    return BiasScratchBytes(spec(), layout().dtype, heads, 1, request.queries + request.keys - 1);
  }
  return BiasScratchBytes(spec(), layout().dtype, heads, queries, request.keys);
}

WorkPiece WindowBiasWork::PieceAt(int64_t row, int64_t most, const Bytes& prepared) const {
  const int64_t row_bytes = outputs[0].shape.back() * SizeOf(layout().dtype);
  if (shared_->additive) most = std::min(most, kMostGatheredRows);
  ContiguousBox rows = BoxAt(AllRows(), row, most);
  // Heads whose scratch would be more than their rows, and more than one takes at least, are not made at once.
  if (rows.count[1] > 1 && prepared.size == 0) {
    const int64_t one = ScratchBytes(1, rows.count[2]);
    const int64_t heads = std::max<int64_t>(1, one == 0 ? rows.count[1] : most * row_bytes / one);
    if (heads < rows.count[1]) rows.count = {1, heads, rows.count[2]};
  }
  const std::shared_ptr<WindowBiasWork> piece(new WindowBiasWork(sources.front(), shared_, rows));
  piece->prepared_ = prepared;
  piece->scratch_bytes = kRuleBytes + (prepared.size > 0 ? 0 : ScratchBytes(rows.count[1], rows.count[2]));
  WorkArray array = outputs[0];
  array.shape = {rows.size(), array.shape.back()};
  array.bytes = rows.size() * row_bytes;
  piece->outputs = {std::move(array)};
  return {piece, rows.size()};
}

int64_t WindowBiasWork::PieceBytes(int64_t bytes) const {
  const int64_t size = SizeOf(layout().dtype), columns = outputs[0].shape.back();
  const int64_t rows = std::max<int64_t>(1, bytes / (columns * size)), entries = rows * columns;
  const int64_t additive = shared_->additive ? SizeOf(*layout().masking.additive) : 0;
  const int64_t scratch =
      FewValuesOf(spec(), layout()) ? 0 : std::max(ScratchBytes(1, std::min(rows, AllRows()[2])), entries * size);
  return kRuleBytes + scratch + entries * (size + additive);
}

std::shared_ptr<const Work> WindowBiasWork::Preparation() const {
  const std::optional<FewValues> values = FewValuesOf(spec(), layout());
  return values ? std::make_shared<FewValuesWork>(sources.front(), layout(), *values) : nullptr;
}

// One evaluation for a pair serves all heads, and batch rows that differ by their masks alone.
bool WindowBiasWork::prefers_whole() const {
  return !layout().indices && !FewValuesOf(spec(), layout()) && LearnedProducts(spec(), 1, 1, false) > 0;
}

int64_t WindowBiasWork::PieceProducts(int64_t bytes) const {
  const BiasRequest& request = layout().request;
  if (layout().indices) return 0;
  double products = 0;
  if (FewValuesOf(spec(), layout())) {
    products = LearnedProducts(spec(), request.queries, request.keys, /*consecutive=*/true);
  } else {
    const int64_t columns = outputs[0].shape.back(), rows = std::max<int64_t>(1, bytes / (columns * SizeOf(layout().dtype)));
    products =
        LearnedProducts(spec(), rows, columns, false, /*head_by_head=*/true) / static_cast<double>(TraitsOf(spec())->heads);
  }
  return products < 0x1p62 ? static_cast<int64_t>(products) : int64_t{1} << 62;
}

BiasPart WindowBiasWork::PartOf(int64_t b, std::byte* out) const {
  const WindowLayout& l = layout();
  const int64_t batch_row = rows_.first[0] + b;
  const auto row_of = [batch_row](const PlaceRows& rows, int64_t first, int64_t count) {
    if (rows.places.empty()) return std::span<const int64_t>();
    return std::span(rows.places).subspan(static_cast<size_t>(batch_row * rows.stride + first), static_cast<size_t>(count));
  };
  BiasPart part{.dtype = l.dtype,
                .first_head = l.request.first_head + rows_.first[1],
                .heads = rows_.count[1],
                .batch_row = batch_row,
                .query_positions = row_of(l.queries, rows_.first[2], rows_.count[2]),
                .key_positions = row_of(l.keys, 0, l.request.keys),
                .out = out};
  if (rows_.count[2] < l.rows()) part.window_queries = {rows_.first[2], rows_.first[2] + rows_.count[2]};
  if (!l.masking.key_padding.empty()) {
    part.key_padding = std::span(l.masking.key_padding)
                           .subspan(static_cast<size_t>(batch_row * l.masking.key_padding_batch_stride),
                                    static_cast<size_t>(l.request.keys));
  }
  if (prepared_.size > 0) {
    const FewValues values = *FewValuesOf(spec(), l);
    part.values = prepared_.data + rows_.first[1] * values.count * SizeOf(l.dtype);
    part.value_stride = values.count;
    part.first_value = values.first;
  }
  return part;
}

// The first batch row to all others.
ProgramStep WindowBiasWork::CopyStep(std::byte* out) const {
  static constexpr int64_t kPiece = int64_t{1} << 18;
  const int64_t bytes = part_bytes(), pieces = (bytes + kPiece - 1) / kPiece;
  const auto copy = [out, bytes, pieces](RowRange rows, const CancelFlag*) {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const int64_t at = row % pieces * kPiece;
      std::memcpy(out + (1 + row / pieces) * bytes + at, out + at, static_cast<size_t>(std::min(kPiece, bytes - at)));
    }
    return absl::OkStatus();
  };
  return ProgramStep::Of(copy, (rows_.count[0] - 1) * pieces, 8);
}

absl::StatusOr<std::vector<ProgramStep>> WindowBiasWork::StepsOf(int64_t part_number, std::span<const Resolved* const> plans,
                                                                 const WorkMemory& memory) const {
  std::vector<ProgramStep> steps;
  const Plan& plan = plans[0]->plan;
  const WindowLayout& l = layout();
  std::byte* out = memory.outputs[0];
  std::byte* scratch = memory.scratch + kRuleBytes;
  if (l.indices) {
    const RowRange queries{rows_.first[2], rows_.first[2] + rows_.count[2]};
    AppendWindowIndexSteps(std::get<WindowBiasPlan>(plan).window, l.dtype, queries, out, scratch, &steps);
    return steps;
  }
  if (l.request.form == BiasForm::kVector) {
    AppendBiasVectorSteps(plan, l.dtype, l.request.first_head + rows_.first[1], rows_.count[1], l.first_distance,
                          l.request.queries + l.request.keys - 1, out, scratch, &steps);
    return steps;
  }
  const RowRange computed = RowsOfPart(part_number, computed_rows());
  for (int64_t b = computed.begin; b < computed.end; ++b) {
    AppendBiasSteps(plan, PartOf(b, out + b * part_bytes()), scratch, &steps);
  }
  if (part_number < parts() - 1) return steps;
  if (computed.end < rows_.count[0]) steps.push_back(CopyStep(out));
  if (masked_) {
    const auto* rule = new (memory.scratch) MaskRule(masked_->Rule(inputs.empty() ? nullptr : memory.inputs[0]));
    steps.push_back(MaskStep(*masked_, *rule, l.dtype, rows_, l.request.keys, out));
  }
  return steps;
}

}  // namespace phasor::server
