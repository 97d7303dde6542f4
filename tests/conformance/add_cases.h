// Random additions with everything that can be switched on, for every backend.
#ifndef PHASOR_TESTS_CONFORMANCE_ADD_CASES_H_
#define PHASOR_TESTS_CONFORMANCE_ADD_CASES_H_

#include <cmath>
#include <random>
#include <vector>

#include "tests/conformance/case_run.h"

namespace phasor {

// Any bits: NaNs, infinities and denormals among ordinary numbers.
inline void FillAny(Buffer& buffer, int64_t elements, DType dtype, std::mt19937_64& random) {
  const int64_t size = SizeOf(dtype);
  for (int64_t i = 0; i < elements; ++i) {
    uint64_t bits = random();
    if (random() % 16 != 0) {
      const double value = std::ldexp(static_cast<double>(static_cast<int64_t>(bits) >> 11), -51);
      const float narrow = static_cast<float>(value);
      std::memcpy(&bits, dtype == DType::kF64 ? static_cast<const void*>(&value) : &narrow, dtype == DType::kF64 ? 8 : 4);
      if (dtype == DType::kBF16) bits >>= 16;
      if (dtype == DType::kF16) bits = 0x3800 | (random() & 0x87ff);
    }
    // NaNs with payloads that a careless rounding carries over into infinity and beyond.
    if (random() % 64 == 0) bits = size == 8 ? 0x7fffffffffffffff : size == 4 ? 0x7fffffff : 0x7fff;
    std::memcpy(static_cast<char*>(buffer.data()) + i * size, &bits, size);
  }
}

enum AddSwitch : int {
  kGate = 1,
  kEnds = 2,
  kHidden = 4,
  kDropout = 8,
  kPerBatch = 16,
  kSequenceFirst = 32,
  kApart = 64,     // y is not x
  kBackward = 128  // nothing is added
};

struct AddShape {
  int64_t batch, tokens, dim;
};

// A task with all that it points at.
class AddCase {
 public:
  AddCase(const AddShape& shape, DType dtype, int switches, std::mt19937_64& random)
      : compute_(dtype == DType::kF64 ? DType::kF64 : DType::kF32),
        x_(Elements(shape) * SizeOf(dtype)),
        pe_(Rows(shape) * SizeOf(compute_)),
        other_(Rows(shape) * SizeOf(compute_)),
        gate_((Vectors(shape) + shape.dim) * SizeOf(compute_)),
        ends_(kEndRows * shape.dim * SizeOf(compute_)) {
    FillAny(x_, Elements(shape), dtype, random);
    FillAny(pe_, Rows(shape), compute_, random);
    FillAny(other_, Rows(shape), compute_, random);
    FillAny(gate_, Vectors(shape) + shape.dim, compute_, random);
    FillAny(ends_, kEndRows * shape.dim, compute_, random);
    const int64_t width = shape.dim + 3;
    task_.dtype = dtype;
    task_.batch = shape.batch;
    task_.tokens = shape.tokens;
    task_.dim = shape.dim;
    task_.x_token_stride = switches & kSequenceFirst ? shape.batch * width : width;
    task_.x_batch_stride = switches & kSequenceFirst ? width : shape.tokens * width;
    task_.y_token_stride = task_.x_token_stride;
    task_.y_batch_stride = task_.x_batch_stride;
    task_.scale = compute_ == DType::kF64 ? 1.1 : 1.1f;
    task_.element_token_stride = switches & kSequenceFirst ? shape.batch * shape.dim : shape.dim;
    task_.element_batch_stride = switches & kSequenceFirst ? shape.dim : shape.tokens * shape.dim;
    task_.first_element = static_cast<int64_t>(random() % 1000);
    if (!(switches & kBackward)) SetEncodings(shape, switches, random);
    if (switches & kHidden) {
      for (int64_t i = 0; i < Vectors(shape); ++i) hidden_.push_back(random() % 3 == 0);
      task_.hidden = hidden_.data();
      task_.hidden_batch_stride = switches & kPerBatch ? shape.tokens : 0;
    }
    if (switches & kDropout) {
      const double probability = random() % 4 == 0 ? 0 : 0.3;
      task_.dropout = {true, random(), random() % 2 == 0 ? UINT64_MAX - 3 : random(), DropoutThreshold(probability),
                       compute_ == DType::kF64 ? 1 / 0.7 : static_cast<double>(static_cast<float>(1 / 0.7))};
    }
    apart_ = switches & kApart;
    elements_ = Elements(shape);
  }

