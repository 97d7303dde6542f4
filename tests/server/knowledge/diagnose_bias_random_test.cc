// The diagnosis of biases over tables drawn at random: how many it recognises, names and alarms at.
#include <cstdio>
#include <map>
#include <string>

#include "gtest/gtest.h"

#include "tests/server/knowledge/random_biases.h"

namespace phasor::server {
namespace {

constexpr int kTables = 600;
constexpr int kMostShown = 20;

std::string FirstFault(const Diagnosis& diagnosis) {
  return diagnosis.faults.empty() ? "-" : std::string(diagnosis.faults.front().card->name);
}

void Print(const char* title, const std::map<std::string, std::map<std::string, int>>& table) {
  std::printf("%s\n", title);
  for (const auto& [what, found] : table) {
    for (const auto& [name, count] : found) std::printf("  %-34s → %-34s %d\n", what.c_str(), name.c_str(), count);
  }
}

TEST(DiagnoseBiasRandom, RecognisesRightTablesWithoutAlarms) {
  Draw draw(20240607);
  std::map<std::string, std::map<std::string, int>> confusion;
  int recognised = 0, alarms = 0;
  for (int i = 0; i < kTables; ++i) {
    const DrawnBias drawn = DrawRight(draw);
    const auto diagnosis = DiagnoseTable(TestBackend(), drawn.input);
    ASSERT_TRUE(diagnosis.ok()) << drawn.text << diagnosis.status();
    const Hypothesis* hypothesis = Reproduced(*diagnosis);
    ++confusion[drawn.what][hypothesis != nullptr ? std::string(SchemeOf(hypothesis->spec.spec).name) : "-"];
    recognised += hypothesis != nullptr ? 1 : 0;
    alarms += diagnosis->faults.empty() ? 0 : 1;
    if (hypothesis == nullptr) std::printf("not recognised: %s\n", drawn.text.c_str());
    if (!diagnosis->faults.empty()) std::printf("false alarm: %s: %s\n", drawn.text.c_str(), FirstFault(*diagnosis).c_str());
  }
  Print("right tables, by what the diagnosis calls them:", confusion);
  std::printf("%d of %d recognised, %d false alarms\n", recognised, kTables, alarms);
  EXPECT_GE(recognised, kTables * 0.99);
  EXPECT_LE(alarms, kTables * 0.005);
}

TEST(DiagnoseBiasRandom, NamesInjectedFaults) {
  Draw draw(20240608);
  std::map<std::string, std::map<std::string, int>> confusion;
  int named = 0, shown = 0;
  for (int i = 0; i < kTables; ++i) {
    const DrawnBias drawn = DrawWrong(draw);
    const auto diagnosis = DiagnoseTable(TestBackend(), drawn.input);
    ASSERT_TRUE(diagnosis.ok()) << drawn.text << diagnosis.status();
    const bool right = Names(*diagnosis, drawn.what);
    ++confusion[drawn.what][right ? drawn.what : FirstFault(*diagnosis)];
    named += right ? 1 : 0;
    if (!right && ++shown <= kMostShown)
      std::printf("not named: %s: %s\n", drawn.text.c_str(), FirstFault(*diagnosis).c_str());
  }
  Print("faults, by what the diagnosis calls them:", confusion);
  std::printf("%d of %d named\n", named, kTables);
  EXPECT_GE(named, kTables * 0.95);
}

}  // namespace
}  // namespace phasor::server
