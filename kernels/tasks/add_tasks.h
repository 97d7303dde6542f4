// Tasks that add encodings to tensors. Part of backend.h.
#ifndef PHASOR_KERNELS_TASKS_ADD_TASKS_H_
#define PHASOR_KERNELS_TASKS_ADD_TASKS_H_

#include <cstdint>

#include "kernels/core/dtype.h"

namespace phasor {

// Element e is kept when word e mod 4 of Philox block offset + e/4 (kernels/core/philox.h, key = seed) is ≥ threshold, and
// multiplied by `factor`; else it is +0.
struct DropoutRule {
  bool on = false;
  uint64_t seed = 0;
  uint64_t offset = 0;
  uint64_t threshold = 0;  // 0 … 2^32
  double factor = 1;       // a number of the compute type
};

// p·2^32 to the nearest whole number, halves up; p in [0, 1).
constexpr uint64_t DropoutThreshold(double probability) {
  const double scaled = probability * 4294967296.0;
  const auto whole = static_cast<uint64_t>(scaled);
  return scaled - static_cast<double>(whole) >= 0.5 ? whole + 1 : whole;
}

// A table of rows of ComputeType(dtype): row of (batch b, token t) at data + b·batch_stride + t·token_stride (elements).
// A stride of 0 is the same row for all.
struct AddRows {
  const void* data = nullptr;
  int64_t batch_stride = 0;
  int64_t token_stride = 0;
};

// Rows that only some tokens get: index[b·index_batch_stride + t] of them, none where that is negative.
struct AddEnds {
  const void* data = nullptr;  // [rows, dim] of ComputeType(dtype); null: none
  const int32_t* index = nullptr;
  int64_t index_batch_stride = 0;  // 0: the same for every batch row
};

// y = dropout(scale·x + p), for `batch` × `tokens` vectors of `dim` channels. Rows are vectors in the order of tokens: row r
// is token r / batch, batch row r % batch. For every channel, in C = ComputeType(dtype):
//   p = pe                                    without a gate
//   p = fma(g, pe, (1 − g)·other)             with one
//   p = p + first, then p = p + last          where the token has such rows
//   v = fma(scale, x, p)                      (without pe: scale·x)
//   y = v·factor, or +0 where dropped         with dropout
// and one rounding to 16 bits; a NaN is the canonical quiet one; hidden tokens are +0. Each operation is rounded once. y ==
// x with equal strides: in place; any other overlap is not allowed. Channels are contiguous.
struct AddTask {
  DType dtype = DType::kF32;  // IsFloat
  int64_t batch = 1;
  int64_t tokens = 0;
  int64_t dim = 0;
  const void* x = nullptr;
  void* y = nullptr;
  int64_t x_batch_stride = 0, x_token_stride = 0;  // elements
  int64_t y_batch_stride = 0, y_token_stride = 0;
  double scale = 1;  // a number of C
  AddRows pe;        // null: nothing is added
  AddRows other;     // null: no gate
  AddRows gate;
  int64_t gate_channel_stride = 0;  // 0 or 1
  AddEnds first, last;
  const uint8_t* hidden = nullptr;  // [b·hidden_batch_stride + t]: 1 where hidden; null: none
  int64_t hidden_batch_stride = 0;
  DropoutRule dropout;
  // Element e = first_element + b·element_batch_stride + t·element_token_stride + channel.
  int64_t first_element = 0, element_batch_stride = 0, element_token_stride = 0;
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_TASKS_ADD_TASKS_H_
