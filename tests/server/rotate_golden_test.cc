// Rotations by the libraries themselves (tests/golden/rope/make.py), through the wire's parser and the engine: the ONNX
// operator's own cases, onnxruntime, transformers, x-transformers, rotary-embedding-torch, ggml (make_ggml.py), vLLM
// (make_vllm.py).
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

// Within the case's tolerance, or those of its tokens (the first axis). Channels where the library is known to deviate must
// not agree.
void Compare(const rapidjson::Value& c, const std::vector<int64_t>& shape, const std::vector<double>& got,
             const std::vector<double>& want) {
  const auto channels = static_cast<size_t>(shape.back()), token = got.size() / static_cast<size_t>(shape.front());
  std::vector<bool> deviates(channels, false);
  if (c.HasMember("deviates")) {
    for (const auto& channel : c["deviates"].GetArray()) deviates[channel.GetUint()] = true;
  }
  std::vector<double> deviation(channels, 0);
  for (size_t k = 0; k < got.size(); ++k) {
    const double allowed = c.HasMember("tolerance")
                               ? c["tolerance"].GetDouble()
                               : c["tolerances"][static_cast<rapidjson::SizeType>(k / token)].GetDouble();
    const double difference = std::fabs(got[k] - want[k]);
    if (deviates[k % channels]) {
      deviation[k % channels] = std::max(deviation[k % channels], difference / allowed);
    } else {
      EXPECT_LE(difference, allowed) << "element " << k;
    }
  }
  for (size_t channel = 0; channel < channels; ++channel) EXPECT_EQ(deviation[channel] > 100, deviates[channel]) << channel;
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
        Compare(c, got.shape, values, expected);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Libraries, RotateGoldenTest,
                         ::testing::Values("onnx", "onnxruntime", "transformers", "x_transformers", "rotary_embedding_torch",
                                           "ggml", "vllm"),
                         [](const auto& library) { return std::string(library.param); });

}  // namespace
}  // namespace phasor::server
