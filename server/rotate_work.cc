#include "server/rotate_work.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "kernels/core/narrow.h"
#include "kernels/core/sincos.h"
#include "kernels/program/mixed_rotation.h"
#include "kernels/program/polar.h"
#include "server/grpc_status.h"

namespace phasor::server {
namespace {

// Scratch memory for the tables of a chunk.
constexpr int64_t kChunkBytes = int64_t{4} << 20;

// Rows of a caller's table, as the arithmetic takes them: one rounding of the entry, or of its product with the scale.
struct UploadedRows {
  const Weight* weight;
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
std::vector<Line> LinesOf(const RotateWork::Rotated& tensor, const Rectangle& r) {
  const TensorInput& g = tensor.geometry;
  const int64_t rows = r.b1 - r.b0, columns = r.s1 - r.s0;
  const auto x_at = [&](int64_t b, int64_t s) { return b * g.batch_stride + s * g.sequence_stride; };
  const auto y_at = [&](int64_t b, int64_t s) { return b * tensor.y_batch_stride + s * tensor.y_sequence_stride; };
  const bool even = g.batch_stride == columns * g.sequence_stride &&
                    tensor.y_batch_stride == columns * tensor.y_sequence_stride && r.row_b == columns;
  if (even) {
    return {{rows * columns, x_at(r.b0, r.s0), g.sequence_stride, y_at(r.b0, r.s0), tensor.y_sequence_stride, 0, 1}};
  }
  std::vector<Line> lines;
  if (rows > columns) {
    for (int64_t s = r.s0; s < r.s1; ++s) {
      lines.push_back({rows, x_at(r.b0, s), g.batch_stride, y_at(r.b0, s), tensor.y_batch_stride, s - r.s0, r.row_b});
    }
    return lines;
  }
  for (int64_t b = r.b0; b < r.b1; ++b) {
    lines.push_back(
        {columns, x_at(b, r.s0), g.sequence_stride, y_at(b, r.s0), tensor.y_sequence_stride, (b - r.b0) * r.row_b, 1});
  }
  return lines;
}

}  // namespace

absl::StatusOr<XposFactors> XposOf(const XposScale& xpos, std::optional<int64_t> sequence_length) {
  if (xpos.center) return XposFactors{*xpos.scale_base, *xpos.center};
  if (sequence_length) return XposFactors{*xpos.scale_base, *sequence_length / 2};
  return InvalidField("sequence_length", "nothing", "1 … 2^31: xPos without a center takes half of it");
}

absl::Status CheckXposReach(const XposFactors& xpos, const PositionSet& positions, DType dtype, std::string_view field,
                            std::string_view what) {
  if (positions.count == 0) return absl::OkStatus();
  int64_t low = std::min(positions.at(0), positions.at(positions.count - 1));
  int64_t high = std::max(positions.at(0), positions.at(positions.count - 1));
  for (const int64_t id : positions.ids) low = std::min(low, id), high = std::max(high, id);
  const double bits = dtype == DType::kF64 ? 1022 : dtype == DType::kF16 ? 15 : 126;
  const auto reach = static_cast<int64_t>(std::min(bits / Decay::BitsPerPosition(xpos.scale_base), 0x1p40));
  // On one side of the center queries grow and keys vanish, on the other it is the reverse; what has vanished cannot be
  // brought back, so that is refused as well.
  if (low >= xpos.center - reach && high <= xpos.center + reach) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(low < xpos.center - reach ? low : high),
                      absl::StrCat(xpos.center - reach, " … ", xpos.center + reach, ": beyond, xPos's factor overflows ",
                                   std::string(what)));
}

std::vector<float> ClampedDeltas(const Weight& delta) {
  constexpr double kLeast = -2 * 3.141592653589793;
  std::vector<float> deltas;
  for (const double value : delta.values()) {
    deltas.push_back(static_cast<float>(std::clamp(std::isnan(value) ? 0.0 : value, kLeast, 0.0)));
  }
  return deltas;
}

int RotateWork::VariantOf(const Rotated& tensor) const {
  const bool differs = scale || xpos || (kind == Kind::kPolar && delta);
  return (tensor.geometry.dtype == DType::kF64 ? 2 : 0) + (differs && !tensor.is_query ? 1 : 0);
}

int64_t RotateWork::RowBytes(int variant) const {
  const int64_t heads = kind == Kind::kPolar && variant % 2 == 0 ? 1 : table_heads;
  return heads * pairs * (variant >= 2 ? 8 : 4);
}

void RotateWork::Seal() {
  for (const Rotated& tensor : tensors) used_[static_cast<size_t>(VariantOf(tensor))] = true;
  int64_t row_bytes = 0;
  for (int v = 0; v < kVariants; ++v) row_bytes += used_[static_cast<size_t>(v)] ? 2 * RowBytes(v) : 0;
  chunk_rows_ = std::clamp<int64_t>(kChunkBytes / std::max<int64_t>(row_bytes, 1), 1, std::max<int64_t>(positions.count, 1));
  scratch_bytes = chunk_rows_ * row_bytes + 2 * kVariants * 64;
  position_bytes = positions.bytes();
}

// The steps of one run.
class RotateWork::Builder {
 public:
  Builder(const RotateWork& work, std::span<const Resolved* const> plans, const WorkMemory& memory)
      : work_(work), memory_(memory) {
    LayOutTables();
    if (work.kind == Kind::kFrequency) mixed_ = &std::get<MixedAnglePlan>(plans[0]->plan);
    if (work.kind == Kind::kPolar) PreparePolar(plans);
    if (work.kind == Kind::kRope || work.kind == Kind::kBetween) PrepareAngles(plans);
  }

