#include "kernels/program/rotate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include "kernels/core/narrow.h"
#include "kernels/core/sincos.h"
#include "kernels/program/distilled_rows.h"
#include "kernels/program/polar.h"

namespace phasor {
namespace {

// Scratch memory for the tables of a chunk.
constexpr int64_t kChunkBytes = int64_t{4} << 20;

// Rows of a caller's table, as the arithmetic takes them: one rounding of the entry, or of its product with the scale.
struct UploadedRows {
  WeightRef weight;
  RotationPositions positions;
  std::optional<PositionScale> scale;
  bool divide;
  DType dtype;
  void* out;

  template <typename T>
  T Entry(double value, double scale_value) const {
    if (!scale || !std::isfinite(value)) return Narrow<T>(value);
    const Real128 factor = ToReal128(scale_value);
    return RoundTo<T>(Multiply(ToReal128(value), divide ? Reciprocal(factor) : factor)) + T{0};
  }

  template <typename T>
  absl::Status FillAs(RowRange rows, const CancelFlag* cancel) const {
    const int64_t pairs = weight->shape[1];
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return absl::CancelledError("cancelled");
      const int64_t position = CoordinateOf(positions.axes[0], row).whole;
      const double factor = scale ? ScaleAt(*scale, static_cast<double>(position)) : 1;
      for (int64_t i = 0; i < pairs; ++i) {
        const T entry = Entry<T>(weight->at(position * pairs + i), factor);
        std::memcpy(static_cast<T*>(out) + row * pairs + i, &entry, sizeof(T));
      }
    }
    return absl::OkStatus();
  }

  absl::Status operator()(RowRange rows, const CancelFlag* cancel) const {
    return dtype == DType::kF64 ? FillAs<double>(rows, cancel) : FillAs<float>(rows, cancel);
  }
};

// Tokens [b0, b1) × [s0, s1) of a tensor, and their rows of a chunk's table: that of (b, s) is row_b·(b − b0) + (s − s0).
struct Rectangle {
  int64_t b0, b1, s0, s1;
  int64_t row_b;
};

// A line of tokens at even distances.
struct Line {
  int64_t tokens;
  int64_t x, x_stride;  // elements
  int64_t y, y_stride;
  int64_t row, row_stride;
};

// The rectangle as few lines as there can be.
std::vector<Line> LinesOf(const RotatedTensor& t, const Rectangle& r) {
  const int64_t rows = r.b1 - r.b0, columns = r.s1 - r.s0;
  const auto x_at = [&](int64_t b, int64_t s) { return b * t.x_batch_stride + s * t.x_token_stride; };
  const auto y_at = [&](int64_t b, int64_t s) { return b * t.y_batch_stride + s * t.y_token_stride; };
  const bool even =
      t.x_batch_stride == columns * t.x_token_stride && t.y_batch_stride == columns * t.y_token_stride && r.row_b == columns;
  if (even) {
    return {{rows * columns, x_at(r.b0, r.s0), t.x_token_stride, y_at(r.b0, r.s0), t.y_token_stride, 0, 1}};
  }
  std::vector<Line> lines;
  if (rows > columns) {
    for (int64_t s = r.s0; s < r.s1; ++s) {
      lines.push_back({rows, x_at(r.b0, s), t.x_batch_stride, y_at(r.b0, s), t.y_batch_stride, s - r.s0, r.row_b});
    }
    return lines;
  }
  for (int64_t b = r.b0; b < r.b1; ++b) {
    lines.push_back({columns, x_at(b, r.s0), t.x_token_stride, y_at(b, r.s0), t.y_token_stride, (b - r.b0) * r.row_b, 1});
  }
  return lines;
}

}  // namespace

int RotationProgram::VariantOf(const RotatedTensor& tensor) const {
  const bool differs = rule.scale || rule.xpos || (rule.kind == RotationKind::kPolar && rule.delta);
  return (tensor.dtype == DType::kF64 ? 2 : 0) + (differs && !tensor.is_query ? 1 : 0);
}

int64_t RotationProgram::RowBytes(int variant) const {
  const int64_t heads = rule.kind == RotationKind::kPolar && variant % 2 == 0 ? 1 : rule.table_heads;
  return heads * rule.pairs * (variant >= 2 ? 8 : 4);
}

