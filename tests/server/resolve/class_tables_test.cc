#include "server/resolve/class_tables.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "tests/server/resolve/library_cases.h"
#include "tests/server/resolve/resolve_testing.h"

namespace phasor::server {
namespace {

// The value of a formula over a file, or the message of its error.
struct Evaluated {
  int64_t value = 0;
  std::string problem;
  std::vector<Note> defaults;
};

Evaluated EvaluateOver(const std::string& json, std::string_view formula) {
  static constexpr Family kFamily{.model_type = "x"};
  rapidjson::Document document;
  EXPECT_TRUE(ParseConfig(json, document).ok());
  Problems problems;
  const JsonObject file(document, "", &problems);
  const JsonObject text = file.IsObject("text_config") ? *file.Object("text_config") : file;
  const Model model{file, text, &kFamily, "x", &problems};
  Evaluated result;
  result.value = Evaluate(model, formula, result.defaults);
  if (const auto error = SpecErrorOf(problems.status())) {
    result.problem = error->field + " is " + error->given + ", allowed: " + error->allowed;
  }
  return result;
}

TEST(Formulas, HaveTheUsualPrecedenceAndRoundDown) {
  EXPECT_EQ(EvaluateOver("{}", "2 + 3 * 4 - 10 / 4").value, 12);
  EXPECT_EQ(EvaluateOver("{}", "(2 + 3) * (4 - 1)").value, 15);
  EXPECT_EQ(EvaluateOver("{}", "7 / 2 * 2").value, 6);
  EXPECT_EQ(EvaluateOver("{}", "(3 - 10) / 4").value, -2);  // as Python's //
}

TEST(Formulas, ReadKeysSidesEntriesObjectsAndFlags) {
  const std::string file =
      R"({"n": 5, "size": [10, 20], "side": 7, "list": [1, 2, 3], "yes": true, "no": false,
          "inner": {"m": 9}, "text_config": {"n": 6}})";
  EXPECT_EQ(EvaluateOver(file, "n").value, 6);
  EXPECT_EQ(EvaluateOver(file, "^n").value, 5);
  EXPECT_EQ(EvaluateOver(file, "^size.h * 100 + ^size.w").value, 1020);
  EXPECT_EQ(EvaluateOver(file, "^side.h * 100 + ^side.w").value, 707);
  EXPECT_EQ(EvaluateOver(file, "^list.2").value, 3);
  EXPECT_EQ(EvaluateOver(file, "^inner>m").value, 9);
  EXPECT_EQ(EvaluateOver(file, "?^yes + 10 * ?^no").value, 1);
}

TEST(Formulas, NoteDefaultsOnce) {
  const Evaluated got = EvaluateOver(R"({"text_config": {"a": 4}})", "(a=1 + b=3) * b=3 + ?c=1 + ^d>e=2");
  EXPECT_EQ(got.value, 24);
  ASSERT_EQ(got.defaults.size(), 3u);
  EXPECT_EQ(got.defaults[0].field, "text_config.b");
  EXPECT_EQ(got.defaults[0].message, "3 (default of class x)");
  EXPECT_EQ(got.defaults[1].field, "text_config.c");
  EXPECT_EQ(got.defaults[2].field, "e");
}

TEST(Formulas, RefuseWhatMakesNoTable) {
  EXPECT_EQ(EvaluateOver(R"({"a": 0})", "5 / a").problem, "a is 0, allowed: at least 1");
  EXPECT_EQ(EvaluateOver(R"({"a": 1073741824})", "a * a").problem,
            "a is 1152921504606846976, allowed: a table of at most 1099511627776 rows");
  EXPECT_EQ(EvaluateOver(R"({"a": -1})", "a").problem, "a is -1, allowed: a whole number, 0 … 1073741824");
  EXPECT_EQ(EvaluateOver(R"({"a": "b"})", "a").problem.substr(0, 5), "a is ");
  EXPECT_EQ(EvaluateOver(R"({"a": 1})", "?a").problem.substr(0, 7), "a is 1,");
  EXPECT_EQ(EvaluateOver(R"({"a": [1, "b"]})", "a.h").problem.substr(0, 5), "a[1] ");
}

TEST(ClassTables, AreAtLeastOneRowAndColumn) {
  const auto problem = [](const char* json) { return std::string(ReadModelConfig(json).status().message()); };
  EXPECT_NE(problem(R"({"model_type": "hiera", "image_size": [2, 2]})").find("patch_stride: given a table of 0 rows"),
            std::string::npos)
      << problem(R"({"model_type": "hiera", "image_size": [2, 2]})");
  EXPECT_NE(problem(R"({"model_type": "lilt", "hidden_size": 5})").find("a table of 0 columns"), std::string::npos);
  EXPECT_NE(problem(R"({"model_type": "detr", "num_queries": 0})").find("num_queries"), std::string::npos);
}

