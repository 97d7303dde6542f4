// Recognition and faults of tables drawn at random, with the confusion table.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "kernels/cpu/cpu_backend.h"
#include "server/knowledge/diagnosis.h"
#include "server/knowledge/numbers.h"
#include "tests/server/knowledge/angle_samples.h"
#include "tests/server/knowledge/broken_tables.h"

namespace phasor::server {
namespace {

// How many tables each test draws: TABLES of the environment, or as many as take some seconds. SEED: one.
int TablesToDraw(int usual) {
  const char* tables = std::getenv("TABLES");
  return tables != nullptr ? std::max(1, std::atoi(tables)) : usual;
}

std::string Describe(const Sample& sample, int seed) {
  return sample.scheme + " " + std::string(Name(sample.dtype)) + " content " +
         std::to_string(static_cast<int>(sample.content)) + " form " + std::to_string(static_cast<int>(sample.form)) +
         " start " + std::to_string(sample.start) + " rows " + std::to_string(sample.rows) +
         (sample.precision == Precision::kCompatF32 ? " compat" : " exact") + " seed " + std::to_string(seed);
}

Sample Draw(int seed) {
  Random random(static_cast<uint64_t>(seed));
  Sample sample = seed % 4 == 3 ? DrawAbsolute(random) : DrawRope(random, seed % kRopeKinds);
  DrawSlice(random, sample);
  return sample;
}

TEST(DiagnoseAnglesRandom, RecognisesTablesOfEveryScheme) {
  const auto backend = MakeCpuBackend();
  const char* from = std::getenv("SEED");
  const int first = from != nullptr ? std::atoi(from) : 0, last = from != nullptr ? first + 1 : TablesToDraw(400);
  std::map<std::string, std::map<std::string, int>> confusion;
  int made = 0, recognised = 0, alarms = 0;
  for (int seed = first; seed < last; ++seed) {
    const Sample sample = Draw(seed);
    DiagnoseInput input;
    input.table = MakeTable(*backend, sample);
    if (input.table.tensors.empty()) continue;  // widths that a scheme does not take
    ++made;
    if (seed % 5 == 0 && sample.content != InputContent::kSin)
      input.table.content = input.table.tensors.size() == 2 ? InputContent::kCosAndSin : InputContent::kUnknown;
    const auto diagnosis = DiagnoseAngles(*backend, input);
    ASSERT_TRUE(diagnosis.ok()) << diagnosis.status() << Describe(sample, seed);
    std::string seen = "nothing", why = "nothing";
    for (const Hypothesis& h : diagnosis->hypotheses) {
      if (!h.reproduces) continue;
      why = WhyNotRemade(*backend, input.table, h);
      if (why.empty()) {
        seen = std::string(SchemeOf(h.spec.spec).name);
        break;
      }
    }
    if (seen != "nothing") ++recognised;
    if (seen == "nothing") {
      std::printf("missed: %s: %s\n", Describe(sample, seed).c_str(), why.c_str());
      if (from != nullptr || !diagnosis->hypotheses.empty()) {
        for (const Hypothesis& h : diagnosis->hypotheses) {
          std::printf("   %s start %ld ulps %g diff %g %s\n", std::string(SchemeOf(h.spec.spec).name).c_str(),
                      h.first_position, h.max_ulps, h.max_difference, h.computed.c_str());
        }
      }
    }
    ++confusion[sample.scheme][seen];
    for (const Fault& fault : diagnosis->faults) {
      if (fault.card->name == "float32_angle" && sample.precision == Precision::kCompatF32) continue;
      ++alarms;
      std::printf("false alarm: %s: %s, %s\n", Describe(sample, seed).c_str(), std::string(fault.card->name).c_str(),
                  fault.symptom.c_str());
    }
  }
  for (const auto& [scheme, counts] : confusion) {
    std::printf("%-22s", scheme.c_str());
    for (const auto& [seen, count] : counts) std::printf("  %s %d", seen.c_str(), count);
    std::printf("\n");
  }
  std::printf("recognised %d of %d, false alarms %d\n", recognised, made, alarms);
  EXPECT_GE(made, from != nullptr ? 1 : 9 * (last - first) / 10);
  // TABLES=2000, seeds 0 … 1999: 1993 recognised, no false alarm. Missed are timesteps times 1000 in float32, Gemma's zero
  // pairs in short slices, and short slices in bf16 that start late.
  EXPECT_GE(recognised, 0.99 * made);
  EXPECT_LE(alarms, 0.005 * made);
}

TEST(DiagnoseAnglesRandom, NamesWhatIsWrong) {
  const auto backend = MakeCpuBackend();
  const char* from = std::getenv("SEED");
  const int first = from != nullptr ? std::atoi(from) : 0, last = from != nullptr ? first + 1 : TablesToDraw(200);
  std::map<std::string, std::map<std::string, int>> confusion;
  int made = 0, named = 0;
  for (int seed = first; seed < last; ++seed) {
    Random random(static_cast<uint64_t>(seed) + 1'000'000);
    const Broken broken = DrawBroken(random, seed % kFaultKinds);
    if (!(broken.moved_ulps > 2)) continue;  // no fault that anybody could see
    ++made;
    const auto diagnosis = DiagnoseAngles(*backend, broken.input);
    ASSERT_TRUE(diagnosis.ok()) << diagnosis.status() << " seed " << seed;
    const std::string seen = diagnosis->faults.empty() ? "nothing" : std::string(diagnosis->faults[0].card->name);
    if (seen == broken.fault) ++named;
    if (seen != broken.fault || from != nullptr) {
      std::printf("seed %d: %s called %s; %s, %s, %ld rows of %ld\n", seed, broken.fault.c_str(), seen.c_str(),
                  std::string(Name(broken.input.table.tensors[0].dtype)).c_str(),
                  broken.input.expected ? "expected" : "not expected", broken.input.table.tensors[0].shape[0],
                  broken.input.table.tensors[0].shape[1]);
    }
    ++confusion[broken.fault][seen];
  }
  for (const auto& [fault, counts] : confusion) {
    std::printf("%-32s", fault.c_str());
    for (const auto& [seen, count] : counts) std::printf("  %s %d", seen.c_str(), count);
    std::printf("\n");
  }
  std::printf("named %d of %d\n", named, made);
  EXPECT_GE(made, from != nullptr ? 1 : 9 * (last - first) / 10);
  EXPECT_GE(named, 0.95 * made);
}

}  // namespace
}  // namespace phasor::server
