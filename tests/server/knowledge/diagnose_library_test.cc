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
};

InputContent ContentOf(const std::string& name) {
  return name == "cos_and_sin" ? InputContent::kCosAndSin : name == "sinusoidal" ? InputContent::kSinusoidal : InputContent::kBias;
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
    LibraryTable table{entry["name"].GetString(), entry["scheme"].GetString(), {}};
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

TEST(DiagnoseLibrary, RightTablesAreRecognisedWithoutAlarms) {
  const auto backend = MakeCpuBackend();
  const std::vector<LibraryTable> tables = LibraryTables();
  ASSERT_GE(tables.size(), 60u);
  std::map<std::string, std::map<std::string, int>> confusion;
  int recognised = 0, alarms = 0;
  for (const LibraryTable& table : tables) {
    const auto diagnosis = DiagnoseTable(*backend, table.input);
    ASSERT_TRUE(diagnosis.ok()) << table.name << " " << diagnosis.status();
    std::string seen = "nothing", why = "nothing";
    for (const Hypothesis& h : diagnosis->hypotheses) {
      if (!h.reproduces) continue;
      why = table.input.table.content == InputContent::kBias ? "" : WhyNotRemade(*backend, table.input.table, h);
      if (!why.empty()) continue;
      seen = std::string(SchemeOf(h.spec.spec).name);
      break;
    }
    if (seen == "nothing") {
      std::printf("not recognised: %s: %s\n", table.name.c_str(), why.c_str());
      for (const Hypothesis& h : diagnosis->hypotheses) {
        std::printf("   %s from %lld: %g units, %g, %s\n", std::string(SchemeOf(h.spec.spec).name).c_str(),
                    static_cast<long long>(h.first_position), h.max_ulps, h.max_difference, h.computed.c_str());
      }
    }
    recognised += seen != "nothing" ? 1 : 0;
    alarms += diagnosis->faults.empty() ? 0 : 1;
    for (const Fault& fault : diagnosis->faults) {
      std::printf("false alarm: %s: %s, %s\n", table.name.c_str(), std::string(fault.card->name).c_str(), fault.symptom.c_str());
    }
    ++confusion[table.scheme][seen];
  }
  for (const auto& [scheme, counts] : confusion) {
    std::printf("%-18s", scheme.c_str());
    for (const auto& [seen, count] : counts) std::printf("  %s %d", seen.c_str(), count);
    std::printf("\n");
  }
  const auto count = static_cast<double>(tables.size());
  std::printf("recognised %d of %zu, false alarms %d\n", recognised, tables.size(), alarms);
  EXPECT_GE(recognised, 0.99 * count);
  EXPECT_EQ(alarms, 0);
}

}  // namespace
}  // namespace phasor::server
