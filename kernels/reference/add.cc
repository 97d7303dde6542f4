#include <cmath>

#include "kernels/core/narrow.h"
#include "kernels/core/philox.h"
#include "kernels/reference/tasks.h"

namespace phasor::reference {
namespace {

template <typename C>
C At(const AddRows& rows, int64_t b, int64_t t, int64_t channel) {
  return FromBits<C>(LoadBits(rows.data, b * rows.batch_stride + t * rows.token_stride + channel, sizeof(C)));
}

template <typename C>
void AddEnd(const AddEnds& ends, int64_t b, int64_t t, int64_t channel, int64_t dim, C* p) {
  if (ends.data == nullptr) return;
  const int32_t row = ends.index[b * ends.index_batch_stride + t];
  if (row >= 0) *p = *p + FromBits<C>(LoadBits(ends.data, row * dim + channel, sizeof(C)));
}

template <typename C>
C Encoding(const AddTask& task, int64_t b, int64_t t, int64_t channel) {
  C p = At<C>(task.pe, b, t, channel);
  if (task.other.data != nullptr) {
    const C g = At<C>(task.gate, b, t, channel * task.gate_channel_stride);
    p = std::fma(g, p, (C{1} - g) * At<C>(task.other, b, t, channel));
  }
  AddEnd(task.first, b, t, channel, task.dim, &p);
  AddEnd(task.last, b, t, channel, task.dim, &p);
  return p;
}

bool IsKept(const DropoutRule& rule, uint64_t element) {
  return Philox(rule.seed, rule.offset, element / 4)[element % 4] >= rule.threshold;
}

template <typename T>
void RunVector(const AddTask& task, int64_t b, int64_t t) {
  using C = ComputeType<T>;
  const bool hidden = task.hidden != nullptr && task.hidden[b * task.hidden_batch_stride + t] != 0;
  for (int64_t channel = 0; channel < task.dim; ++channel) {
    C v = 0;
    const int64_t element = task.first_element + b * task.element_batch_stride + t * task.element_token_stride + channel;
    if (!hidden && (!task.dropout.on || IsKept(task.dropout, static_cast<uint64_t>(element)))) {
      const int64_t at = b * task.x_batch_stride + t * task.x_token_stride + channel;
      const C x = Widen<C>(FromBits<T>(LoadBits(task.x, at, sizeof(T))));
      const C scale = static_cast<C>(task.scale);
      v = task.pe.data == nullptr ? scale * x : std::fma(scale, x, Encoding<C>(task, b, t, channel));
      if (task.dropout.on) v = v * static_cast<C>(task.dropout.factor);
    }
    const int64_t at = b * task.y_batch_stride + t * task.y_token_stride + channel;
    StoreBits(task.y, at, sizeof(T), BitsOf(Narrow<T>(v)));
  }
}

}  // namespace

absl::Status RunRow(const AddTask& task, int64_t row) {
  VisitFloat(task.dtype,
             [&](auto tag) { RunVector<typename decltype(tag)::type>(task, row % task.batch, row / task.batch); });
  return absl::OkStatus();
}

}  // namespace phasor::reference