void RotationProgram::Seal() {
  for (const RotatedTensor& tensor : tensors) used_[static_cast<size_t>(VariantOf(tensor))] = true;
  int64_t row_bytes = 0;
  for (int v = 0; v < kVariants; ++v) row_bytes += used_[static_cast<size_t>(v)] ? 2 * RowBytes(v) : 0;
  if (rule.kind == RotationKind::kFrequency && rule.scale) row_bytes += static_cast<int64_t>(sizeof(double));
  const int64_t rows = per_batch ? batch * tokens : tokens;
  chunk_rows_ = std::clamp<int64_t>(kChunkBytes / std::max<int64_t>(row_bytes, 1), 1, std::max<int64_t>(rows, 1));
  scratch_bytes_ = chunk_rows_ * row_bytes + (2 * kVariants + 1) * 64;
}

// The steps of one run.
class RotationProgram::Builder {
 public:
  Builder(const RotationProgram& work, const RotationMemory& memory) : work_(work), rule_(work.rule), memory_(memory) {
    LayOutTables();
    if (rule_.kind == RotationKind::kFrequency) mixed_ = &std::get<MixedAnglePlan>(memory.plans[0]->plan);
    if (rule_.kind == RotationKind::kPolar) PreparePolar();
    if (rule_.kind == RotationKind::kRope || rule_.kind == RotationKind::kBetween) PrepareAngles();
  }

  std::vector<ProgramStep> Build() {
    const int64_t batch = work_.batch, sequence = work_.tokens;
    const int64_t chunk = work_.chunk_rows_;
    if (batch == 0 || sequence == 0 || work_.tensors.empty()) return {};
    if (!work_.per_batch) {
      for (int64_t s = 0; s < sequence; s += chunk) {
        const int64_t end = std::min(s + chunk, sequence);
        AddChunk(s, end - s, {0, batch, s, end, 0});
      }
    } else if (sequence <= chunk) {
      const int64_t group = chunk / sequence;
      for (int64_t b = 0; b < batch; b += group) {
        const int64_t end = std::min(b + group, batch);
        AddChunk(b * sequence, (end - b) * sequence, {b, end, 0, sequence, sequence});
      }
    } else {
      for (int64_t b = 0; b < batch; ++b) {
        for (int64_t s = 0; s < sequence; s += chunk) {
          const int64_t end = std::min(s + chunk, sequence);
          AddChunk(b * sequence + s, end - s, {b, b + 1, s, end, 0});
        }
      }
    }
    return std::move(steps_);
  }

 private:
  struct Table {
    std::byte* cos = nullptr;
    std::byte* sin = nullptr;
    std::shared_ptr<const RotationTable> angles;  // kRope, kBetween
  };
  void LayOutTables() {
    std::byte* at = memory_.scratch;
    for (int v = 0; v < kVariants; ++v) {
      if (!work_.used_[static_cast<size_t>(v)]) continue;
      const int64_t bytes = (work_.chunk_rows_ * work_.RowBytes(v) + 63) / 64 * 64;
      tables_[static_cast<size_t>(v)].cos = at;
      tables_[static_cast<size_t>(v)].sin = at + bytes;
      at += 2 * bytes;
    }
    factors_ = reinterpret_cast<double*>(at);
  }

  void PreparePolar() {
    angles_ = &std::get<AnglePlan>(memory_.plans[0]->plan);
    if (!rule_.delta) return;
    PreparedPhases prepared = PreparePhases(rule_.delta);
    phases_ = std::move(prepared.phases);
    steps_.push_back(std::move(prepared.step));
  }

