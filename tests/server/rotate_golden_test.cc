// Rotations by the libraries themselves (tests/golden/rope/make.py), through the wire's parser and the engine: the ONNX
// operator's own cases, onnxruntime, transformers, x-transformers, rotary-embedding-torch.
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "rapidjson/document.h"
#include "rapidjson/stringbuffer.h"
#include "rapidjson/writer.h"

#include "tests/server/apply_harness.h"

namespace phasor::server {
namespace {

template <typename M>
M FromJson(const rapidjson::Value& value) {
  rapidjson::StringBuffer text;
  rapidjson::Writer<rapidjson::StringBuffer> writer(text);
  value.Accept(writer);
  M message;
  const auto status = google::protobuf::util::JsonStringToMessage(text.GetString(), &message);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return message;
}

rapidjson::Document Golden(const std::string& name) {
  std::ifstream file(std::string(PHASOR_GOLDEN_DIR "/rope/") + name + ".json");
  std::stringstream text;
  text << file.rdbuf();
  rapidjson::Document document;
  document.Parse(text.str().c_str());
  EXPECT_FALSE(document.HasParseError()) << name;
  return document;
}

class RotateGoldenTest : public ::testing::TestWithParam<const char*> {};

TEST_P(RotateGoldenTest, AgreesWithinItsPrecision) {
  const rapidjson::Document golden = Golden(GetParam());
  ASSERT_GE(golden["cases"].Size(), 2u);
  for (const char* backend : {"cpu", "reference"}) {
    ApplyHarness harness(backend);
    for (const auto& c : golden["cases"].GetArray()) {
      SCOPED_TRACE(std::string(backend) + " " + c["name"].GetString());
      const ApplyResult result = harness.One(FromJson<v1::ApplyItem>(c["item"]));
      ASSERT_TRUE(result.status.ok()) << result.status;
      ASSERT_EQ(result.tensors.size(), c["expect"].Size());
      for (rapidjson::SizeType i = 0; i < c["expect"].Size(); ++i) {
        const auto want = FromJson<v1::Tensor>(c["expect"][i]);
        const Array& got = result.tensors[i];
        ASSERT_EQ(got.shape, std::vector<int64_t>(want.shape().begin(), want.shape().end()));
        const std::vector<double> values = ValuesOf(got), expected = ValuesOf(got.dtype, want.data());
        ASSERT_EQ(values.size(), expected.size());
        double worst = 0;
        for (size_t k = 0; k < values.size(); ++k) worst = std::max(worst, std::fabs(values[k] - expected[k]));
        EXPECT_LE(worst, c["tolerance"].GetDouble()) << "tensor " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Libraries, RotateGoldenTest,
                         ::testing::Values("onnx", "onnxruntime", "transformers", "x_transformers",
                                           "rotary_embedding_torch"),
                         [](const auto& library) { return std::string(library.param); });

}  // namespace
}  // namespace phasor::server
