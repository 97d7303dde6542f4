// Biases drawn at random, right ones and ones with a fault.
#ifndef PHASOR_TESTS_SERVER_KNOWLEDGE_RANDOM_BIASES_H_
#define PHASOR_TESTS_SERVER_KNOWLEDGE_RANDOM_BIASES_H_

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/server/knowledge/bias_tables.h"

namespace phasor::server {

class Draw {
 public:
  explicit Draw(uint32_t seed) : random_(seed) {}
  int64_t Whole(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  double Real(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random_); }
  double Normal() { return std::normal_distribution<double>()(random_); }
  bool Chance(double p) { return Real(0, 1) < p; }
  template <typename T>
  T Of(const std::vector<T>& choices) {
    return choices[static_cast<size_t>(Whole(0, static_cast<int64_t>(choices.size()) - 1))];
  }

 private:
  std::mt19937 random_;
};

// A window on a bias: a vector of distances, or a matrix with or without a mask.
struct Window {
  DType dtype = DType::kF32;
  bool matrix = false;
  int64_t queries = 0, keys = 0;  // of a matrix
  int64_t first = 0, count = 0;   // of a vector
  std::optional<double> mask;

  int64_t reach() const { return matrix ? queries + keys : std::max(std::abs(first), std::abs(first + count)); }
  InputTable Table(int64_t heads, const BiasFunction& value) const {
    return matrix ? MatrixTable(dtype, heads, queries, keys, value, mask) : VectorTable(dtype, heads, first, count, value);
  }
};
Window DrawWindow(Draw& draw);

AlibiSpec DrawAlibi(Draw& draw, int64_t heads);
KerpleSpec DrawKerple(Draw& draw, int64_t heads);
SandwichSpec DrawSandwich(Draw& draw, int64_t heads);
T5BucketSpec DrawT5(Draw& draw, int64_t heads, DType dtype);

struct DrawnBias {
  DiagnoseInput input;
  std::string what;  // scheme, or the fault
  std::string text;  // for messages
};
DrawnBias DrawRight(Draw& draw);
// With one fault that changes a stored value by more than 2 ulp.
DrawnBias DrawWrong(Draw& draw);

}  // namespace phasor::server

#endif  // PHASOR_TESTS_SERVER_KNOWLEDGE_RANDOM_BIASES_H_