  const AddTask& task() const { return task_; }
  int64_t elements() const { return elements_; }

  // The result of rows [0, n), cut where `cuts` says.
  Buffer Run(const Backend& backend, const std::vector<int64_t>& cuts = {}) const {
    Buffer y = apart_ ? Buffer(elements_ * SizeOf(task_.dtype)) : x_;
    Buffer x = x_;
    AddTask task = task_;
    task.x = apart_ ? x.data() : y.data();
    task.y = y.data();
    int64_t begin = 0;
    for (const int64_t cut : cuts) {
      EXPECT_TRUE(backend.Run(task, {begin, cut}, nullptr).ok());
      begin = cut;
    }
    EXPECT_TRUE(backend.Run(task, {begin, task.batch * task.tokens}, nullptr).ok());
    EXPECT_TRUE(y.GuardIntact());
    return y;
  }

 private:
  static constexpr int64_t kEndRows = 3;
  static int64_t Vectors(const AddShape& shape) { return shape.batch * shape.tokens; }
  static int64_t Rows(const AddShape& shape) { return Vectors(shape) * (shape.dim + 1); }
  static int64_t Elements(const AddShape& shape) { return Vectors(shape) * (shape.dim + 3); }

  void SetEncodings(const AddShape& shape, int switches, std::mt19937_64& random) {
    const int64_t batch_stride = switches & kPerBatch ? shape.tokens * (shape.dim + 1) : 0;
    task_.pe = {pe_.data(), batch_stride, shape.dim + 1};
    if (switches & kGate) {
      task_.other = {other_.data(), 0, shape.dim + 1};
      const int kind = static_cast<int>(random() % 3);
      task_.gate = {gate_.data(), kind == 2 && switches & kPerBatch ? shape.tokens : 0, kind == 2 ? 1 : 0};
      task_.gate_channel_stride = kind == 1 ? 1 : 0;
    }
    if (switches & kEnds) {
      for (int64_t i = 0; i < Vectors(shape); ++i) {
        first_.push_back(static_cast<int32_t>(random() % (kEndRows + 2)) - 2);
        last_.push_back(static_cast<int32_t>(random() % (kEndRows + 2)) - 2);
      }
      const int64_t stride = switches & kPerBatch ? shape.tokens : 0;
      if (random() % 3 != 0) task_.first = {ends_.data(), first_.data(), stride};
      if (random() % 3 != 0) task_.last = {ends_.data(), last_.data(), stride};
    }
  }

  const DType compute_;
  Buffer x_, pe_, other_, gate_, ends_;
  std::vector<int32_t> first_, last_;
  std::vector<uint8_t> hidden_;
  AddTask task_;
  bool apart_ = false;
  int64_t elements_ = 0;
};

inline constexpr AddShape kAddShapes[] = {{1, 1, 1},   {2, 3, 2},  {3, 2, 7},  {1, 5, 15},  {2, 2, 16}, {4, 3, 17},
                                          {1, 2, 31},  {2, 1, 32}, {2, 3, 33}, {1, 3, 64},  {3, 5, 65}, {1, 2, 514},
                                          {2, 2, 769}, {0, 3, 8},  {2, 0, 8},  {1, 1, 515}, {2, 40, 9}, {1, 2, 1023}};

}  // namespace phasor

#endif  // PHASOR_TESTS_CONFORMANCE_ADD_CASES_H_
