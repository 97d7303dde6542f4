// PoPE's and FoPE's tables against 400-bit arithmetic (tests/golden/rope/exact.py).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "kernels/encodings/encoding.h"
#include "kernels/program/polar.h"

namespace phasor {
namespace {

Plan PlanOf(const EncodingSpec& spec) {
  const auto canonical = Canonicalize(spec);
  EXPECT_TRUE(canonical.ok()) << canonical.status();
  const auto resolved = Resolve(*canonical, {}, Precision::kExact);
  EXPECT_TRUE(resolved.ok()) << resolved.status();
  return resolved->plan;
}

// cos or sin of one row of a table, the same on both backends.
template <typename Task>
std::vector<double> Row(Task task, int64_t position, int64_t width, bool cosine) {
  std::vector<double> rows[2];
  for (int i = 0; i < 2; ++i) {
    std::vector<double> cos(static_cast<size_t>(width)), sin(static_cast<size_t>(width));
    task.positions.start = position;
    task.dtype = DType::kF64;
    task.cos = cos.data();
    task.sin = sin.data();
    const auto backend = CreateBackend(i == 0 ? "cpu" : "reference");
    EXPECT_TRUE((*backend)->Run(task, {0, 1}, nullptr).ok());
    rows[i] = cosine ? cos : sin;
  }
  EXPECT_EQ(rows[0], rows[1]);
  return rows[0];
}

double Pope(const AnglePlan& plan, int64_t position, int64_t channel, double delta, bool cosine) {
  const PreparedPhases prepared = PreparePhases(MakeWeight({37}, std::vector<double>(37, delta)));
  EXPECT_TRUE(RunStep(**CreateBackend("cpu"), prepared.step, {0, 37}, nullptr).ok());
  PolarAngleTask task;
  task.plan = &plan;
  task.phases = prepared.phases.get();
  return Row(task, position, 37, cosine)[static_cast<size_t>(channel)];
}

// The spec of exact.py: 6 of 8 frequencies are kept, 5 outputs.
FopeSpec ExactFope() {
  FopeSpec fope;
  fope.head_dim = 16;
  fope.training_length = 4096;
  std::vector<double> mix;
  for (int h = 0; h < 2; ++h) {
    for (int j = 0; j < 6; ++j) {
      for (int d = 0; d < 5; ++d) mix.push_back((5 * h + 3 * j + 7 * d) % 11 / 8.0 - 0.5);
    }
  }
  fope.cos_coef = fope.sin_coef = MakeWeight({2, 6, 5}, mix);
  return fope;
}

TEST(PolarGoldenTest, PopeAndFopeTables) {
  PopeSpec spec;
  spec.head_dim = 37;
  const Plan pope = PlanOf(spec), fope = PlanOf(ExactFope());
  const MixedAnglePlan& mixed = std::get<MixedAnglePlan>(fope);
  MixedAngleTask mixtures;
  mixtures.plan = &mixed;
  std::ifstream file(PHASOR_GOLDEN_DIR "/rope/exact.txt");
  int lines = 0;
  for (std::string kind, function, rest; file >> kind;) {
    if (kind != "pope" && kind != "fope") {
      std::getline(file, rest);
      continue;
    }
    ++lines;
    int64_t position = 0, first = 0;
    double second = 0;
    std::string value;
    file >> function >> position >> first >> second >> value;
    SCOPED_TRACE(kind + " " + function + " " + std::to_string(position) + " " + std::to_string(first));
    if (kind == "pope") {
      EXPECT_EQ(Pope(std::get<AnglePlan>(pope), position, first, second, function == "cos"), std::stod(value));
      continue;
    }
    const auto row = Row(mixtures, position, mixed.heads * mixed.pairs, function == "cos");
    // Six correctly rounded cosines, summed in f64.
    EXPECT_NEAR(row[static_cast<size_t>(first * mixed.pairs) + static_cast<size_t>(second)], std::stod(value), 1e-15);
  }
  EXPECT_EQ(lines, 48 + 48);
}

}  // namespace
}  // namespace phasor
