#include "kernels/program/polar.h"

#include <algorithm>
#include <cstring>

#include "kernels/core/math.h"
#include "kernels/core/narrow.h"
#include "kernels/core/sincos.h"
#include "kernels/encodings/wide.h"

namespace phasor {
namespace {

bool IsCancelled(const CancelFlag* cancel) { return cancel != nullptr && cancel->load(std::memory_order_relaxed); }

template <typename T>
T Get(const void* base, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(base) + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}
template <typename T>
void Put(void* base, int64_t index, T value) {
  std::memcpy(static_cast<char*>(base) + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

// The fractions of two phases added, modulo one turn.
Turns Add(const Turns& a, const Turns& b) {
  Turns sum;
  unsigned __int128 carry = 0;
  for (int i = 0; i < 3; ++i) {
    carry += static_cast<unsigned __int128>(a.limb[i]) + b.limb[i];
    sum.limb[i] = static_cast<uint64_t>(carry);
    carry >>= 64;
  }
  return sum;
}

// Rounded to f32, and cast.
template <typename T>
T ByFloat(const Real128& value) {
  if constexpr (sizeof(T) > sizeof(float)) {
    return Widen<T>(RoundTo<float>(value));
  } else {
    return Narrow<T>(RoundTo<float>(value));
  }
}

template <typename T>
void FillRow(const PolarRows& rows, int64_t row) {
  const int64_t position = CoordinateOf(rows.positions.axes[0], row).whole;
  const int64_t n = rows.plan->pairs();
  const bool compat = rows.plan->precision == Precision::kCompatF32;
  for (int64_t h = 0; h < rows.heads; ++h) {
    for (int64_t i = 0; i < n; ++i) {
      const auto pair = static_cast<size_t>(i);
      SinCos128 exact;
      if (compat) {
        float angle = rows.plan->inv_freq_f32[pair] * static_cast<float>(position);
        if (rows.deltas != nullptr) angle += (*rows.deltas)[static_cast<size_t>(h * n + i) % rows.deltas->size()];
        exact = SinCosOfRadians(angle);
      } else {
        Turns phase = PhaseOf(rows.plan->frequencies[pair], position);
        if (rows.phases != nullptr) phase = Add(phase, (*rows.phases)[static_cast<size_t>(h * n + i) % rows.phases->size()]);
        exact = SinCosOfPosition(phase, 1);
      }
      const int64_t at = (row * rows.heads + h) * n + i;
      Put<T>(rows.cos, at, compat ? ByFloat<T>(exact.cos) : RoundTo<T>(exact.cos));
      Put<T>(rows.sin, at, compat ? ByFloat<T>(exact.sin) : RoundTo<T>(exact.sin));
    }
  }
}

template <typename T>
void ApplyHead(const PolarApply& apply, int64_t x, int64_t y, int64_t table) {
  using C = ComputeType<T>;
  for (int64_t i = 0; i < apply.head_dim; ++i) {
    const C radius = math::Softplus(Widen<C>(Get<T>(apply.x, x + i)));
    Put(apply.y, y + i, Narrow<T>(radius * Get<C>(apply.cos, table + i)));
    Put(apply.y, y + apply.head_dim + i, Narrow<T>(radius * Get<C>(apply.sin, table + i)));
  }
}

}  // namespace

std::vector<Turns> PhasesOf(const Weight& delta) {
  std::vector<Turns> phases;
  const Wide turn = Wide(2.0) * Pi();
  for (const double value : delta.values()) {
    Turns phase;
    if (value < 0) {
      const Wide part = Wide(value) / turn;  // −1 … 0: one turn less it is the same angle
      phase = part <= -1.0 ? Turns{} : ToTurns(part + 1.0);
    }
    phases.push_back(phase);
  }
  return phases;
}

absl::Status PolarRows::Fill(RowRange rows, const CancelFlag* cancel) const {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    if (IsCancelled(cancel)) return absl::CancelledError("polar table: cancelled");
    VisitFloat(dtype, [&](auto tag) { FillRow<typename decltype(tag)::type>(*this, row); });
  }
  return absl::OkStatus();
}

absl::Status PolarApply::Run(RowRange tokens, const CancelFlag* cancel) const {
  for (int64_t t = tokens.begin; t < tokens.end; ++t) {
    if (IsCancelled(cancel)) return absl::CancelledError("polar embedding: cancelled");
    VisitFloat(dtype, [&](auto tag) {
      for (int64_t h = 0; h < heads; ++h) {
        ApplyHead<typename decltype(tag)::type>(*this, t * x_token_stride + h * x_head_stride,
                                                t * y_token_stride + h * y_head_stride,
                                                t * table_stride + h * table_head_stride);
      }
    });
  }
  return absl::OkStatus();
}

}  // namespace phasor
