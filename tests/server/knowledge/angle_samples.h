// Tables drawn at random: what they are of, how they stand, which rows.
#ifndef PHASOR_TESTS_SERVER_KNOWLEDGE_ANGLE_SAMPLES_H_
#define PHASOR_TESTS_SERVER_KNOWLEDGE_ANGLE_SAMPLES_H_

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "server/knowledge/diagnosis.h"

namespace phasor::server {

using Random = std::mt19937_64;

inline int64_t Below(Random& random, int64_t limit) { return static_cast<int64_t>(random() % static_cast<uint64_t>(limit)); }
template <typename T>
T Pick(Random& random, const std::vector<T>& from) {
  return from[static_cast<size_t>(Below(random, static_cast<int64_t>(from.size())))];
}

// How cosines and sines become columns.
enum class Form { kHalfWidth, kDuplicated, kInterleaved, kCosThenSin, kSinThenCos, kAlternating };

struct Sample {
  std::string scheme;
  EncodingSpec spec;
  std::optional<int64_t> sequence_length;
  Precision precision = Precision::kExact;
  DType dtype = DType::kF32;
  Form form = Form::kHalfWidth;
  InputContent content = InputContent::kCosAndSin;
  int64_t start = 0, rows = 0;
};

// A rotary schedule of any kind with parameters that people use; `kind` 0 … kRopeKinds − 1.
inline constexpr int kRopeKinds = 13;
Sample DrawRope(Random& random, int kind);
// A sinusoidal table, or a timestep.
Sample DrawAbsolute(Random& random);
// Type, precision, form, rows and start.
void DrawSlice(Random& random, Sample& sample);

// The table [rows, columns] that kernels make of a sample; one tensor or two.
InputTable MakeTable(const Backend& backend, const Sample& sample);

// cos and sin [rows, pairs] in columns, rounded to the type already.
InputTable Arrange(const std::vector<double>& cos, const std::vector<double>& sin, int64_t rows, int64_t pairs, DType dtype,
                   Form form, InputContent content);

// "", or why a hypothesis does not make the table: made anew and compared, by no means of the diagnosis.
std::string WhyNotRemade(const Backend& backend, const InputTable& table, const Hypothesis& hypothesis);

}  // namespace phasor::server

#endif  // PHASOR_TESTS_SERVER_KNOWLEDGE_ANGLE_SAMPLES_H_
