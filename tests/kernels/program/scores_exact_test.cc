// Attention scores with every term against 60 digits of their formulas (tests/golden/scores/exact.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/kernels/program/score_cases.h"

namespace phasor {
namespace {

TEST(ScoresExactTest, SixtyDigits) {
  const ScoreCases cases = ReadScoreCases(PHASOR_GOLDEN_DIR "/scores/scores.txt");
  std::ifstream file(PHASOR_GOLDEN_DIR "/scores/exact.txt");
  size_t compared = 0;
  for (std::string text, key, name; std::getline(file, text); ++compared) {
    std::istringstream line(text);
    line >> key >> name;
    SCOPED_TRACE(name);
    const auto it = std::find_if(cases.cases.begin(), cases.cases.end(), [&](const auto& c) { return c.name == name; });
    ASSERT_NE(it, cases.cases.end());
    const ScoreSettings settings = SettingsOf(*it);
    for (const char* backend : {"cpu", "reference"}) {
      const auto result =
          RunScores(**CreateBackend(backend), settings, BytesOf(it->q, DType::kF64), BytesOf(it->k, DType::kF64));
      ASSERT_TRUE(result.ok()) << result.status();
      const std::vector<double> got = NumbersOf(result->scores, DType::kF64);
      std::istringstream samples(text.substr(text.find(name) + name.size()));
      int count = 0;
      for (size_t index = 0; samples >> index; ++count) {
        std::string value;
        samples >> value;
        const double exact = std::stod(value);
        EXPECT_NEAR(got.at(index), exact, 4e-15 * std::max(1.0, std::fabs(exact))) << index;
      }
      EXPECT_GE(count, 18);
    }
  }
  EXPECT_EQ(compared, 31u);
}

}  // namespace
}  // namespace phasor
