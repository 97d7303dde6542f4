// Resized tables against torch (tests/golden/window/resize.json), and what resizing must not do.
#include "kernels/program/resize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>

#include "rapidjson/document.h"

#include "kernels/core/narrow.h"
#include "tests/kernels/program/golden_weights.h"
#include "tests/kernels/program/window_specs.h"

namespace phasor {
namespace {

using rapidjson::Value;

const rapidjson::Document& Golden() {
  static const auto document = [] {
    std::ifstream file(std::string(PHASOR_SOURCE_DIR) + "/tests/golden/window/resize.json");
    std::ostringstream text;
    text << file.rdbuf();
    auto parsed = std::make_unique<rapidjson::Document>();
    parsed->Parse(text.str().c_str());
    return parsed;
  }();
  return *document;
}

std::vector<int64_t> Ints(const Value& list) {
  std::vector<int64_t> values;
  for (const Value& v : list.GetArray()) values.push_back(v.GetInt64());
  return values;
}

ResizeRule Rule(const std::string& name, bool antialias = false, bool align_corners = false) {
  const Interpolation interpolation = name == "linear"  ? Interpolation::kLinear
                                      : name == "cubic" ? Interpolation::kCubic
                                                        : Interpolation::kNearest;
  return {interpolation, antialias, align_corners};
}

int64_t RowsOf(const ResizeJob& job, int64_t points) { return points + job.extra_first + job.extra_last; }

// In `pieces` cuts of every step.
template <typename T>
std::vector<T> Resized(ResizeJob job, const std::vector<T>& table, int64_t pieces = 1) {
  const auto backend = CreateBackend("cpu");
  std::vector<T> out(static_cast<size_t>(RowsOf(job, job.target_points()) * job.columns));
  job.in = table.data();
  job.in_row_stride = job.columns;
  job.out = out.data();
  AlignedBytes scratch(ResizeScratchBytes(job));
  for (const ProgramStep& step : ResizeSteps(job, scratch.data())) {
    for (int64_t piece = pieces - 1; piece >= 0; --piece) {
      const RowRange rows{step.rows * piece / pieces, step.rows * (piece + 1) / pieces};
      EXPECT_TRUE(RunStep(**backend, step, rows, nullptr).ok());
    }
  }
  return out;
}

TEST(ResizeTest, TorchsNumbers) {
  for (const Value& json : Golden()["cases"].GetArray()) {
    SCOPED_TRACE(json["name"].GetString());
    const auto flag = [&](const char* name) { return json.HasMember(name) && json[name].GetBool(); };
    const auto rows = [&](const char* name) { return json.HasMember(name) ? json[name].GetInt64() : 0; };
    ResizeJob job;
    job.rule = Rule(json["interpolation"].GetString(), flag("antialias"), flag("align_corners"));
    job.source = Ints(json["source"]);
    job.target = Ints(json["target"]);
    job.extra_first = rows("first"), job.extra_last = rows("last");
    job.dtype = DType::kF64;
    job.columns = json["columns"].GetInt64();
    const int64_t count = RowsOf(job, job.source_points()) * job.columns;
    const auto got = Resized(job, RuleValues(json["seed"].GetUint64(), count));
    ASSERT_EQ(static_cast<int64_t>(got.size()), json["rows"].GetInt64() * job.columns);
    for (const Value& sample : json["samples"].GetArray()) {
      const size_t at = static_cast<size_t>(sample[0].GetInt64() * job.columns + sample[1].GetInt64());
      // Torch rounds its coordinates, which are up to the size of the source.
      EXPECT_NEAR(got[at], sample[2].GetDouble(), 2e-13) << at;
    }
  }
}

// The public bug: a rounded scale factor loses a row and a column; the size does not.
TEST(ResizeTest, SizesAreWhatIsAskedFor) {
  int seen = 0;
  for (const Value& json : Golden()["cases"].GetArray()) {
    if (!json.HasMember("by_scale_factor")) continue;
    const int64_t target = json["target"][0].GetInt64();
    EXPECT_EQ(json["by_scale_factor"].GetInt64(), target - 1);
    EXPECT_EQ(TapsOf(Rule("cubic"), json["source"][0].GetInt64(), target).size(), static_cast<size_t>(target));
    ++seen;
  }
  EXPECT_EQ(seen, 9);
}

// BEiT's table resized as transformers does, bilinear and each head by itself, the three class rows kept, then gathered.
TEST(ResizeTest, BeitsBiasAtAnotherSize) {
  const Value& json = Golden()["beit"];
  const int64_t heads = json["heads"].GetInt64();
  const TokenWindow from{14, 14, true}, to{20, 20, true};
  ResizeJob job;
  job.rule = Rule("linear");
  job.source = {27, 27};
  job.target = {39, 39};
  job.extra_last = 3;
  job.dtype = DType::kF64;
  job.columns = heads;
  const auto table = Resized(job, RuleValues(json["seed"].GetUint64(), from.table_rows() * heads));
  for (const Value& sample : json["samples"].GetArray()) {
    const int64_t row = to.row_of(sample[1].GetInt64(), sample[2].GetInt64());
    EXPECT_NEAR(table[static_cast<size_t>(row * heads + sample[0].GetInt64())], sample[3].GetDouble(), 1e-14);
  }
}

// A full bias matrix is no image: resized as one, distance 1 becomes 4. The vector by distance is what may be resized.
TEST(ResizeTest, AMatrixLosesItsDiagonals) {
  const int64_t small = 8, large = 32;
  std::vector<double> matrix(small * small), vector(2 * small - 1);
  for (int64_t i = 0; i < small; ++i) {
    for (int64_t j = 0; j < small; ++j) matrix[i * small + j] = j == i + 1 ? 1 : 0;
  }
  vector[small] = 1;
  ResizeJob job;
  job.rule = Rule("linear");
  job.dtype = DType::kF64;
  job.columns = 1;
  job.source = {small, small};
  job.target = {large, large};
  const auto wrong = Resized(job, matrix);
  EXPECT_LT(wrong[9 * large + 10], 0.25);  // distance 1 is lost
  EXPECT_GT(wrong[9 * large + 13], 0.5);
  job.source = {2 * small - 1};
  job.target = {2 * large - 1};
  const auto right = Resized(job, vector);
  EXPECT_EQ(right.size(), static_cast<size_t>(2 * large - 1));
}

TEST(ResizeTest, EveryCutGivesTheSameBits) {
  for (const char* name : {"linear", "cubic", "nearest"}) {
    ResizeJob job;
    job.rule = Rule(name);
    job.source = {9, 7};
    job.target = {4, 20};
    job.extra_first = 2, job.extra_last = 1;
    job.dtype = DType::kF32;
    job.columns = 33;
    std::vector<float> table;
    for (double v : RuleValues(3, RowsOf(job, 63) * 33)) table.push_back(static_cast<float>(v));
    const auto whole = Resized(job, table);
    for (int64_t pieces : {2, 7, 100}) EXPECT_EQ(Resized(job, table, pieces), whole) << name;
  }
}

TEST(ResizeTest, NarrowTypesAreRoundedOnce) {
  ResizeJob job;
  job.rule = Rule("cubic", true);
  job.source = {31};
  job.target = {12};
  job.columns = 5;
  job.dtype = DType::kBF16;
  std::vector<BF16> table;
  std::vector<double> wide;
  for (double v : RuleValues(4, 155)) {
    table.push_back(Narrow<BF16>(v));
    wide.push_back(Widen<double>(table.back()));
  }
  const auto narrow = Resized(job, table);
  job.dtype = DType::kF64;
  const auto exact = Resized(job, wide);
  for (size_t i = 0; i < exact.size(); ++i) EXPECT_EQ(narrow[i].bits, Narrow<BF16>(exact[i]).bits) << i;
}

TEST(ResizeTest, ASizeThatStaysKeepsItsNumbers) {
  ResizeJob job;
  job.source = job.target = {5, 6};
  job.dtype = DType::kF32;
  job.columns = 2;
  job.extra_last = 1;
  std::vector<float> table;
  for (double v : RuleValues(6, 62)) table.push_back(static_cast<float>(v));
  for (const char* name : {"linear", "cubic", "nearest"}) {
    for (bool antialias : {false, true}) {
      job.rule = Rule(name, antialias && std::string(name) != "nearest");
      EXPECT_EQ(Resized(job, table), table) << name;
    }
  }
}

TEST(ResizeTest, ExtraRowsAreCopied) {
  ResizeJob job;
  job.rule = Rule("linear");
  job.source = {2};
  job.target = {3};
  job.extra_first = 1, job.extra_last = 1;
  job.columns = 1;
  job.dtype = DType::kF32;
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Resized(job, std::vector<float>{infinity, 1, 4, -0.0f}), (std::vector<float>{infinity, 1, 2.5, 4, -0.0f}));
}

TEST(ResizeTest, WeightsSumToOne) {
  for (const char* name : {"linear", "cubic", "nearest"}) {
    for (int flags = 0; flags < 3; ++flags) {
      if (flags > 0 && std::string(name) == "nearest") continue;
      for (int64_t source : {1, 2, 3, 14, 37, 100}) {
        for (int64_t target : {1, 2, 5, 14, 39, 101}) {
          const auto all = TapsOf(Rule(name, flags == 1, flags == 2), source, target);
          for (const ResizeTaps& taps : all) {
            EXPECT_GE(taps.first, 0);
            EXPECT_LE(taps.first + static_cast<int64_t>(taps.weights.size()), source);
            EXPECT_NEAR(std::accumulate(taps.weights.begin(), taps.weights.end(), 0.0), 1, 1e-14);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace phasor