  void PrepareAngles() {
    const auto& plans = memory_.plans;
    RotationTable table;
    if (rule_.kind == RotationKind::kBetween) {
      table = BetweenSchedules(std::get<AnglePlan>(plans[1]->plan), std::get<AnglePlan>(plans[0]->plan));
    } else {
      table.plan = std::get<AnglePlan>(plans[0]->plan);
    }
    table.inverse = rule_.divide;
    if (rule_.xpos) {
      auto decay = std::make_shared<Decay>(rule_.pairs, rule_.xpos->scale_base, rule_.xpos->center);
      steps_.push_back(ProgramStep::Of(
          [decay](RowRange pairs, const CancelFlag*) {
            decay->Prepare(pairs);
            return absl::OkStatus();
          },
          rule_.pairs, 8));
      table.decay = std::move(decay);
    }
    for (int v = 0; v < kVariants; ++v) {
      if (!work_.used_[static_cast<size_t>(v)]) continue;
      auto own = std::make_shared<RotationTable>(table);
      const bool is_key = v % 2 == 1;
      own->decay_sign = is_key ? -1 : 1;
      if (!is_key) own->scale = rule_.scale;
      tables_[static_cast<size_t>(v)].angles = std::move(own);
    }
  }

  void AddChunk(int64_t first_row, int64_t rows, const Rectangle& tokens) {
    const RotationPositions positions = memory_.positions.From(first_row);
    for (int v = 0; v < kVariants; ++v) {
      if (work_.used_[static_cast<size_t>(v)]) AddTable(v, positions, rows);
    }
    for (size_t i = 0; i < work_.tensors.size(); ++i) {
      if (work_.tensors[i].heads == 0) continue;
      for (const Line& line : LinesOf(work_.tensors[i], tokens)) AddLine(i, line);
    }
  }

  void AddTable(int variant, const RotationPositions& positions, int64_t rows) {
    const Table& table = tables_[static_cast<size_t>(variant)];
    const DType dtype = variant >= 2 ? DType::kF64 : DType::kF32;
    const bool is_key = variant % 2 == 1;
    switch (rule_.kind) {
      case RotationKind::kUploaded:
        return AddUploaded(table, is_key ? std::nullopt : rule_.scale, positions, rows, dtype);
      case RotationKind::kFrequency:
        return AddMixed(table, is_key ? std::nullopt : rule_.scale, positions, rows, dtype);
      case RotationKind::kDistilled:
        return AddDistilled(table, positions, rows, dtype);
      case RotationKind::kPolar:
        return AddPolar(table, is_key && phases_ != nullptr, positions, rows, dtype);
      default:
        break;
    }
    for (ProgramStep& step : TableSteps(table.angles, positions, rows, dtype, table.cos, table.sin)) {
      steps_.push_back(std::move(step));
    }
  }

  void AddUploaded(const Table& table, const std::optional<PositionScale>& scale, const RotationPositions& positions,
                   int64_t rows, DType dtype) {
    const int64_t per_slice = std::max<int64_t>(1, 40000 / std::max<int64_t>(1, rule_.pairs));
    for (const bool is_sin : {false, true}) {
      const WeightRef& weight = is_sin ? rule_.sin : rule_.cos;
      const UploadedRows fill{weight, positions, scale, rule_.divide, dtype, is_sin ? table.sin : table.cos};
      steps_.push_back(ProgramStep::Of(fill, rows, per_slice));
    }
  }

  void AddDistilled(const Table& table, const RotationPositions& positions, int64_t rows, DType dtype) {
    DistilledRows fill;
    fill.plan = &std::get<DistilledPlan>(memory_.plans[0]->plan);
    fill.positions = positions.axes[0];
    fill.dtype = dtype;
    fill.out = table.cos;
    fill.second = table.sin;
    steps_.push_back(DistilledStep(fill, rows));
  }

  void AddMixed(const Table& table, const std::optional<PositionScale>& scale, const RotationPositions& positions,
                int64_t rows, DType dtype) {
    MixedAngleTask task;
    task.plan = mixed_;
    task.positions = positions.axes[0];
    task.dtype = dtype;
    task.cos = table.cos;
    task.sin = table.sin;
    if (scale) {
      steps_.push_back(FactorStep(*scale, positions.axes[0], rows, factors_));
      task.factors = factors_;
    }
    steps_.push_back(ProgramStep::Of(task, rows));
  }