  std::vector<ProgramStep> Build() {
    const int64_t batch = work_.tensors.front().geometry.batch, sequence = work_.tensors.front().geometry.sequence;
    const int64_t chunk = work_.chunk_rows_;
    if (batch == 0 || sequence == 0) return {};
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
  struct Polar {
    AnglePlan plan;
    std::vector<Turns> phases;
    std::vector<float> deltas;
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
  }

  void PreparePolar(std::span<const Resolved* const> plans) {
    auto polar = std::make_shared<Polar>();
    polar->plan = std::get<AnglePlan>(plans[0]->plan);
    if (work_.delta) {
      polar->phases = PhasesOf(*work_.delta);
      polar->deltas = ClampedDeltas(*work_.delta);
    }
    polar_ = std::move(polar);
  }

  void PrepareAngles(std::span<const Resolved* const> plans) {
    RotationTable table;
    if (work_.kind == Kind::kBetween) {
      table = BetweenSchedules(std::get<AnglePlan>(plans[1]->plan), std::get<AnglePlan>(plans[0]->plan));
    } else {
      table.plan = std::get<AnglePlan>(plans[0]->plan);
    }
    table.inverse = work_.divide;
    if (work_.xpos) {
      auto decay = std::make_shared<Decay>(work_.pairs, work_.xpos->scale_base, work_.xpos->center);
      steps_.push_back(ProgramStep::Of(
          [decay](RowRange pairs, const CancelFlag*) {
            decay->Prepare(pairs);
            return absl::OkStatus();
          },
          work_.pairs, 8));
      table.decay = std::move(decay);
    }
    for (int v = 0; v < kVariants; ++v) {
      if (!work_.used_[static_cast<size_t>(v)]) continue;
      auto own = std::make_shared<RotationTable>(table);
      const bool is_key = v % 2 == 1;
      own->decay_sign = is_key ? -1 : 1;
      if (!is_key) own->scale = work_.scale;
      tables_[static_cast<size_t>(v)].angles = std::move(own);
    }
  }

  void AddChunk(int64_t first_row, int64_t rows, const Rectangle& tokens) {
    RotationPositions positions;
    for (int64_t axis = 0; axis < work_.positions.axes(); ++axis) {
      positions.axes[static_cast<size_t>(axis)] = work_.positions.Source(axis, first_row);
    }
    for (int v = 0; v < kVariants; ++v) {
      if (work_.used_[static_cast<size_t>(v)]) AddTable(v, positions, rows);
    }
    for (size_t i = 0; i < work_.tensors.size(); ++i) {
      if (work_.tensors[i].geometry.heads == 0) continue;
      for (const Line& line : LinesOf(work_.tensors[i], tokens)) AddLine(i, line);
    }
  }

  void AddTable(int variant, const RotationPositions& positions, int64_t rows) {
    const Table& table = tables_[static_cast<size_t>(variant)];
    const DType dtype = variant >= 2 ? DType::kF64 : DType::kF32;
    const bool is_key = variant % 2 == 1;
    const std::optional<PositionScale> scale = is_key ? std::nullopt : work_.scale;
    const int64_t per_slice = std::max<int64_t>(1, 2000 / std::max<int64_t>(1, work_.pairs * work_.table_heads));
    if (table.angles != nullptr) {
      for (ProgramStep& step : TableSteps(table.angles, positions, rows, dtype, table.cos, table.sin)) {
        steps_.push_back(std::move(step));
      }
    } else if (work_.kind == Kind::kUploaded) {
      for (const bool is_sin : {false, true}) {
        const Weight* weight = is_sin ? &*work_.sin : &*work_.cos;
        const UploadedRows fill{weight, positions, scale, work_.divide, dtype, is_sin ? table.sin : table.cos};
        steps_.push_back(ProgramStep::Of(fill, rows, 20 * per_slice));
      }
    } else if (work_.kind == Kind::kFrequency) {
      const MixedRotationRows fill{mixed_, positions, scale, dtype, table.cos, table.sin};
      const int64_t cost = 1 + static_cast<int64_t>(mixed_->frequencies.size()) / 8;
      steps_.push_back(ProgramStep::Of([fill](RowRange range, const CancelFlag* cancel) { return fill.Fill(range, cancel); },
                                       rows, std::max<int64_t>(1, per_slice / cost)));
    } else {
      PolarRows fill;
      fill.plan = &polar_->plan;
      fill.heads = is_key ? work_.table_heads : 1;
      if (is_key && work_.delta) fill.phases = &polar_->phases, fill.deltas = &polar_->deltas;
      fill.positions = positions;
      fill.dtype = dtype;
      fill.cos = table.cos;
      fill.sin = table.sin;
      steps_.push_back(ProgramStep::Of(
          [fill, polar = polar_](RowRange range, const CancelFlag* cancel) { return fill.Fill(range, cancel); }, rows,
          per_slice));
    }
  }

  void AddLine(size_t index, const Line& line) {
    const Rotated& tensor = work_.tensors[index];
    if (work_.kind == Kind::kPolar) return AddPolarLine(index, line);
    const int variant = work_.VariantOf(tensor);
    const int64_t size = SizeOf(tensor.geometry.dtype), entry = variant >= 2 ? 8 : 4;
    const int64_t row = work_.table_heads * work_.pairs;
    RotateTask task;
    task.dtype = tensor.geometry.dtype;
    task.pairing = work_.pairing;
    task.inverse = work_.negate;
    task.tokens = line.tokens;
    task.heads = tensor.geometry.heads / work_.table_heads;
    task.head_dim = tensor.geometry.head_dim - work_.first_channel;
    task.pairs = work_.pairs;
    task.x_token_stride = task.y_token_stride = line.x_stride;
    task.x_head_stride = task.y_head_stride = tensor.geometry.head_stride;
    task.table_stride = line.row_stride * row;
    task.hint = StoreHint::kReadNext;
    for (int64_t group = 0; group < work_.table_heads; ++group) {
      const int64_t first = line.x + group * task.heads * task.x_head_stride + work_.first_channel;
      task.x = task.y = memory_.inputs[index] + first * size;
      const int64_t at = (line.row * row + group * work_.pairs) * entry;
      task.cos = tables_[static_cast<size_t>(variant)].cos + at;
      task.sin = tables_[static_cast<size_t>(variant)].sin + at;
      steps_.push_back(ProgramStep::Of(task, line.tokens));
    }
  }

  void AddPolarLine(size_t index, const Line& line) {
    const Rotated& tensor = work_.tensors[index];
    const int variant = work_.VariantOf(tensor);
    const int64_t size = SizeOf(tensor.geometry.dtype), row_bytes = work_.RowBytes(variant);
    PolarApply apply;
    apply.dtype = tensor.geometry.dtype;
    apply.heads = tensor.geometry.heads;
    apply.head_dim = tensor.geometry.head_dim;
    apply.x = memory_.inputs[index] + line.x * size;
    apply.y = memory_.outputs[index] + line.y * size;
    apply.x_token_stride = line.x_stride;
    apply.x_head_stride = tensor.geometry.head_stride;
    apply.y_token_stride = line.y_stride;
    apply.y_head_stride = tensor.y_head_stride;
    apply.cos = tables_[static_cast<size_t>(variant)].cos + line.row * row_bytes;
    apply.sin = tables_[static_cast<size_t>(variant)].sin + line.row * row_bytes;
    apply.table_stride = line.row_stride * row_bytes / (variant >= 2 ? 8 : 4);
    apply.table_head_stride = variant % 2 == 1 && work_.table_heads > 1 ? work_.pairs : 0;
    const int64_t cost = std::max<int64_t>(1, apply.heads * apply.head_dim);
    steps_.push_back(
        ProgramStep::Of([apply](RowRange tokens, const CancelFlag* cancel) { return apply.Run(tokens, cancel); },
                        line.tokens, std::max<int64_t>(1, 30000 / cost)));
  }

  const RotateWork& work_;
  const WorkMemory& memory_;
  std::array<Table, kVariants> tables_;
  const MixedAnglePlan* mixed_ = nullptr;
  std::shared_ptr<const Polar> polar_;
  std::vector<ProgramStep> steps_;
};

absl::StatusOr<std::vector<ProgramStep>> RotateWork::Steps(std::span<const Resolved* const> plans,
                                                           const WorkMemory& memory) const {
  return Builder(*this, plans, memory).Build();
}

}  // namespace phasor::server
