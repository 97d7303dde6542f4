// Right tables as transformers, diffusers and timm make them (tests/golden/diagnose): recognised, and no fault named.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "rapidjson/document.h"

#include "kernels/cpu/cpu_backend.h"
#include "server/knowledge/diagnosis.h"
#include "server/knowledge/numbers.h"
#include "tests/server/knowledge/angle_samples.h"

namespace phasor::server {
namespace {

std::string ReadGolden(const char* name) {
  std::ifstream in(std::string(PHASOR_SOURCE_DIR "/tests/golden/diagnose/") + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

struct LibraryTable {
  std::string name, scheme;
  DiagnoseInput input;
  bool is_beyond = false;  // no spec makes it to one unit in the last place; the index says why
};

InputContent ContentOf(const std::string& name) {
  return name == "cos_and_sin"  ? InputContent::kCosAndSin
         : name == "sinusoidal" ? InputContent::kSinusoidal
                                : InputContent::kBias;
}

DType TypeOf(const std::string& name) {
  return name == "f32" ? DType::kF32 : name == "bf16" ? DType::kBF16 : name == "f16" ? DType::kF16 : DType::kF64;
}

std::vector<LibraryTable> LibraryTables() {
  rapidjson::Document index;
  index.Parse(ReadGolden("library_tables.json").c_str());
  const std::string bytes = ReadGolden("library_tables.bin");
  std::vector<LibraryTable> tables;
  if (!index.IsArray()) return tables;
  for (const auto& entry : index.GetArray()) {
    LibraryTable table{entry["name"].GetString(), entry["scheme"].GetString(), {}, entry.HasMember("beyond")};
    table.input.table.content = ContentOf(entry["content"].GetString());
    if (entry.HasMember("sequence_length")) table.input.sequence_length = entry["sequence_length"].GetInt64();
    InputTensor tensor{TypeOf(entry["dtype"].GetString()), {}, {}};
    int64_t count = 1;
    for (const auto& extent : entry["shape"].GetArray()) {
      tensor.shape.push_back(extent.GetInt64());
      count *= extent.GetInt64();
    }
    for (const auto& at : entry["at"].GetArray()) {
      const auto first = static_cast<size_t>(at.GetInt64());
      if (first + static_cast<size_t>(count * SizeOf(tensor.dtype)) > bytes.size()) return {};
      tensor.values = Widen(tensor.dtype, bytes.data() + first, count);
      table.input.table.tensors.push_back(tensor);
    }
    tables.push_back(std::move(table));
  }
  return tables;
}

// The scheme of the first hypothesis that makes the table; "nothing" where none does.
std::string SeenIn(const Backend& backend, const LibraryTable& table, const Diagnosis& diagnosis) {
  const bool is_bias = table.input.table.content == InputContent::kBias;
  for (const Hypothesis& h : diagnosis.hypotheses) {
    if (!h.reproduces || (!is_bias && !WhyNotRemade(backend, table.input.table, h).empty())) continue;
    return std::string(SchemeOf(h.spec.spec).name);
  }
  return "nothing";
}

void PrintMissed(const LibraryTable& table, const Diagnosis& diagnosis) {
  std::printf("not recognised: %s%s\n", table.name.c_str(), table.is_beyond ? ", as expected" : "");
  for (const Hypothesis& h : diagnosis.hypotheses) {
    std::printf("   %s from %lld: %g units, %g, %s\n", std::string(SchemeOf(h.spec.spec).name).c_str(),
                static_cast<long long>(h.first_position), h.max_ulps, h.max_difference, h.computed.c_str());
  }
}

TEST(DiagnoseLibrary, RightTablesAreRecognisedWithoutAlarms) {
  const auto backend = MakeCpuBackend();
  const std::vector<LibraryTable> tables = LibraryTables();
  ASSERT_GE(tables.size(), 140u);
  std::map<std::string, std::map<std::string, int>> confusion;
  int within = 0, recognised = 0;
  for (const LibraryTable& table : tables) {
    const auto diagnosis = DiagnoseTable(*backend, table.input);
    ASSERT_TRUE(diagnosis.ok()) << table.name << " " << diagnosis.status();
    const std::string seen = SeenIn(*backend, table, *diagnosis);
    if (seen == "nothing") PrintMissed(table, *diagnosis);
    if (table.is_beyond) {
      EXPECT_EQ(seen, "nothing") << table.name << ": the index says that nothing makes it";
    } else {
      ++within;
      recognised += seen != "nothing" ? 1 : 0;
    }
    for (const Fault& fault : diagnosis->faults) {
      ADD_FAILURE() << "false alarm: " << table.name << ": " << fault.card->name << ", " << fault.symptom;
    }
    ++confusion[table.scheme][seen];
  }
  for (const auto& [scheme, counts] : confusion) {
    std::printf("%-18s", scheme.c_str());
    for (const auto& [seen, count] : counts) std::printf("  %s %d", seen.c_str(), count);
    std::printf("\n");
  }
  std::printf("recognised %d of %d, %zu beyond any spec\n", recognised, within, tables.size() - static_cast<size_t>(within));
  EXPECT_GE(recognised, 0.99 * within);
}

// float32 libraries' own frequencies are given ones; the note says what was asked for.
TEST(DiagnoseLibrary, GivenFrequenciesSayWhatTheyAreNear) {
  const auto backend = MakeCpuBackend();
  int given = 0, named = 0;
  for (const LibraryTable& table : LibraryTables()) {
    if (table.scheme != "rope_default" && table.scheme != "rope_linear") continue;
    const auto diagnosis = DiagnoseTable(*backend, table.input);
    ASSERT_TRUE(diagnosis.ok()) << table.name << " " << diagnosis.status();
    if (SeenIn(*backend, table, *diagnosis) != "rope_inv_freq") continue;
    ++given;
    named += diagnosis->hypotheses[0].note.find(table.scheme) != std::string::npos ? 1 : 0;
    if (diagnosis->hypotheses[0].note.find(table.scheme) == std::string::npos) {
      std::printf("%s: %s\n", table.name.c_str(), diagnosis->hypotheses[0].note.c_str());
    }
  }
  std::printf("%d of %d given frequencies are named\n", named, given);
  EXPECT_GE(given, 10);
  EXPECT_GE(named, 0.9 * given);
}

}  // namespace
}  // namespace phasor::server
