// Attention scores, one row at a time.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/core/math.h"
#include "kernels/core/narrow.h"
#include "kernels/core/softmax.h"
#include "kernels/core/sum.h"
#include "kernels/reference/tasks.h"

namespace phasor::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Place {
  Place(const ScoreShape& shape, int64_t row)
      : query(row % shape.queries), head(row / shape.queries % shape.heads), batch(row / shape.queries / shape.heads) {}
  int64_t query, head, batch;
};

std::vector<double> Vector(const HeadVectors& v, int64_t batch, int64_t token, int64_t head, int64_t dim) {
  std::vector<double> x(static_cast<size_t>(dim));
  const int64_t at = batch * v.batch_stride + token * v.token_stride + head * v.head_stride;
  VisitFloat(v.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t d = 0; d < dim; ++d) x[d] = Widen<double>(FromBits<T>(LoadBits(v.data, at + d, sizeof(T))));
  });
  return x;
}

std::vector<double> Query(const QueryVectors& q, const Place& place, int64_t dim) {
  std::vector<double> x = Vector(q.q, place.batch, place.query, place.head, dim);
  for (int64_t d = 0; d < dim; ++d) {
    if (q.factor != nullptr) x[d] *= q.factor[place.batch * q.factor_batch_stride + place.query];
    if (q.add != nullptr) x[d] += q.add[place.head * dim + d];
  }
  return x;
}

int64_t Distance(const ScorePositions& p, const Place& place, int64_t key) {
  return p.query[place.batch * p.query_batch_stride + place.query] - p.key[place.batch * p.key_batch_stride + key];
}

}  // namespace

absl::Status RunRow(const ScoreProductTask& task, int64_t row) {
  const Place place(task.shape, row);
  const int64_t dim = task.shape.dim;
  const std::vector<double> x = Query(task.q, place, dim);
  for (int64_t j = 0; j < task.shape.keys; ++j) {
    const std::vector<double> k = Vector(task.k.k, place.batch, j, place.head / task.k.group, dim);
    task.scores[row * task.shape.keys + j] = FixedDot(x.data(), k.data(), dim);
  }
  return absl::OkStatus();
}

absl::Status RunRow(const RelativeProductTask& task, int64_t row) {
  const Place place(task.shape, row);
  const int64_t dim = task.shape.dim;
  std::vector<double> x;
  if (!task.of_keys) x = Query(task.q, place, dim);
  for (int64_t j = 0; j < task.shape.keys; ++j) {
    if (task.skip_first && (place.query == 0 || j == 0)) continue;
    double& score = task.scores[row * task.shape.keys + j];
    const int64_t table_row = task.rows(Distance(task.positions, place, j));
    if (table_row == DistanceRows::kNone) {
      score = -kInfinity;
      continue;
    }
    if (task.of_keys) x = Vector(task.k.k, place.batch, j, place.head / task.k.group, dim);
    score += FixedDot(x.data(), task.table + place.head * task.table_head_stride + table_row * dim, dim);
  }
  return absl::OkStatus();
}

absl::Status RunRow(const GridProductTask& task, int64_t row) {
  const Place place(task.shape, row);
  const int64_t dim = task.shape.dim;
  const std::vector<double> x = Query(task.q, place, dim);
  const int64_t a = place.query / task.query_divisor % task.query_extent;
  for (int64_t j = 0; j < task.shape.keys; ++j) {
    if (task.skip_first && (place.query == 0 || j == 0)) continue;
    const int64_t c = j / task.key_divisor % task.key_extent;
    const int64_t table_row = task.index[a * task.key_extent + c];
    task.scores[row * task.shape.keys + j] +=
        FixedDot(x.data(), task.table + place.head * task.table_head_stride + table_row * dim, dim);
  }
  return absl::OkStatus();
}

absl::Status RunRow(const ContextualPositionTask& task, int64_t row) {
  const Place place(task.shape, row);
  const int64_t dim = task.shape.dim, keys = task.shape.keys;
  const std::vector<double> x = Query(task.q, place, dim);
  const double* table = task.table + place.head * task.table_head_stride;
  const auto value_of = [&](int64_t n) { return FixedDot(x.data(), table + n * dim, dim); };
  double* scores = task.scores + row * keys;
  std::vector<double> gates(static_cast<size_t>(keys));
  for (int64_t j = 0; j < keys; ++j) {
    const bool is_padding =
        task.key_padding != nullptr && task.key_padding[place.batch * task.key_padding_batch_stride + j] == 0;
    gates[j] = is_padding || Distance(task.positions, place, j) < 0 ? 0 : math::Sigmoid(scores[j]);
  }
  sums::SuffixSum(gates.data(), keys, 0.0, gates.data());
  for (int64_t j = 0; j < keys; ++j) {
    if (Distance(task.positions, place, j) < 0) {
      scores[j] = -kInfinity;
      continue;
    }
    const double greatest = static_cast<double>(task.table_rows - 1);
    const double p = gates[j] < greatest ? gates[j] : greatest;
    const int64_t floor = static_cast<int64_t>(p);
    const double w = p - static_cast<double>(floor);
    double value = value_of(floor);
    if (w > 0) value = std::fma(value_of(floor + 1), w, value * (1 - w));
    scores[j] = task.keep_content ? scores[j] + value : value;
  }
  return absl::OkStatus();
}

absl::Status RunRow(const ScoreSumTask& task, int64_t row) {
  const Place place(task.shape, row);
  for (int64_t j = 0; j < task.shape.keys; ++j) {
    double& score = task.scores[row * task.shape.keys + j];
    score *= task.scale;
    if (task.addend == nullptr) continue;
    score += task.addend[place.batch * task.batch_stride + place.head * task.head_stride + place.query * task.query_stride +
                         j * task.key_stride];
  }
  return absl::OkStatus();
}

absl::Status RunRow(const ScoreOutputTask& task, int64_t row) {
  const int64_t keys = task.shape.keys;
  const double* scores = task.scores + row * keys;
  VisitFloat(task.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::vector<T> out(static_cast<size_t>(keys));
    if (task.softmax) {
      SoftmaxRow(scores, keys, out.data());
    } else {
      for (int64_t j = 0; j < keys; ++j) {
        const bool lowest = scores[j] == std::numeric_limits<double>::lowest();
        out[j] = lowest ? FromBits<T>((kInfinityBits<T> - 1u) | kSignBit<T>) : Narrow<T>(scores[j]);
      }
    }
    for (int64_t j = 0; j < keys; ++j) StoreBits(task.out, row * keys + j, sizeof(T), BitsOf(out[j]));
  });
  return absl::OkStatus();
}

absl::Status RunRow(const RelativeValueTask& task, int64_t row) {
  const Place place(task.shape, row);
  const int64_t dim = task.shape.dim;
  for (int64_t d = 0; d < dim; ++d) {
    FixedSum sum;
    for (int64_t j = 0; j < task.shape.keys; ++j) {
      const int64_t table_row = task.rows(Distance(task.positions, place, j));
      if (table_row == DistanceRows::kNone) continue;
      sum.AddProduct(j, task.scores[row * task.shape.keys + j], task.table[table_row * dim + d]);
    }
    VisitFloat(task.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      StoreBits(task.out, row * dim + d, sizeof(T), BitsOf(Narrow<T>(sum.Total())));
    });
  }
  return absl::OkStatus();
}

}  // namespace phasor::reference
