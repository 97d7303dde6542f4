#include <cmath>
#include <vector>

#include "kernels/core/narrow.h"
#include "kernels/reference/tasks.h"

namespace phasor::reference {
namespace {

template <typename T>
ComputeType<T> Load(const void* base, int64_t index) {
  return Widen<ComputeType<T>>(FromBits<T>(LoadBits(base, index, sizeof(T))));
}

template <typename T>
void Store(void* base, int64_t index, ComputeType<T> value) {
  StoreBits(base, index, sizeof(T), BitsOf(Narrow<T>(value)));
}

template <typename T>
void RotateHead(const RotateTask& task, int64_t x, int64_t y, int64_t table) {
  using C = ComputeType<T>;
  const bool changes = task.pairing == Pairing::kInterleavedToHalf;
  const bool reads_halves = task.pairing == Pairing::kHalfSplit || (changes && task.inverse);
  const bool writes_halves = changes != reads_halves;
  // Read before anything is written: in place, a pair may be written where another one is still to be read.
  std::vector<C> values(static_cast<size_t>(2 * task.pairs));
  for (int64_t c = 0; c < 2 * task.pairs; ++c) values[static_cast<size_t>(c)] = Load<T>(task.x, x + c);
  for (int64_t i = 0; i < task.pairs; ++i) {
    const int64_t a = writes_halves ? i : 2 * i;
    const int64_t b = writes_halves ? i + task.pairs : 2 * i + 1;
    const C cos = FromBits<C>(LoadBits(task.cos, table + i, sizeof(C)));
    const C sin = FromBits<C>(LoadBits(task.sin, table + i, sizeof(C)));
    const C x_a = values[static_cast<size_t>(reads_halves ? i : 2 * i)];
    const C x_b = values[static_cast<size_t>(reads_halves ? i + task.pairs : 2 * i + 1)];
    const C signed_sin = task.inverse ? -sin : sin;
    Store<T>(task.y, y + a, std::fma(x_a, cos, -(x_b * signed_sin)));
    Store<T>(task.y, y + b, std::fma(x_b, cos, x_a * signed_sin));
  }
  if (task.y == task.x) return;
  for (int64_t c = 2 * task.pairs; c < task.head_dim; ++c) {
    StoreBits(task.y, y + c, sizeof(T), LoadBits(task.x, x + c, sizeof(T)));
  }
}

}  // namespace

absl::Status RunRow(const RotateTask& task, int64_t token) {
  if (task.x == nullptr || task.y == nullptr || task.cos == nullptr || task.sin == nullptr) {
    return absl::InvalidArgumentError("rotation without an input, a table or an output");
  }
  const int64_t table_row = task.table_rows.empty() ? token : task.table_rows[token];
  for (int64_t head = 0; head < task.heads; ++head) {
    VisitFloat(task.dtype, [&](auto tag) {
      RotateHead<typename decltype(tag)::type>(task, token * task.x_token_stride + head * task.x_head_stride,
                                               token * task.y_token_stride + head * task.y_head_stride,
                                               table_row * task.table_stride);
    });
  }
  return absl::OkStatus();
}

}  // namespace phasor::reference