  // Without phases PoPE's tables are plain ones.
  void AddPolar(const Table& table, bool with_phases, const RotationPositions& positions, int64_t rows, DType dtype) {
    if (with_phases) {
      PolarAngleTask task;
      task.plan = angles_;
      task.phases = phases_.get();
      task.heads = rule_.table_heads;
      task.positions = positions.axes[0];
      task.dtype = dtype;
      task.cos = table.cos;
      task.sin = table.sin;
      steps_.push_back(ProgramStep::Of(task, rows));
      steps_.back().held = phases_;
      return;
    }
    AngleTask task;
    task.plan = angles_;
    task.positions = positions.axes[0];
    task.dtype = dtype;
    task.cos = table.cos;
    task.sin = table.sin;
    task.row_stride = rule_.pairs;
    task.hint = StoreHint::kReadNext;
    steps_.push_back(ProgramStep::Of(task, rows));
  }

  void AddLine(size_t index, const Line& line) {
    const RotatedTensor& tensor = work_.tensors[index];
    if (rule_.kind == RotationKind::kPolar) return AddPolarLine(index, line);
    const int variant = work_.VariantOf(tensor);
    const int64_t size = SizeOf(tensor.dtype), entry = variant >= 2 ? 8 : 4;
    const int64_t row = rule_.table_heads * rule_.pairs;
    RotateTask task;
    task.dtype = tensor.dtype;
    task.pairing = rule_.pairing;
    task.inverse = rule_.negate;
    task.tokens = line.tokens;
    task.heads = tensor.heads / rule_.table_heads;
    task.head_dim = tensor.head_dim - rule_.first_channel;
    task.pairs = rule_.pairs;
    task.x_token_stride = task.y_token_stride = line.x_stride;
    task.x_head_stride = task.y_head_stride = tensor.x_head_stride;
    task.table_stride = line.row_stride * row;
    task.hint = StoreHint::kReadNext;
    for (int64_t group = 0; group < rule_.table_heads; ++group) {
      const int64_t first = line.x + group * task.heads * task.x_head_stride + rule_.first_channel;
      task.x = task.y = memory_.x[index] + first * size;
      const int64_t at = (line.row * row + group * rule_.pairs) * entry;
      task.cos = tables_[static_cast<size_t>(variant)].cos + at;
      task.sin = tables_[static_cast<size_t>(variant)].sin + at;
      steps_.push_back(ProgramStep::Of(task, line.tokens));
    }
  }

  void AddPolarLine(size_t index, const Line& line) {
    const RotatedTensor& tensor = work_.tensors[index];
    const int variant = work_.VariantOf(tensor);
    const int64_t size = SizeOf(tensor.dtype), row_bytes = work_.RowBytes(variant);
    PolarTask apply;
    apply.dtype = tensor.dtype;
    apply.tokens = line.tokens;
    apply.heads = tensor.heads;
    apply.head_dim = tensor.head_dim;
    apply.x = memory_.x[index] + line.x * size;
    apply.y = memory_.y[index] + line.y * size;
    apply.x_token_stride = line.x_stride;
    apply.x_head_stride = tensor.x_head_stride;
    apply.y_token_stride = line.y_stride;
    apply.y_head_stride = tensor.y_head_stride;
    apply.cos = tables_[static_cast<size_t>(variant)].cos + line.row * row_bytes;
    apply.sin = tables_[static_cast<size_t>(variant)].sin + line.row * row_bytes;
    apply.table_stride = line.row_stride * row_bytes / (variant >= 2 ? 8 : 4);
    apply.table_head_stride = variant % 2 == 1 && rule_.table_heads > 1 ? rule_.pairs : 0;
    steps_.push_back(ProgramStep::Of(apply, line.tokens));
  }

  const RotationProgram& work_;
  const RotationRule& rule_;
  const RotationMemory& memory_;
  std::array<Table, kVariants> tables_;
  double* factors_ = nullptr;              // of a chunk's rows
  const MixedAnglePlan* mixed_ = nullptr;  // kFrequency
  const AnglePlan* angles_ = nullptr;      // kPolar
  std::shared_ptr<const PolarPhases> phases_;
  std::vector<ProgramStep> steps_;
};

std::vector<ProgramStep> RotationProgram::Steps(const RotationMemory& memory) const {
  return Builder(*this, memory).Build();
}

}  // namespace phasor
