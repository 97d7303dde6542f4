// A bias as a function of the distance, seen through whatever tensor somebody has.
#ifndef PHASOR_SERVER_KNOWLEDGE_BIAS_CURVE_H_
#define PHASOR_SERVER_KNOWLEDGE_BIAS_CURVE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/knowledge/input_table.h"
#include "server/knowledge/numbers.h"

namespace phasor::server {

// The lowest and highest value of each head at each distance (key − query). NaN where there is none: masked, or not finite.
struct BiasCurve {
  DType dtype = DType::kF32;
  int64_t heads = 0;
  int64_t count = 0;
  int64_t first = 0;              // distance of the first column
  std::vector<double> low, high;  // [heads, count]

  size_t index(int64_t head, int64_t column) const { return static_cast<size_t>(head * count + column); }
  bool has(int64_t head, int64_t column) const { return low[index(head, column)] == low[index(head, column)]; }
  double middle(int64_t head, int64_t column) const;
  // Of the larger magnitude at that place.
  double ulp(int64_t head, int64_t column) const;
  // The same without values outside [begin, end).
  BiasCurve Without(int64_t begin, int64_t end) const;
};

// What was seen of the tensor as a whole.
struct BiasView {
  // By distance: columns −(keys − 1) … queries − 1 of a matrix, which is taken as aligned at its bottom right; of a vector
  // as it is, the first distance being a guess (see first_known).
  BiasCurve by_distance;
  // All rows alike: by key, distances as of the last query. Of matrices with more than one row.
  std::optional<BiasCurve> by_key;
  int64_t queries = 0, keys = 0;  // 0 of vectors
  bool first_known = false;
  bool toeplitz = true;  // equal distances have equal values, up to rounding
  int64_t masked_future = 0, masked_past = 0, nans = 0, empty_rows = 0, repeated_rows = 0;
  std::optional<int64_t> first_bad_row;       // with NaN, or without a finite value
  std::optional<int64_t> first_repeated_row;  // equal to the row before it, where that is not so throughout
  double least_masked = 0;                    // the mask's value, −inf or finite
};

BiasView ViewMatrix(const InputTensor& tensor);
BiasView ViewVector(const InputTensor& tensor);

// How far a curve is from what a spec makes.
struct Match {
  double max_ulps = 0;  // infinite where there is nothing to compare
  double max_difference = 0;
  int64_t head = 0, column = 0;  // where
  bool good() const { return max_ulps <= 1; }
};
// `made`: [first_head + heads or more, count].
Match CompareCurve(const BiasCurve& curve, const Grid& made, int64_t first_head);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_BIAS_CURVE_H_
