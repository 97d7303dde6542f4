// Files of fitted functions, byte for byte those that tests/golden/distilled/check.py gives to their readers: the packages
// safetensors, onnx and onnxruntime. With PHASOR_WRITE_DISTILLED=FOLDER in the environment they are written there; check.py
// then has to be run on them.
#include "server/knowledge/distill_files.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace phasor::server {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// Small fractions, all different.
std::vector<double> Fractions(int64_t count, double offset) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back((static_cast<double>(i * 37 % 64) - 31) / 64 + offset);
  return values;
}

Distilled FunctionOf(DistillForm form) {
  Distilled d;
  d.form = form;
  d.spec.num_positions = 40;
  d.spec.first_position = 5;
  d.errors.max_error = 0.125;
  d.errors.rms_error = 0.0625;
  const auto layer = [&](size_t i, int64_t inputs, int64_t outputs) {
    d.spec.w[i] = WeightRef(MakeWeight({outputs, inputs}, Fractions(inputs * outputs, 0.01 * static_cast<double>(i + 1))));
    d.spec.b[i] = WeightRef(MakeWeight({outputs}, Fractions(outputs, -0.02 * static_cast<double>(i + 1))));
  };
  if (form == DistillForm::kPerceptron) {
    layer(0, 1, 4);
    layer(1, 4, 4);
    layer(2, 4, 3);
    d.errors.max_beyond = 2.5;
  } else {
    d.spec.cosine_terms = 7;
    layer(0, 7, 3);
  }
  return d;
}

Side TableSide() {
  Side side;
  side.family = Family::kTable;
  side.columns = 3;
  side.table_type = DType::kF32;
  return side;
}

void ExpectGolden(const std::string& name, const std::string& bytes) {
  if (const char* folder = std::getenv("PHASOR_WRITE_DISTILLED"); folder != nullptr) {
    std::ofstream(std::string(folder) + "/" + name, std::ios::binary) << bytes;
  }
  std::ifstream file(std::string(PHASOR_GOLDEN_DIR) + "/distilled/" + name, std::ios::binary);
  std::ostringstream golden;
  golden << file.rdbuf();
  EXPECT_TRUE(bytes == golden.str()) << name << ": " << bytes.size() << " bytes, golden " << golden.str().size();
}

TEST(DistillFiles, AreTheOnesThatTheirReadersHaveRead) {
  for (const auto& [name, form] :
       {std::pair(std::string("perceptron"), DistillForm::kPerceptron), {"series", DistillForm::kCosineSeries}}) {
    const Distilled d = FunctionOf(form);
    ExpectGolden(name + ".safetensors", SafetensorsOf(TableSide(), d));
    ExpectGolden(name + ".onnx", OnnxOf(TableSide(), d));
  }
}

TEST(DistillFiles, SafetensorsAreAlignedAndWhole) {
  const std::string file = SafetensorsOf(TableSide(), FunctionOf(DistillForm::kPerceptron));
  uint64_t header = 0;
  for (size_t i = 8; i-- > 0;) header = header << 8 | static_cast<uint8_t>(file[i]);
  EXPECT_EQ(header % 8, 0u);
  const std::string json = file.substr(8, header);
  EXPECT_THAT(json, StartsWith("{\"__metadata__\":{\"form\":\"perceptron\""));
  EXPECT_THAT(json, HasSubstr("\"w3\":{\"dtype\":\"F64\",\"shape\":[3,4],\"data_offsets\":[224,320]}"));
  EXPECT_EQ(file.size(), 8 + header + 8 * (4 + 4 + 16 + 4 + 12 + 3));
}

TEST(DistillFiles, SayWhatTheFunctionIs) {
  Side side = TableSide();
  side.family = Family::kBias;
  const auto lines = DescriptionOf(side, FunctionOf(DistillForm::kCosineSeries));
  std::string all;
  for (const auto& [name, value] : lines) all += name + ": " + value + "\n";
  EXPECT_THAT(all, HasSubstr("family: a bias by distance: m is query - key\n"));
  EXPECT_THAT(all, HasSubstr("cosine_terms: 7\n"));
  EXPECT_THAT(all, HasSubstr("first_position: 5\n"));
  EXPECT_THAT(all, HasSubstr("max_error: 0.125\n"));
  EXPECT_THAT(all, testing::Not(HasSubstr("max_error_beyond")));
  for (const char c : all) EXPECT_TRUE(c == '\n' || (c >= ' ' && c < 127 && c != '"' && c != '\\')) << c;
}

}  // namespace
}  // namespace phasor::server
