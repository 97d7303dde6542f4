// Table windows as Work: goldens of the libraries, what every field refuses, and the shapes of answers.
#include "server/table_work.h"

#include <rapidjson/document.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"

#include "kernels/core/narrow.h"
#include "tests/server/parse_text.h"

namespace phasor::server {
namespace {

// The arrays that an item's work makes, by slot.
using Arrays = std::map<Slot, std::vector<std::byte>>;

Arrays MakeArrays(const Work& work, const char* backend_name = "cpu") {
  Arrays arrays;
  std::vector<Resolved> resolved;
  for (const TableSource& source : work.sources) {
    auto plan = Resolve(source.spec, source.sequence_length, source.precision);
    EXPECT_TRUE(plan.ok()) << plan.status();
    if (!plan.ok()) return arrays;
    resolved.push_back(*std::move(plan));
  }
  std::vector<const Resolved*> plans;
  for (const Resolved& plan : resolved) plans.push_back(&plan);
  WorkMemory memory;
  for (const WorkArray& array : work.outputs) {
    auto& bytes = arrays[array.slot];
    bytes.resize(static_cast<size_t>(array.bytes));
    memory.outputs.push_back(bytes.data());
  }
  std::vector<std::byte> scratch(static_cast<size_t>(work.scratch_bytes) + 64);
  memory.scratch = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
  const auto steps = work.Steps(plans, memory);
  EXPECT_TRUE(steps.ok()) << steps.status();
  const auto backend = CreateBackend(backend_name);
  EXPECT_TRUE(backend.ok());
  if (steps.ok() && backend.ok()) {
    EXPECT_TRUE(RunProgram(**backend, *steps).ok());
  }
  return arrays;
}

template <typename T>
std::vector<T> Values(const Arrays& arrays, Slot slot) {
  const auto& bytes = arrays.at(slot);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// The work of an item's text; a test failure and null when it was refused or is plain.
std::shared_ptr<const Work> WorkOf(const std::string& item) {
  const auto batch = Precompute(absl::StrCat("items { ", item, " }"));
  EXPECT_TRUE(ItemStatus(batch).ok()) << ItemStatus(batch) << item;
  if (!ItemStatus(batch).ok()) return nullptr;
  EXPECT_NE(Only(batch).work, nullptr) << item;
  return Only(batch).work;
}

// ---- Goldens.

rapidjson::Document LoadCases(const std::string& name) {
  std::ifstream file(PHASOR_GOLDEN_DIR "/tables/" + name);
  std::stringstream text;
  text << file.rdbuf();
  rapidjson::Document document;
  document.Parse<rapidjson::kParseFullPrecisionFlag>(text.str().c_str());
  EXPECT_FALSE(document.HasParseError());
  return document;
}

v1::PrecomputeRequest RequestOf(const rapidjson::Value& item, v1::Dtype dtype) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  item.Accept(writer);
  v1::PrecomputeRequest request;
  const auto status = google::protobuf::util::JsonStringToMessage(buffer.GetString(), request.add_items());
  EXPECT_TRUE(status.ok()) << status.ToString();
  request.mutable_items(0)->set_dtype(dtype);
  return request;
}

// Samples of one case: f64 within rounding of the exact value, f32 its nearest number, both near the library's.
void CompareSamples(const rapidjson::Value& golden, const Arrays& doubles, const Arrays& floats) {
  const std::map<std::string, Slot> slots = {{"cos", Slot::kCos}, {"sin", Slot::kSin}, {"table", Slot::kTable}};
  const bool approximate = std::string(golden["name"].GetString()) == "learned/l2-normalized";
  for (const rapidjson::Value& sample : golden["samples"].GetArray()) {
    const std::string array = sample[0].GetString();
    const int64_t columns = golden["shape"][array.c_str()][1].GetInt64();
    const auto index = static_cast<size_t>(sample[1].GetInt64() * columns + sample[2].GetInt64());
    const double exact = std::strtod(sample[3].GetString(), nullptr);
    const double library = std::strtod(sample[4].GetString(), nullptr);
    const double f64 = Values<double>(doubles, slots.at(array)).at(index);
    const float f32 = Values<float>(floats, slots.at(array)).at(index);
    const std::string where =
        array + "[" + std::to_string(sample[1].GetInt64()) + ", " + std::to_string(sample[2].GetInt64());
    const double bound = sample.Size() > 5 ? std::strtod(sample[5].GetString(), nullptr) : 0;  // where f64 sums many terms
    EXPECT_LE(std::fabs(f64 - exact), bound + (approximate ? 0x1p-51 : 0x1.01p-52) * std::fabs(exact)) << where;
    EXPECT_LE(std::fabs(f32 - exact), bound + 0x1.0002p-24 * std::fabs(exact)) << where;
    EXPECT_LE(std::fabs(f64 - library), golden["tolerance"].GetDouble() * 1.01) << where;
  }
}

// How many cases of the file were compared.
int CompareFile(const std::string& name) {
  const rapidjson::Document cases = LoadCases(name);
  EXPECT_TRUE(cases.IsArray());
  int compared = 0;
  if (!cases.IsArray()) return 0;
  for (const rapidjson::Value& golden : cases.GetArray()) {
    SCOPED_TRACE(golden["name"].GetString());
    Arrays arrays[2];
    for (v1::Dtype dtype : {v1::DTYPE_F64, v1::DTYPE_F32}) {
      const auto batch = RequestParser(Limits()).ParsePrecompute(ToWire(RequestOf(golden["item"], dtype)));
      EXPECT_TRUE(ItemStatus(batch).ok()) << ItemStatus(batch);
      if (!ItemStatus(batch).ok() || Only(batch).work == nullptr) return compared;
      arrays[dtype == v1::DTYPE_F32] = MakeArrays(*Only(batch).work);
    }
    CompareSamples(golden, arrays[0], arrays[1]);
    ++compared;
  }
  return compared;
}

TEST(TableWorkTest, GoldensOfTheLibraries) { EXPECT_GE(CompareFile("cases.json"), 25); }

TEST(TableWorkTest, GoldensOfDistilledFunctions) { EXPECT_EQ(CompareFile("distilled.json"), 4); }

TEST(TableWorkTest, GoldensOfFeatureMapsAndPoints) { EXPECT_EQ(CompareFile("features.json"), 10); }

// ---- Traps, right and wrong.

TEST(TableWorkTest, TheFirstHalfOfAGridEncodesTheWidth) {
  // Row 1 is the point (0, 1): its first column is the sine of the width's coordinate 1, not of the height's 0.
  const auto work =
      WorkOf("spec { grid_sinusoidal { dim: 8 grid: [3, 5] } } table { positions { range { start: 1 count: 1 } } }");
  ASSERT_NE(work, nullptr);
  const auto row = Values<float>(MakeArrays(*work), Slot::kTable);
  EXPECT_FLOAT_EQ(row[0], 0.841470985f);
  EXPECT_EQ(row[4], 0.0f);
  const auto listed = WorkOf(
      "spec { grid_sinusoidal { dim: 8 grid: [3, 5] order: GRID_ORDER_AS_LISTED } } table { positions { range { start: "
      "1 count: 1 } } }");
  ASSERT_NE(listed, nullptr);
  EXPECT_EQ(Values<float>(MakeArrays(*listed), Slot::kTable)[0], 0.0f);
}

TEST(TableWorkTest, RowsOfPaddedTokensAreThoseOfOptAndRoberta) {
  // transformers 5.24: OPT's (cumsum(mask)·mask − 1) + 2 and RoBERTa's cumsum(mask)·mask + 1 for this mask.
  const std::string mask =
      "positions { mask { mask { dtype: DTYPE_BOOL shape: 6 data: \"\\000\\000\\001\\001\\001\\001\" } } } indices: true";
  const auto work = WorkOf("spec { learned { num_positions: 514 dim: 4 position_offset: 2 padding_row: 1 } } table { " +
                           mask + std::string(" }"));
  ASSERT_NE(work, nullptr);
  EXPECT_EQ(Values<int64_t>(MakeArrays(*work), Slot::kTable), (std::vector<int64_t>{1, 1, 2, 3, 4, 5}));
  // Without the padding row, hidden tokens stand at position 0; by column, everything is off.
  const auto none = WorkOf("spec { learned { num_positions: 514 dim: 4 position_offset: 2 } } table { " + mask + " }");
  EXPECT_EQ(Values<int64_t>(MakeArrays(*none), Slot::kTable), (std::vector<int64_t>{2, 2, 2, 3, 4, 5}));
  const auto narrow = WorkOf(
      "spec { learned { num_positions: 514 dim: 4 position_offset: 2 } } dtype: DTYPE_I32 table { "
      "positions { range { count: 3 } } indices: true }");
  EXPECT_EQ(Values<int32_t>(MakeArrays(*narrow), Slot::kTable), (std::vector<int32_t>{2, 3, 4}));
}

TEST(TableWorkTest, PairsBeyondTheSectionsStayTime) {
  // Qwen3-VL's pairs 61 and 62 of 64 turn with time, although 61 mod 3 = 1 and 62 mod 3 = 2.
  const auto axes = [](const char* name, int64_t h, int64_t w) {
    return WorkOf(absl::StrCat(
        "spec { rope { head_dim: 128 base: 2 axes { sections: [24, 20, 20] layout: AXIS_LAYOUT_INTERLEAVED } } } table { ",
        "positions { multi_axis { axes { dtype: DTYPE_I64 shape: 1 data: ", Escaped<int64_t>({0}),
        " } axes { dtype: DTYPE_I64 shape: 1 data: ", Escaped<int64_t>({h}),
        " } axes { dtype: DTYPE_I64 shape: 1 data: ", Escaped<int64_t>({w}), " } } } }", name));
  };
  const auto sin = Values<float>(MakeArrays(*axes("", 7, 9)), Slot::kSin);
  EXPECT_EQ(sin[61], 0.0f);
  EXPECT_EQ(sin[62], 0.0f);
  EXPECT_NE(sin[58], 0.0f);
  EXPECT_NE(sin[59], 0.0f);
  EXPECT_EQ(sin[60], 0.0f);
}

// §4 #14 and #15: a position beyond the table is refused by name, not read.
TEST(TableWorkTest, PositionsBeyondTheTableAreRefused) {
  const std::string spec = "spec { learned { num_positions: 512 dim: 4 position_offset: 2 } } table { indices: true ";
  for (const auto& [positions, given] : std::vector<std::pair<std::string, const char*>>{
           {"positions { range { count: 511 } } }", "position 510 (row 512) of row 510"},
           {"positions { list { ids: [0, 4096] } } }", "position 4096 (row 4098) of row 1"},
           {"positions { list { ids: -3 } } }", "position -3 (row -1) of row 0"}}) {
    ExpectError(ItemStatus(Precompute(absl::StrCat("items { ", spec, positions, " }"))),
                {kBad, "items[0].table.positions", given, "positions -2 … 509: the table has 512 rows"}, positions);
  }
}

TEST(TableWorkTest, FormsOfRotationsWithAxes) {
  const std::string spec =
      "spec { rope { head_dim: 4 axes { sections: [1, 1] } } } dtype: DTYPE_F64 table { positions { grid { extents: [2, 2] "
      "} } "
      "include_inv_freq: true form: ";
  const auto half = MakeArrays(*WorkOf(spec + "TABLE_FORM_HALF }"));
  const auto cos = Values<double>(half, Slot::kCos), sin = Values<double>(half, Slot::kSin);
  ASSERT_EQ(cos.size(), 8u);
  EXPECT_EQ(Values<double>(half, Slot::kInvFreq), (std::vector<double>{1, 0.01}));
  const auto row = [&](const std::vector<double>& v, size_t r, size_t i) { return v[2 * r + i]; };
  const auto duplicated = MakeArrays(*WorkOf(spec + "TABLE_FORM_DUPLICATED }"));
  const auto interleaved = MakeArrays(*WorkOf(spec + "TABLE_FORM_INTERLEAVED_DUPLICATED }"));
  const auto concatenated = MakeArrays(*WorkOf(spec + "TABLE_FORM_CONCATENATED }"));
  for (size_t r = 0; r < 4; ++r) {
    for (size_t c = 0; c < 4; ++c) {
      EXPECT_EQ(Values<double>(duplicated, Slot::kCos)[4 * r + c], row(cos, r, c % 2));
      EXPECT_EQ(Values<double>(interleaved, Slot::kSin)[4 * r + c], row(sin, r, c / 2));
      EXPECT_EQ(Values<double>(concatenated, Slot::kTable)[4 * r + c], row(c < 2 ? cos : sin, r, c % 2));
    }
  }
}

TEST(TableWorkTest, WholeFractionsAreWholePositions) {
  const std::string axes = "spec { rope { head_dim: 8 axes { sections: [4, 0] } } } table { positions { multi_axis { ";
  const auto axis = [](const char* dtype, const std::string& data) {
    return absl::StrCat("axes { dtype: ", dtype, " shape: 3 data: ", data, " } ");
  };
  const std::string other = axis("DTYPE_I64", Escaped<int64_t>({1, 2, 3})) + "} } }";
  const auto floats = WorkOf(axes + axis("DTYPE_F64", Escaped<double>({-0.0, 5.0, -17.0})) + other);
  const auto whole = WorkOf(axes + axis("DTYPE_I64", Escaped<int64_t>({0, 5, -17})) + other);
  const auto fractional = WorkOf(axes + axis("DTYPE_F64", Escaped<double>({0.5, 5.0, -17.0})) + other);
  ASSERT_TRUE(floats != nullptr && whole != nullptr && fractional != nullptr);
  EXPECT_EQ(MakeArrays(*floats), MakeArrays(*whole));
  EXPECT_EQ(floats->key, whole->key);
  EXPECT_NE(fractional->key, whole->key);
  // The rows of whole numbers among fractions have the bits of whole positions.
  const auto some = Values<float>(MakeArrays(*fractional), Slot::kSin), all = Values<float>(MakeArrays(*whole), Slot::kSin);
  EXPECT_TRUE(std::equal(all.begin() + 4, all.end(), some.begin() + 4));
}

TEST(TableWorkTest, KeysTellWhatDecidesBits) {
  const auto key = [](const std::string& spec, const std::string& window) {
    return WorkOf(absl::StrCat("spec { ", spec, " } table { positions { list { ids: [1, 2] } } ", window, " }"))->key;
  };
  EXPECT_NE(key("timestep { dim: 8 }", ""), key("timestep { dim: 8 flip_sin_to_cos: true }", ""));
  EXPECT_NE(key("timestep { dim: 8 }", ""), key("timestep { dim: 8 scale: -1 }", ""));
  EXPECT_EQ(key("timestep { dim: 8 }", ""), key("timestep { dim: 8 scale: 1 downscale_freq_shift: 1 }", ""));
  EXPECT_NE(key("learned { num_positions: 9 dim: 8 }", "indices: true"),
            key("learned { num_positions: 9 dim: 8 position_offset: 1 }", "indices: true"));
}

TEST(TableWorkTest, Errors) {
  struct Case {
    std::string item;
    Expected expected;
  };
  const std::string range = "table { positions { range { count: 2 } } } ";
  for (const Case& c : std::vector<Case>{
           {"spec { timestep { dim: 1 } } " + range, {kBad, "items[0].spec.timestep.dim", "1", "2 … 1048576"}},
           {"spec { timestep { dim: 2 } } " + range,
            {kBad, "items[0].spec.timestep.downscale_freq_shift", "1", "less than floor(dim/2) = 1"}},
           {"spec { timestep { dim: 3 } } " + range,
            {kBad, "items[0].spec.timestep.downscale_freq_shift", "1", "less than"}},
           {"spec { timestep { dim: 8 scale: 0 } } " + range, {kBad, "items[0].spec.timestep.scale", "0", "not 0"}},
           {"spec { timestep { dim: 8 max_period: 0 } } " + range, {kBad, "items[0].spec.timestep.max_period", "0", "> 0"}},
           {"spec { gaussian_fourier { } } " + range, {kBad, "items[0].spec.weights", "nothing", "\"weight\" [dim/2]"}},
           {"spec { gaussian_fourier { } weights { name: \"weight\" tensor { dtype: DTYPE_F32 shape: 1 data: " +
                Escaped<float>({2}) + " } } } " + range,
            {kBad, "items[0].table.positions", "position 0", "greater than 0"}},
           {"spec { learned { dim: 4 } } " + range, {kBad, "items[0].spec.learned.num_positions", "nothing", "1 … "}},
           {"spec { learned { dim: 4 num_positions: 4 } } " + range,
            {kBad, "items[0].spec.weights", "nothing", "table.indices"}},
           {"spec { learned { dim: 4 num_positions: 4 padding_row: 4 } } " + range,
            {kBad, "items[0].spec.learned.padding_row", "4", "0 … 3"}},
           {"spec { learned { dim: 3 } weights { name: \"table\" tensor { dtype: DTYPE_F32 shape: [1, 2] data: " +
                Escaped<float>({2, 3}) + " } } } " + range,
            {kBad, "items[0].spec.learned.dim", "3", "2, as in the weight"}},
           {"spec { learned { dim: 4 num_positions: 4 } } table { indices: true positions { ids { dtype: DTYPE_F32 shape: 1 "
            "data: " +
                Escaped<float>({0.5f}) + " } } }",
            {kBad, "items[0].table.positions", "fractional positions", "whole positions"}},
           {"spec { learned { dim: 4 num_positions: 4 } } dtype: DTYPE_F32 table { indices: true positions { range { count: "
            "1 "
            "} } }",
            {kBad, "items[0].dtype", "DTYPE_F32", "DTYPE_I64, DTYPE_I32"}},
           {"spec { grid_sinusoidal { dim: 6 grid: [2, 2] } } " + range,
            {kBad, "items[0].spec.grid_sinusoidal.dim", "6", "a multiple of 4"}},
           {"spec { grid_sinusoidal { dim: 24 grid: [2, 2, 2] } } " + range,
            {kBad, "items[0].spec.grid_sinusoidal.dim", "24", "a multiple of 16"}},
           {"spec { grid_sinusoidal { dim: 8 grid: 2 } } " + range,
            {kBad, "items[0].spec.grid_sinusoidal.grid", "1 axes", "2 or 3 axes"}},
           {"spec { grid_sinusoidal { dim: 8 grid: [2, 2] columns: [3, 5] } } " + range,
            {kBad, "items[0].spec.grid_sinusoidal.columns", "[3, 5]", "even, sum dim = 8"}},
           {"spec { grid_sinusoidal { dim: 8 grid: [2, 2] base_size: 2 } } " + range,
            {kBad, "items[0].spec.grid_sinusoidal.base_size", "1 entries", "2, one per axis"}},
           {"spec { grid_sinusoidal { dim: 8 grid: [2, 2] interpolation_scale: [1e300, 1] scale: 1e-300 } } " + range,
            {kBad, "items[0].spec.grid_sinusoidal.scale", "1e-300", "2^-64 … 2^31"}},
           {"spec { grid_sinusoidal { dim: 8 } } " + range,
            {kBad, "items[0].table.positions", "1 axis", "2, as the spec has"}},
           {"spec { grid_sinusoidal { dim: 8 columns: 8 } } " + range,
            {kBad, "items[0].spec.grid_sinusoidal.columns", "[8]", "2 to 4 axes without a grid"}},
           {"spec { grid_sinusoidal { dim: 8 extra_rows: 1 } } " + range,
            {kBad, "items[0].spec.grid_sinusoidal.extra_rows", "1", "0 without a grid"}},
           {"spec { grid_sinusoidal { dim: 8 grid: [2, 2] layout: 7 } } " + range,
            {kBad, "items[0].spec.grid_sinusoidal.layout", "7", "GRID_LAYOUT_INTERLEAVED"}},
           {"spec { grid_sinusoidal { dim: 8 grid: [2, 2] start: inf } } " + range,
            {kBad, "items[0].spec.grid_sinusoidal.start", "inf", "2147483648"}},
           {"spec { grid_sinusoidal { dim: 8 grid: [2, 2] start: 1e-30 } } " + range,
            {kBad, "items[0].spec.grid_sinusoidal.scale", "1", "coordinates of 0 or 2^-64"}},
           {"spec { grid_sinusoidal { dim: 8 grid: [2, 2] scale: -1 } } " + range,
            {kBad, "items[0].spec.grid_sinusoidal.scale", "-1", "> 0"}},
           {"spec { grid_sinusoidal { dim: 8 grid: [2, 2] extent_epsilon: -1e-6 } } " + range,
            {kBad, "items[0].spec.grid_sinusoidal.extent_epsilon", "-1e-06", "0 … "}},
           {"spec { grid_sinusoidal { dim: 8 grid: [2, 2] extent_epsilon: 0 base_size: [1, 1] } } " + range,
            {kBad, "items[0].spec.grid_sinusoidal.extent_epsilon", "0 with base_size", "one of the two"}},
           {"spec { grid_sinusoidal { dim: 8 grid: [2, 2] axis_bases: 20 } } " + range,
            {kBad, "items[0].spec.grid_sinusoidal.axis_bases", "1 entries", "2, one per axis"}},
           {"spec { grid_sinusoidal { dim: 8 grid: [2, 2] axis_bases: [20, 0] } } " + range,
            {kBad, "items[0].spec.grid_sinusoidal.axis_bases[1]", "0", "> 0"}},
           {"spec { grid_sinusoidal { dim: 8 grid: [2, 2] base: 20 axis_bases: [20, 20] } } " + range,
            {kBad, "items[0].spec.grid_sinusoidal.axis_bases", "with base 20", "one of the two"}},
           {"spec { gaussian_fourier { radians: true log: true } weights { name: \"weight\" tensor { dtype: DTYPE_F32 "
            "shape: 1 "
            "data: " +
                Escaped<float>({2}) + " } } } " + range,
            {kBad, "items[0].spec.gaussian_fourier.radians", "true with log", "false"}},
           {"spec { gaussian_fourier { log: true } weights { name: \"weight\" tensor { dtype: DTYPE_F32 shape: [2, 1] "
            "data: " +
                Escaped<float>({2, 3}) + " } } } " + range,
            {kBad, "items[0].spec.gaussian_fourier.log", "true with weights of several axes", "false"}},
           {"spec { gaussian_fourier { } weights { name: \"weight\" tensor { dtype: DTYPE_F32 shape: [2, 1] data: " +
                Escaped<float>({2, 3}) + " } } } " + range,
            {kBad, "items[0].table.positions", "1 axis", "2, as the spec has"}},
           {"spec { gaussian_fourier { } weights { name: \"weight\" tensor { dtype: DTYPE_F32 shape: [5, 1] data: " +
                Escaped<float>({2, 3, 4, 5, 6}) + " } } } " + range,
            {kBad, "items[0].spec.weights", "[5, 1]", "up to 4 axes"}},
           {"spec { grid_sinusoidal { dim: 8 grid: [2, 2] interpolation_scale: [1, 0] } } " + range,
            {kBad, "items[0].spec.grid_sinusoidal.interpolation_scale[1]", "0", "> 0"}},
           {"spec { grid_sinusoidal { dim: 8 grid: [2, 2] } } table { positions { range { count: 5 } } }",
            {kBad, "items[0].table.positions", "position 4", "the table has 4 rows"}},
           {"spec { timestep { dim: 8 } } table { positions { range { count: 1 } } form: TABLE_FORM_HALF }",
            {kBad, "items[0].table.form", "TABLE_FORM_HALF", "unset"}},
           {"spec { timestep { dim: 8 } } table { positions { range { count: 1 } } inverse: true }",
            {kBad, "items[0].table.inverse", "true", "unset"}},
           {"spec { rope { head_dim: 8 axes { sections: [2, 2] } } } " + range,
            {kBad, "items[0].table.positions", "1 axis", "2, as the spec has"}},
           {"spec { rope { head_dim: 8 } } table { positions { grid { extents: [2, 2] } } }",
            {kBad, "items[0].table.positions", "2 axes", "1, as the spec has"}},
           {"spec { rope { head_dim: 8 axes { sections: [2, 1] } } } " + range,
            {kBad, "items[0].spec.rope.axes.sections", "[2, 1]", "rotary_dim/2 = 4"}},
           {"spec { rope { head_dim: 8 axes { sections: 4 } } } " + range,
            {kBad, "items[0].spec.rope.axes.sections", "1 axes", "2 … 4 axes"}},
           {"spec { rope { head_dim: 8 axes { sections: [1, 2, 1] layout: AXIS_LAYOUT_ALTERNATING } } } " + range,
            {kBad, "items[0].spec.rope.axes.sections", "[1, 2, 1]", "height = width"}},
           {"spec { rope { head_dim: 8 axes { sections: [1, 3] layout: AXIS_LAYOUT_SPLIT_FREQUENCIES } } } " + range,
            {kBad, "items[0].spec.rope.axes.sections", "[1, 3]", "[2, 2]"}},
           {"spec { rope { head_dim: 8 axes { sections: [2, 2] layout: AXIS_LAYOUT_RESET } inv_freq { inv_freq: [1, 2, 3, "
            "4] } "
            "} } " +
                range,
            {kBad, "items[0].spec.rope.axes.layout", "reset with a schedule", "chunked"}},
           {"spec { rope { head_dim: 8 axes { sections: [3, 1] layout: AXIS_LAYOUT_RESET } ntk_aware { factor: 2 } } } " +
                range,
            {kBad, "items[0].spec.rope.axes.sections", "a section of 1 pairs", "more than 2"}},
       }) {
    ExpectError(ItemStatus(Precompute(absl::StrCat("items { ", c.item, " }"))), c.expected, c.item);
  }
  // A fraction that is no number, too small, or too large.
  for (double bad : {std::nan(""), 1e-30, 2147483648.0, HUGE_VAL}) {
    ExpectError(
        ItemStatus(Precompute("items { spec { rope { head_dim: 8 } } table { positions { ids { dtype: DTYPE_F64 shape: 2 "
                              "data: " +
                              Escaped<double>({1.5, bad}) + " } } } }")),
        {kBad, "items[0].table.positions.ids[1]", "", "2^-64 … 2147483647"}, std::to_string(bad));
  }
}

}  // namespace
}  // namespace phasor::server
