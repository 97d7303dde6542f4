#include "kernels/program/rotation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/core/narrow.h"
#include "kernels/encodings/wide.h"

namespace phasor {
namespace {

constexpr double kPositionLimit = 0x1p31;

// The factors that backends' angle tables are made for.
constexpr double kSmallestFactor = 1e-4;
constexpr double kLargestFactor = 1e4;

// A positive number below 2^63, to 127 bits.
Real128 ToReal(const Wide& value) {
  const double approximate = ToDouble(value);
  const int exponent = std::ilogb(approximate);
  const Turns bits = ToTurns(ScaleByPowerOfTwo(value, -exponent - 1));  // in [1/4, 1]
  if (bits.limb[3] != 0) return ToReal128(std::ldexp(1.0, exponent + 1));
  Real128 result;
  result.mantissa = static_cast<unsigned __int128>(bits.limb[2]) << 64 | bits.limb[1];
  result.exponent = exponent;
  while (result.mantissa >> 127 == 0) {
    result.mantissa <<= 1;
    --result.exponent;
  }
  return result;
}

double PositionOf(const RotationPositions& positions, int64_t row) { return CoordinateOf(positions.axes[0], row).value; }

int64_t FloorQuotient(const PositionScale& scale, double position) {
  const auto whole = static_cast<int64_t>(std::floor(std::max(position, 0.0)));
  return (whole + scale.shift) / scale.period;  // a period is whole, so the fraction does not matter
}

// Rows from `row` on that have its factor, as far as that is cheap to tell.
int64_t EndOfScale(const PositionScale& scale, const RotationPositions& positions, int64_t row, int64_t count) {
  if (scale.rule == PositionScale::Rule::kConstant) return count;
  int64_t end = row + 1;
  if (scale.rule == PositionScale::Rule::kFloor) {
    const int64_t quotient = FloorQuotient(scale, PositionOf(positions, row));
    while (end < count && FloorQuotient(scale, PositionOf(positions, end)) == quotient) ++end;
    return end;
  }
  const auto is_one = [&](int64_t r) { return PositionOf(positions, r) < static_cast<double>(scale.training_length); };
  while (is_one(row) && end < count && is_one(end)) ++end;
  return end;
}

template <typename T>
void Put(void* base, int64_t index, T value) {
  std::memcpy(static_cast<char*>(base) + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

// A zero is +0, also times a factor below 0.
template <typename T>
T Positive(T value) {
  return (BitsOf(value) & (kSignBit<T> - 1u)) == 0 ? FromBits<T>(0) : value;
}

template <typename T>
T Cast(float value) {
  if constexpr (sizeof(T) > sizeof(float)) {
    return Widen<T>(value);
  } else {
    return Narrow<T>(value);
  }
}

// One row of one table.
template <typename T>
class RowFiller {
 public:
  explicit RowFiller(const RotationRows& rows) : rows_(rows), table_(*rows.table) {
    const Real128 factor = ToReal128(table_.plan.attention_factor);
    factor_ = table_.inverse ? Reciprocal(factor) : factor;
  }

  void Fill(int64_t row) {
    const double position = PositionOf(rows_.positions, row);
    if (table_.scale && !(has_scale_ && position == scale_position_)) {
      scale_ = ScaleAt(*table_.scale, position);
      scale_position_ = position;
      has_scale_ = true;
    }
    const bool compat = table_.plan.precision == Precision::kCompatF32;
    Real128 factor = factor_;
    if (table_.scale && !compat) {
      const Real128 scale = ToReal128(scale_);
      factor = Multiply(factor, table_.inverse ? Reciprocal(scale) : scale);
    }
    for (int64_t i = 0; i < table_.plan.pairs(); ++i) {
      const bool backwards = !table_.backwards.empty() && table_.backwards[static_cast<size_t>(i)] != 0;
      const size_t axis = table_.plan.axis_of_pair.empty() ? 0 : table_.plan.axis_of_pair[static_cast<size_t>(i)];
      Coordinate turned = CoordinateOf(rows_.positions.axes[axis], row);
      if (backwards) turned = {turned.is_whole, -turned.whole, -turned.value};
      T cos, sin;
      if (compat) {
        Compat(i, turned.value, static_cast<int64_t>(position), &cos, &sin);
      } else {
        const Turns& frequency = table_.plan.frequencies[static_cast<size_t>(i)];
        const SinCos128 angle = turned.is_whole ? SinCosOfPosition(frequency, turned.whole)
                                                : SinCosOfFractionalPosition(frequency, turned.value);
        Real128 all = factor;
        if (table_.decay != nullptr) {
          const int sign = table_.inverse ? -table_.decay_sign : table_.decay_sign;
          all = Multiply(all, table_.decay->At(i, static_cast<int64_t>(position), sign));
        }
        cos = Positive(RoundTo<T>(Multiply(angle.cos, all)));
        sin = Positive(RoundTo<T>(Multiply(angle.sin, all)));
      }
      Put(rows_.cos, row * rows_.row_stride + i, cos);
      Put(rows_.sin, row * rows_.row_stride + i, sin);
    }
  }

 private:
  void Compat(int64_t pair, double turned, int64_t position, T* cos, T* sin) const {
    const float angle = table_.plan.inv_freq_f32[static_cast<size_t>(pair)] * static_cast<float>(turned);
    const SinCos128 exact = SinCosOfRadians(angle);
    float c = RoundTo<float>(exact.cos), s = RoundTo<float>(exact.sin);
    const auto apply = [&](float factor) {
      c = table_.inverse ? c / factor : c * factor;
      s = table_.inverse ? s / factor : s * factor;
    };
    apply(table_.plan.attention_factor_f32);
    if (table_.scale) apply(static_cast<float>(scale_));
    if (table_.decay != nullptr) apply(RoundTo<float>(table_.decay->At(pair, position, table_.decay_sign)));
    *cos = Cast<T>(c + 0.0f);
    *sin = Cast<T>(s + 0.0f);
  }

  const RotationRows& rows_;
  const RotationTable& table_;
  Real128 factor_;
  double scale_ = 1;
  double scale_position_ = 0;
  bool has_scale_ = false;
};

template <typename T>
absl::Status FillAs(const RotationRows& rows, RowRange range, const CancelFlag* cancel) {
  RowFiller<T> filler(rows);
  for (int64_t row = range.begin; row < range.end; ++row) {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return absl::CancelledError("rotation: cancelled");
    for (int64_t axis = 0; axis < rows.table->plan.axes; ++axis) {
      const double position = CoordinateOf(rows.positions.axes[static_cast<size_t>(axis)], row).value;
      if (!(position > -kPositionLimit && position < kPositionLimit)) {
        return absl::InvalidArgumentError("rotation: a position is not within ±(2^31 − 1)");
      }
    }
    filler.Fill(row);
  }
  return absl::OkStatus();
}

// The table with the scale of its rows, all alike, as part of A.
std::shared_ptr<const RotationTable> WithScale(const RotationTable& table, double scale) {
  auto scaled = std::make_shared<RotationTable>(table);
  scaled->scale.reset();
  const Wide factor = Wide::Sum(table.plan.attention_factor) * scale;
  scaled->plan.attention_factor = ToDoubleDouble(factor);
  return scaled;
}

// A step of the backend that holds on to its table.
ProgramStep AngleStep(const std::shared_ptr<const RotationTable>& table, const RotationPositions& positions, int64_t first,
                      int64_t count, DType dtype, void* cos, void* sin) {
  AngleTask task;
  task.plan = &table->plan;
  const RotationPositions from = positions.From(first);
  task.positions = from.axes[0];
  for (size_t axis = 1; axis < from.axes.size(); ++axis) task.more_axes[axis - 1] = from.axes[axis];
  task.dtype = dtype;
  task.inverse = table->inverse;
  task.row_stride = table->plan.pairs();
  task.cos = static_cast<char*>(cos) + first * task.row_stride * SizeOf(dtype);
  task.sin = static_cast<char*>(sin) + first * task.row_stride * SizeOf(dtype);
  task.hint = StoreHint::kReadNext;
  ProgramStep step = ProgramStep::Of(task, count);
  step.held = table;
  return step;
}

}  // namespace

RotationPositions RotationPositions::From(int64_t first) const {
  RotationPositions moved = *this;
  for (PositionSource& source : moved.axes) {
    if (!source.fractional_ids.empty()) {
      source.fractional_ids = source.fractional_ids.subspan(static_cast<size_t>(first));
    } else if (!source.ids.empty()) {
      source.ids = source.ids.subspan(static_cast<size_t>(first));
    } else {
      source.start += first * source.stride;
    }
  }
  return moved;
}

Coordinate CoordinateOf(const PositionSource& source, int64_t row) {
  if (!source.fractional_ids.empty()) {
    const double value = source.fractional_ids[static_cast<size_t>(row)];
    const bool is_whole = std::floor(value) == value && std::fabs(value) < 0x1p62;
    return {is_whole, is_whole ? static_cast<int64_t>(value) : 0, value};
  }
  const int64_t whole = source.ids.empty() ? source.start + row * source.stride : source.ids[static_cast<size_t>(row)];
  return {true, whole, static_cast<double>(whole)};
}

double ScaleAt(const PositionScale& scale, double position) {
  switch (scale.rule) {
    case PositionScale::Rule::kConstant:
      return scale.constant;
    case PositionScale::Rule::kLogN:
      if (position + 1 <= static_cast<double>(scale.training_length)) return 1;
      return ToDouble(Log(Wide(position) + 1.0) / Log(Wide::FromInt(scale.training_length)));
    default:
      break;
  }
  const int64_t quotient = FloorQuotient(scale, position);
  if (quotient == 0) return 1;
  return ToDouble(Wide(1.0) + Wide(scale.coefficient) * Log(Wide::FromInt(1 + quotient)));
}

Decay::Decay(int64_t pairs, double scale_base, int64_t center)
    : steps_(static_cast<size_t>(pairs)), inverse_(static_cast<size_t>(pairs)), scale_base_(scale_base), center_(center) {}

void Decay::Prepare(RowRange pairs) {
  const auto n = static_cast<int64_t>(steps_.size());
  for (int64_t i = pairs.begin; i < pairs.end; ++i) {
    // (2i + 0.4·d)/(1.4·d) with d = 2·n: (10i + 4·n)/(14·n).
    const Wide step = Pow(Wide::FromInt(10 * i + 4 * n) / Wide::FromInt(14 * n), Wide(1.0) / scale_base_);
    steps_[static_cast<size_t>(i)] = ToReal(step);
    inverse_[static_cast<size_t>(i)] = ToReal(Wide(1.0) / step);
  }
}

Real128 Decay::At(int64_t pair, int64_t position, int sign) const {
  const int64_t exponent = sign * (position - center_);
  Real128 power = exponent < 0 ? inverse_[static_cast<size_t>(pair)] : steps_[static_cast<size_t>(pair)];
  Real128 product = ToReal128(1.0);
  for (auto left = static_cast<uint64_t>(std::abs(exponent)); left != 0; left >>= 1) {
    if (left % 2 == 1) product = Multiply(product, power);
    power = Multiply(power, power);
  }
  return product;
}

double Decay::BitsPerPosition(double scale_base) { return 0x1.ceaecfea8085ap+0 / scale_base; }  // log2(1.4/0.4)

RotationTable BetweenSchedules(const AnglePlan& source, const AnglePlan& target) {
  RotationTable table;
  const size_t pairs = source.frequencies.size();
  table.plan.frequencies.resize(pairs);
  table.plan.inv_freq.resize(pairs);
  table.plan.inv_freq_f32.resize(pairs);
  table.plan.axes = source.axes;
  table.plan.axis_of_pair = source.axis_of_pair;
  table.backwards.assign(pairs, 0);
  for (size_t i = 0; i < pairs; ++i) {
    const Wide difference = Wide::FromTurns(target.frequencies[i]) - Wide::FromTurns(source.frequencies[i]);
    table.backwards[i] = difference < 0.0 ? 1 : 0;
    const Wide magnitude = difference < 0.0 ? -difference : difference;
    if (magnitude < ScaleByPowerOfTwo(1.0, -96)) continue;
    table.plan.frequencies[i] = ToTurns(magnitude);
    const Wide radians = magnitude * 2.0 * Pi();
    table.plan.inv_freq[i] = ToDouble(radians);
    table.plan.inv_freq_f32[i] = ToFloat(radians);
  }
  const Wide factor = Wide::Sum(target.attention_factor) / Wide::Sum(source.attention_factor);
  table.plan.attention_factor = ToDoubleDouble(factor);
  table.plan.attention_factor_f32 = ToFloat(factor);
  return table;
}

absl::Status RotationRows::Fill(RowRange rows, const CancelFlag* cancel) const {
  return VisitFloat(dtype, [&](auto tag) { return FillAs<typename decltype(tag)::type>(*this, rows, cancel); });
}

std::vector<ProgramStep> TableSteps(std::shared_ptr<const RotationTable> table, const RotationPositions& positions,
                                    int64_t count, DType dtype, void* cos, void* sin) {
  std::vector<ProgramStep> steps;
  const bool compat = table->plan.precision == Precision::kCompatF32;
  const bool plain = table->decay == nullptr && table->backwards.empty() && !(compat && table->scale);
  std::vector<int64_t> runs;  // ends of stretches with one factor
  if (plain && !table->scale) runs.push_back(count);
  if (plain && table->scale) {
    // A stretch costs a plan and its set-up, which pays from some dozens of rows on.
    for (int64_t row = 0; row < count && static_cast<int64_t>(runs.size()) <= 1 + count / 64; row = runs.back()) {
      runs.push_back(EndOfScale(*table->scale, positions, row, count));
    }
  }
  if (!runs.empty() && runs.back() == count) {
    int64_t first = 0;
    for (const int64_t end : runs) {
      const auto scaled = table->scale ? WithScale(*table, ScaleAt(*table->scale, PositionOf(positions, first))) : table;
      const double factor = scaled->plan.attention_factor.hi;
      if (!(factor >= kSmallestFactor && factor <= kLargestFactor)) break;
      steps.push_back(AngleStep(scaled, positions, first, end - first, dtype, cos, sin));
      first = end;
    }
    if (first == count) return steps;
    steps.clear();
  }
  const int64_t pairs = std::max<int64_t>(table->plan.pairs(), 1);
  RotationRows rows{table.get(), positions, dtype, cos, sin, table->plan.pairs()};
  steps.push_back(
      ProgramStep::Of([table, rows](RowRange range, const CancelFlag* cancel) { return rows.Fill(range, cancel); }, count,
                      std::max<int64_t>(1, (table->scale ? 2000 : 4000) / pairs)));
  return steps;
}

}  // namespace phasor