TEST(ClassTables, AreLeftOutWhereTheClassHasNone) {
  const auto names = [](const char* json) {
    std::set<std::string> found;
    const auto model = ReadModelConfig(json);
    EXPECT_TRUE(model.ok()) << model.status();
    if (!model.ok()) return found;
    for (const LayerEncoding& layer : model->layers) {
      if (layer.kind == PositionKind::kLearned) found.insert(layer.layer_type);
    }
    return found;
  };
  using Names = std::set<std::string>;
  EXPECT_EQ(names(R"({"model_type": "yolos"})"), (Names{"", "mid_embedding"}));
  EXPECT_EQ(names(R"({"model_type": "yolos", "use_mid_position_embeddings": false})"), Names{""});
  EXPECT_EQ(names(R"({"model_type": "reformer"})"), (Names{"axis0_embedding", "axis1_embedding"}));
  EXPECT_EQ(names(R"({"model_type": "reformer", "axial_pos_embds": false})"), Names{""});
  EXPECT_EQ(names(R"({"model_type": "deformable_detr"})"), Names{"query_embedding"});
  EXPECT_EQ(names(R"({"model_type": "deformable_detr", "two_stage": true})"), Names{});
  EXPECT_EQ(names(R"({"model_type": "lw_detr_vit", "use_absolute_position_embeddings": false})"), Names{});
}

TEST(ClassTables, OfLayersCountTheLayers) {
  const auto model = ReadModelConfig(R"({"model_type": "yolos", "num_hidden_layers": 4})");
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->layers.size(), 2u);
  EXPECT_EQ(model->layers[1].layers, (std::vector<int64_t>{0, 1, 2}));
}

TEST(ClassTables, CountPositionsAsTheClass) {
  const auto vivit = ReadModelConfig(R"({"model_type": "vivit", "num_frames": 8, "image_size": [64, 32]})");
  ASSERT_TRUE(vivit.ok()) << vivit.status();
  const auto& spec = std::get<LearnedSpec>(vivit->layers.front().spec->spec);
  EXPECT_EQ(spec.num_positions, 4 * 4 * 2 + 1);
  EXPECT_EQ(spec.position_offset, 1);
  const auto lilt = ReadModelConfig(R"({"model_type": "lilt", "pad_token_id": 3})");
  ASSERT_TRUE(lilt.ok()) << lilt.status();
  const auto& boxes = std::get<LearnedSpec>(lilt->layers.back().spec->spec);
  EXPECT_EQ(lilt->layers.back().layer_type, "box_embedding");
  EXPECT_EQ(boxes.position_offset, 4);
  EXPECT_EQ(boxes.padding_row, 3);
  EXPECT_EQ(boxes.dim, 192);
}

// {layer type: [rows, columns, offset]} of the tables without a part.
std::map<std::string, std::vector<int64_t>> TablesOf(const std::string& json) {
  std::map<std::string, std::vector<int64_t>> tables;
  const auto model = ReadModelConfig(json);
  EXPECT_TRUE(model.ok()) << json.substr(0, 80) << model.status();
  if (!model.ok()) return tables;
  for (const LayerEncoding& layer : model->layers) {
    if (layer.kind != PositionKind::kLearned || !layer.part.empty()) continue;
    const auto& spec = std::get<LearnedSpec>(layer.spec->spec);
    tables[layer.layer_type] = {spec.num_positions, spec.dim, *spec.position_offset};
  }
  return tables;
}

// The defaults in the formulas are those that the library's class saves.
TEST(ClassTables, DefaultsAreThoseOfTheLibrary) {
  std::set<std::string> families{"pvt"};
  for (const ClassTable& table : ClassTables()) families.insert(std::string(table.family));
  std::set<std::string> seen;
  for (const LibraryCase& each : LibraryCases()) {
    const std::string family = NormalisedFamilyName(each.type);
    if (!families.contains(family)) continue;
    const auto whole = TablesOf(each.config);
    const auto bare = TablesOf("{\"model_type\": \"" + each.type + "\"}");
    EXPECT_FALSE(whole.empty()) << each.type;
    EXPECT_EQ(whole, bare) << each.type;
    seen.insert(family);
  }
  EXPECT_EQ(seen, families);
}

}  // namespace
}  // namespace phasor::server
