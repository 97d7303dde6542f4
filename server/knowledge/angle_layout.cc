#include "server/knowledge/angle_layout.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "server/knowledge/numbers.h"

namespace phasor::server {
namespace {

constexpr int64_t kSampleRows = 24;

// A tensor as rows of columns: axes before the last are rows.
struct Matrix {
  const InputTensor* tensor = nullptr;
  int64_t rows = 0, columns = 0;
  double at(int64_t row, int64_t column) const { return tensor->values[static_cast<size_t>(row * columns + column)]; }
};

Matrix AsMatrix(const InputTensor& tensor) {
  Matrix matrix{&tensor, 1, tensor.shape.empty() ? 1 : tensor.shape.back()};
  for (size_t axis = 0; axis + 1 < tensor.shape.size(); ++axis) matrix.rows *= tensor.shape[axis];
  return matrix;
}

std::vector<int64_t> SampleRows(int64_t rows) {
  std::vector<int64_t> sample;
  const int64_t count = std::min(rows, kSampleRows);
  for (int64_t i = 0; i < count; ++i) sample.push_back(count == 1 ? 0 : i * (rows - 1) / (count - 1));
  return sample;
}

bool SameColumn(const Matrix& m, int64_t a, int64_t b) {
  for (int64_t row : SampleRows(m.rows)) {
    const double x = m.at(row, a), y = m.at(row, b);
    if (!(x == y) && !(std::isnan(x) && std::isnan(y))) return false;
  }
  return true;
}

// How the pairs of one kind repeat in the columns.
Arrangement RepetitionOf(const Matrix& m, InputContent content) {
  Arrangement a{.content = content};
  const int64_t half = (m.columns + 1) / 2;
  bool duplicated = m.columns >= 4, interleaved = m.columns >= 4;
  for (int64_t i = 0; i < m.columns / 2 && (duplicated || interleaved); ++i) {
    duplicated = duplicated && SameColumn(m, i, half + i);
    interleaved = interleaved && SameColumn(m, 2 * i, 2 * i + 1);
  }
  if (duplicated || interleaved) {
    a.order = duplicated ? ColumnOrder::kDuplicated : ColumnOrder::kInterleavedDuplicated;
    a.lacks_column = m.columns % 2 != 0;
  }
  return a;
}

std::vector<double> PickColumns(const Matrix& m, int64_t pairs, int64_t first, int64_t step) {
  std::vector<double> values(static_cast<size_t>(m.rows * pairs));
  for (int64_t row = 0; row < m.rows; ++row) {
    for (int64_t i = 0; i < pairs; ++i) values[static_cast<size_t>(row * pairs + i)] = m.at(row, first + i * step);
  }
  return values;
}

PairTable OneKind(const Matrix& m, const Arrangement& arrangement) {
  PairTable table{.arrangement = arrangement, .dtype = m.tensor->dtype, .rows = m.rows, .columns = m.columns};
  const bool repeats = arrangement.order != ColumnOrder::kHalfWidth;
  table.pairs = repeats ? (m.columns + 1) / 2 : m.columns;
  const int64_t step = arrangement.order == ColumnOrder::kInterleavedDuplicated ? 2 : 1;
  std::vector<double> values = PickColumns(m, table.pairs, 0, step);
  (arrangement.content == InputContent::kSin ? table.sin : table.cos) = std::move(values);
  return table;
}

// Both kinds in the columns of one tensor.
PairTable BothKinds(const Matrix& m, const Arrangement& arrangement) {
  PairTable table{.arrangement = arrangement, .dtype = m.tensor->dtype, .rows = m.rows, .columns = m.columns};
  const int64_t width = m.columns - (arrangement.zero_column ? 1 : 0);
  table.pairs = width / 2;
  const bool halves = arrangement.order == ColumnOrder::kHalves;
  const int64_t step = halves ? 1 : 2, second = halves ? (width + 1) / 2 : 1;
  std::vector<double> a = PickColumns(m, table.pairs, 0, step), b = PickColumns(m, table.pairs, second, step);
  if (arrangement.sin_first) std::swap(a, b);
  table.cos = std::move(a);
  table.sin = std::move(b);
  return table;
}

double MedianOf(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Right pairs have one radius for all positions and pairs.
void MeasureRadius(PairTable& table) {
  const std::vector<int64_t> sample = SampleRows(table.rows);
  std::vector<double> squares;
  for (int64_t row : sample) {
    for (int64_t i = 0; i < table.pairs; ++i) {
      const double c = table.cos_at(row, i), s = table.sin_at(row, i), square = c * c + s * s;
      if (std::isfinite(square) && square > 0) squares.push_back(square);
    }
  }
  table.radius_error = 1;
  if (squares.empty()) return;
  std::vector<double> copy = squares;
  const double median = MedianOf(copy);
  double sum = 0;
  for (double square : squares) sum += std::min(1.0, std::fabs(square - median) / median);
  table.radius_error = sum / static_cast<double>(squares.size());
}

bool IsZeroColumn(const Matrix& m, int64_t column) {
  for (int64_t row : SampleRows(m.rows)) {
    if (m.at(row, column) != 0) return false;
  }
  return true;
}

// Both kinds in one tensor, most even radius first.
std::vector<PairTable> MixedTables(const Matrix& m, InputContent content) {
  std::vector<PairTable> tables;
  if (m.columns < 2) return tables;
  const bool zero = m.columns % 2 != 0 && IsZeroColumn(m, m.columns - 1);
  const bool odd = m.columns % 2 != 0 && !zero;
  std::vector<Arrangement> tries;
  const InputContent halves = content == InputContent::kUnknown ? InputContent::kCosSin : content;
  tries.push_back({.content = halves, .order = ColumnOrder::kHalves, .zero_column = zero, .lacks_column = odd});
  if (content != InputContent::kCosSin) {
    const InputContent absolute = InputContent::kSinusoidal;
    tries.push_back(
        {.content = absolute, .order = ColumnOrder::kHalves, .sin_first = true, .zero_column = zero, .lacks_column = odd});
    tries.push_back({.content = absolute,
                     .order = ColumnOrder::kAlternating,
                     .sin_first = true,
                     .zero_column = zero,
                     .lacks_column = odd});
  }
  for (const Arrangement& arrangement : tries) {
    tables.push_back(BothKinds(m, arrangement));
    MeasureRadius(tables.back());
  }
  std::stable_sort(tables.begin(), tables.end(),
                   [](const PairTable& a, const PairTable& b) { return a.radius_error < b.radius_error; });
  return tables;
}

// A deviation that rounding to the type can explain, generously.
bool IsEven(const PairTable& table, DType rounded_to) { return table.radius_error <= 8 * UlpOf(rounded_to, 1); }

}  // namespace

std::string LayoutText(const Arrangement& a) {
  std::string text;
  switch (a.order) {
    case ColumnOrder::kHalfWidth:
      text = "half width";
      break;
    case ColumnOrder::kDuplicated:
      text = "duplicated";
      break;
    case ColumnOrder::kInterleavedDuplicated:
      text = "interleaved duplicated";
      break;
    case ColumnOrder::kHalves:
      text = a.sin_first ? "sines, then cosines" : "cosines, then sines";
      break;
    case ColumnOrder::kAlternating:
      text = a.sin_first ? "sin cos interleaved" : "cos sin interleaved";
      break;
  }
  if (a.zero_column) text += ", then a column of zeros";
  if (a.lacks_column) text += ", odd width";
  return text;
}

namespace {

// f64 tables of libraries that compute in float32 hold float32 numbers.
DType RoundedTo(const InputTable& input) {
  const DType dtype = input.tensors[0].dtype;
  if (dtype != DType::kF64) return dtype;
  for (const InputTensor& tensor : input.tensors) {
    for (double value : tensor.values) {
      if (std::isfinite(value) && static_cast<double>(static_cast<float>(value)) != value) return dtype;
    }
  }
  return DType::kF32;
}

std::vector<PairTable> ReadAnyPairs(const InputTable& input, DType rounded_to) {
  std::vector<PairTable> tables;
  const Matrix first = AsMatrix(input.tensors[0]);
  if (first.rows < 1 || first.columns < 1) return tables;
  if (input.tensors.size() == 2) {
    const Matrix second = AsMatrix(input.tensors[1]);
    PairTable table = OneKind(first, RepetitionOf(first, InputContent::kCosAndSin));
    const Arrangement of_sin = RepetitionOf(second, InputContent::kSin);
    Arrangement arrangement = table.arrangement;
    // Constant columns repeat in every way; the sines then decide.
    if (of_sin.order != arrangement.order && arrangement.order != ColumnOrder::kHalfWidth) {
      arrangement.order = of_sin.order;
      table = OneKind(first, arrangement);
    }
    arrangement.content = InputContent::kSin;
    table.sin = OneKind(second, arrangement).sin;
    MeasureRadius(table);
    tables.push_back(std::move(table));
    return tables;
  }
  const InputContent content = input.content;
  if (content == InputContent::kCos || content == InputContent::kSin) {
    tables.push_back(OneKind(first, RepetitionOf(first, content)));
    return tables;
  }
  tables = MixedTables(first, content);
  if (content != InputContent::kUnknown) {
    // A table that is off everywhere is still read in the order that fits best.
    tables.resize(std::min<size_t>(tables.size(), 2));
    return tables;
  }
  std::erase_if(tables, [&](const PairTable& table) { return !IsEven(table, rounded_to); });
  for (InputContent kind : {InputContent::kCos, InputContent::kSin}) {
    tables.push_back(OneKind(first, RepetitionOf(first, kind)));
  }
  if (tables.size() > 4) tables.resize(4);
  return tables;
}

}  // namespace

std::vector<PairTable> ReadPairs(const InputTable& input) {
  if (input.tensors.empty()) return {};
  const DType rounded_to = RoundedTo(input);
  std::vector<PairTable> tables = ReadAnyPairs(input, rounded_to);
  for (PairTable& table : tables) table.rounded_to = rounded_to;
  return tables;
}

}  // namespace phasor::server
