// Random learned tables, rows gathered from them, and columns assembled from tables of cosines and sines, for every backend.
#ifndef PHASOR_TESTS_CONFORMANCE_TABLE_CASES_H_
#define PHASOR_TESTS_CONFORMANCE_TABLE_CASES_H_

#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "kernels/core/narrow.h"
#include "tests/conformance/case_run.h"

namespace phasor {

// Any bits: NaNs, infinities and denormals among ordinary numbers.
inline void FillRandom(Buffer& buffer, int64_t elements, DType dtype, std::mt19937_64& random) {
  const int64_t size = SizeOf(dtype);
  for (int64_t i = 0; i < elements; ++i) {
    uint64_t bits = random();
    if (random() % 8 != 0) {
      // An ordinary number: exponent beside that of 1.
      const double value = std::ldexp(static_cast<double>(static_cast<int64_t>(bits) >> 11), -52);
      const float narrow = static_cast<float>(value);
      std::memcpy(&bits, dtype == DType::kF64 ? static_cast<const void*>(&value) : &narrow, dtype == DType::kF64 ? 8 : 4);
      if (dtype == DType::kBF16) bits >>= 16;
      if (dtype == DType::kF16) bits = 0x3800 | (random() & 0x87ff);
    }
    std::memcpy(static_cast<char*>(buffer.data()) + i * size, &bits, size);
  }
}

// A weight of any type with random bits, NaNs and denormals among ordinary numbers.
inline WeightRef RandomTable(DType dtype, int64_t rows, int64_t columns, bool wild, std::mt19937_64& random) {
  const int64_t elements = rows * columns;
  const std::shared_ptr<std::byte[]> data(new std::byte[static_cast<size_t>(elements * SizeOf(dtype))]);
  std::normal_distribution<double> normal;
  VisitFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < elements; ++i) {
      const T value = wild && random() % 4 == 0 ? FromBits<T>(random()) : Narrow<T>(normal(random));
      std::memcpy(data.get() + i * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
    }
  });
  auto weight = std::make_shared<Weight>();
  weight->dtype = dtype;
  weight->shape = {rows, columns};
  weight->data = std::shared_ptr<const std::byte>(data, data.get());
  weight->digest.push_back('x');
  return WeightRef(std::move(weight));
}

inline const double kTestedScales[] = {1.0, 1 / std::sqrt(768.0), -3.5, 0.0, 1e-42, 1e300};

// Rows of a table in any order, some of them hidden.
class GatherCase {
 public:
  static constexpr int64_t kRows = 40;

  GatherCase(DType from, DType to, double scale, bool normalize, std::mt19937_64& random) {
    const int64_t dim = 1 + static_cast<int64_t>(random() % 40), table_rows = 9;
    plan_.rows = table_rows;
    plan_.dim = dim;
    plan_.table = RandomTable(from, table_rows, dim, !normalize, random);
    plan_.scale = scale;
    plan_.l2_normalize = normalize;
    for (int64_t r = 0; r < kRows; ++r) {
      ids_.push_back(static_cast<int64_t>(random() % 7) - 2);
      hidden_.push_back(random() % 5 == 0);
    }
    stride_ = dim + static_cast<int64_t>(random() % 3);
    to_ = to;
  }
  GatherCase(const GatherCase&) = delete;

  int64_t stride() const { return stride_; }
  GatherRowsTask TaskTo(void* out) const {
    GatherRowsTask task;
    task.plan = &plan_;
    task.positions.ids = ids_;
    task.offset = 2;
    task.hidden = hidden_;
    task.hidden_row = 8;
    task.dtype = to_;
    task.out = out;
    task.row_stride = stride_;
    return task;
  }

 private:
  GatherPlan plan_;
  std::vector<int64_t> ids_;
  std::vector<uint8_t> hidden_;
  int64_t stride_ = 0;
  DType to_ = DType::kF32;
};

struct FormShape {
  TableForm form;
  int64_t size, pairs, columns, rows;
};

// Every form, full, cut by one (odd), and with a column of zeros.
template <typename Run>
void ForEachFormShape(const Run& run) {
  for (TableForm form : {TableForm::kHalf, TableForm::kDuplicated, TableForm::kInterleavedDuplicated,
                         TableForm::kConcatenated, TableForm::kSinCosInterleaved, TableForm::kSinCosConcatenated}) {
    for (int64_t size : {2, 4, 8}) {
      for (int64_t pairs : {1, 2, 5, 16, 33, 64}) {
        const int64_t natural = form == TableForm::kHalf ? pairs : 2 * pairs;
        for (int64_t columns : {natural - 1, natural, natural + 1}) {
          if (columns > 0) run(FormShape{form, size, pairs, columns, 7});
        }
      }
    }
  }
}

class FormCase {
 public:
  FormCase(const FormShape& shape, std::mt19937_64& random)
      : shape_(shape),
        stride_(shape.pairs + static_cast<int64_t>(random() % 3)),
        cos_(shape.rows * stride_ * shape.size),
        sin_(shape.rows * stride_ * shape.size) {
    const DType bits = shape.size == 8 ? DType::kF64 : shape.size == 4 ? DType::kF32 : DType::kBF16;
    FillRandom(cos_, shape.rows * stride_, bits, random);
    FillRandom(sin_, shape.rows * stride_, bits, random);
    if (random() % 2 == 0) {
      for (int64_t r = 0; r < shape.rows; ++r)
        table_rows_.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(shape.rows)));
    }
  }

  int64_t elements() const { return 2 * shape_.rows * shape_.columns; }
  // The second array of the two-array forms follows the first.
  Buffer Run(const Backend& backend) const {
    const int64_t bytes = shape_.rows * shape_.columns * shape_.size;
    const bool two_arrays = shape_.form == TableForm::kHalf || shape_.form == TableForm::kDuplicated ||
                            shape_.form == TableForm::kInterleavedDuplicated;
    Buffer out(2 * bytes);
    const AssembleTask task{.form = shape_.form,
                            .element_size = shape_.size,
                            .pairs = shape_.pairs,
                            .columns = shape_.columns,
                            .cos = cos_.bytes(),
                            .sin = sin_.bytes(),
                            .table_stride = stride_,
                            .table_rows = table_rows_,
                            .out = out.data(),
                            .out_sin = two_arrays ? static_cast<char*>(out.data()) + bytes : nullptr};
    EXPECT_TRUE(backend.Run(task, {0, shape_.rows / 2}, nullptr).ok());
    EXPECT_TRUE(backend.Run(task, {shape_.rows / 2, shape_.rows}, nullptr).ok());
    EXPECT_TRUE(out.GuardIntact());
    return out;
  }

 private:
  const FormShape shape_;
  const int64_t stride_;
  Buffer cos_, sin_;
  std::vector<int32_t> table_rows_;
};

}  // namespace phasor

#endif  // PHASOR_TESTS_CONFORMANCE_TABLE_CASES_H_
