// Files as versions before transformers 5 wrote them, for every class that rotates: the answer has the numbers of the
// library's own modules (tests/golden/transformers/readings.json), or says what the library makes of the file – and says
// nothing of the kind where both agree.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "server/resolve/model_config.h"
#include "tests/server/resolve/library_cases.h"
#include "tests/server/resolve/library_compare.h"
#include "tests/server/resolve/library_words.h"

namespace phasor::server {
namespace {

// The class's own file without its rope keys, then the edit's.
std::string Edited(const std::string& config, const Value& removed, const Value& edit) {
  rapidjson::Document document = ParseJson(config);
  for (const Value& key : removed.GetArray()) document.RemoveMember(key.GetString());
  for (const auto& member : edit.GetObject()) {
    Value name(member.name, document.GetAllocator());
    Value value(member.value, document.GetAllocator());
    document.AddMember(name, value, document.GetAllocator());
  }
  return JsonText(document);
}

// The class's own dict with a partial factor in each of its parts.
void AddPartial(Value& dict, rapidjson::Document& document) {
  bool nested = false;
  for (auto& member : dict.GetObject()) {
    if (!member.value.IsObject()) continue;
    nested = true;
    AddPartial(member.value, document);
  }
  if (nested) return;
  dict.RemoveMember("partial_rotary_factor");
  dict.AddMember("partial_rotary_factor", 0.75, document.GetAllocator());
}

std::string OwnPartial(const std::string& config, const Value& removed) {
  rapidjson::Document document = ParseJson(config);
  Value own(rapidjson::kObjectType);
  if (document.HasMember("rope_parameters") && document["rope_parameters"].IsObject()) {
    own.CopyFrom(document["rope_parameters"], document.GetAllocator());
  }
  for (const Value& key : removed.GetArray()) document.RemoveMember(key.GetString());
  AddPartial(own, document);
  document.AddMember("rope_parameters", own, document.GetAllocator());
  return JsonText(document);
}

// One row of the golden: [layer type, pairs, second frequency, last frequency, factor, base, rope type].
struct Row {
  size_t pairs;
  double second, last, factor, base;
  std::string rope_type;
};

Row RowOf(const Value& value) {
  return {value[1].GetUint64(),
          value[2].GetDouble(),
          value[3].GetDouble(),
          value[4].GetDouble(),
          value[5].IsNumber() ? value[5].GetDouble() : 0,
          value[6].IsString() ? value[6].GetString() : ""};
}

// The golden's numbers are float32 with 9 digits, the library's factor and its steps of YaRN likewise.
bool Near(double a, double b) { return std::fabs(a - b) <= 1e-6 * std::fabs(b); }

// Empty where the layer turns by the row's numbers.
std::string CompareNumbers(const CanonicalSpec& spec, const Row& want) {
  const auto resolved = Resolve(spec, 1, Precision::kExact);
  if (!resolved.ok()) return "resolve: " + std::string(resolved.status().message());
  const std::vector<double>& got = std::get<AnglePlan>(resolved->plan).inv_freq;
  const double second = got[std::min<size_t>(1, got.size() - 1)];
  if (got.size() == want.pairs && Near(second, want.second) && Near(got.back(), want.last) &&
      Near(resolved->attention_factor, want.factor)) {
    return "";
  }
  std::ostringstream text;
  text << got.size() << " pairs, " << second << " … " << got.back() << ", factor " << resolved->attention_factor
       << " instead of " << want.pairs << ", " << want.second << " … " << want.last << ", factor " << want.factor
       << " (base " << want.base << ")";
  return text.str();
}

// The schedules that the edits ask for.
std::optional<RopeSchedule> ScheduleOf(const Value& edit) {
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (!edit.HasMember(key) || !edit[key].IsObject()) continue;
    const Value& dict = edit[key];
    const std::string type = Text(dict, dict.HasMember("rope_type") ? "rope_type" : "type");
    if (type == "linear") return LinearSchedule{dict["factor"].GetDouble()};
    if (type == "yarn") {
      YarnSchedule yarn;
      yarn.factor = dict["factor"].GetDouble();
      yarn.original_max_position = dict["original_max_position_embeddings"].GetInt64();
      return yarn;
    }
  }
  return std::nullopt;
}

struct Question {
  const Value& rows;                     // what the library answers
  const Value& edit;                     // what the file says
  const ModelEncoding* plain = nullptr;  // the answer for the class's own file without rope keys
  bool by_base = false;                  // the plain file shows that modules are compared by their base
};

// The layer as the answer says that the library reads it; nothing, with `problem`, where it says what cannot be.
std::optional<CanonicalSpec> AsSaid(const LayerEncoding& layer, const Said& said, const Question& question,
                                    std::string& problem) {
  RopeSpec spec = std::get<RopeSpec>(layer.spec->spec);
  if (said.base) spec.base = said.base;
  if (said.pairs) spec.rotary_dim = 2 * *said.pairs;
  if (said.leaves_plain) spec.schedule = DefaultSchedule();
  if (said.scales_too) {
    const auto schedule = ScheduleOf(question.edit);
    if (!schedule) problem = "the file has no dict that could scale: ";
    if (schedule) spec.schedule = *schedule;
  }
  if (!said.own_type.empty() && question.plain) {
    const auto& layers = question.plain->layers;
    const auto own = std::find_if(layers.begin(), layers.end(), [&](const LayerEncoding& each) {
      return each.layer_type == layer.layer_type && each.kind == PositionKind::kRope;
    });
    if (own == layers.end()) problem = "the class has no such layers: ";
    if (own != layers.end()) {
      spec.schedule = std::get<RopeSpec>(own->spec->spec).schedule;
      spec.attention_factor = std::get<RopeSpec>(own->spec->spec).attention_factor;
    }
  }
  if (!problem.empty()) return std::nullopt;
  auto canonical = Canonicalize(spec);
  if (canonical.ok()) return *std::move(canonical);
  problem = std::string(canonical.status().message()) + ": ";
  return std::nullopt;
}

// Empty where the answer agrees, or says what the library reads and that gives the library's numbers. By their base alone
// are compared modules that hold one axis of several, whose order is another, or whose slice is not the module's width
// (MLA); their numbers are compared elsewhere.
std::string Compare(const ModelEncoding& model, const LayerEncoding& layer, const Row& want, const Question& question,
                    int& told) {
  const Said said = SaidOfLibrary(model, layer);
  if (!said.unclear.empty()) return "unclear: " + said.unclear;
  if (said.refuses) return "the library reads it, and the answer says: " + said.text;
  if (question.by_base) {
    const auto ours = std::get<RopeSpec>(layer.spec->spec).base;
    if (!ours) return said.base ? "has no base, and says: " + said.text : "";  // frequencies of its own
    if (said.base.value_or(*ours) != want.base) return "base " + std::to_string(want.base) + " is not in: " + said.text;
    if (said.base == *ours) return "agrees, and says: " + said.text;
    told += said.base ? 1 : 0;
    return "";
  }
  const std::string differs = CompareNumbers(*layer.spec, want);
  if (differs.empty()) return said.text.empty() ? "" : "agrees, and says: " + said.text;
  if (said.text.empty()) return "differs without a word: " + differs;
  if (!said.own_type.empty() && said.own_type != want.rope_type) return "not of type " + want.rope_type + ": " + said.text;
  std::string problem;
  const auto as_said = AsSaid(layer, said, question, problem);
  if (as_said) problem = CompareNumbers(*as_said, want);
  if (!as_said || !problem.empty()) return problem + " if the library reads as the answer says: " + said.text;
  ++told;
  return "";
}

struct Tally {
  int compared = 0, told = 0, refused = 0, by_base = 0;
};

// Whether the library's module is compared by its base alone.
bool ByBase(const LayerEncoding& layer, const Value& nothing) {
  const RopeSpec& spec = std::get<RopeSpec>(layer.spec->spec);
  if (spec.first_channel != 0 || !nothing.IsArray()) return true;
  const auto resolved = Resolve(*layer.spec, 1, Precision::kExact);
  if (!resolved.ok()) return true;
  const std::vector<double>& got = std::get<AnglePlan>(resolved->plan).inv_freq;
  return std::none_of(nothing.Begin(), nothing.End(), [&](const Value& row) {
    const bool other_base = spec.base && *spec.base != RowOf(row).base;
    return RowOf(row).pairs == got.size() &&
           (other_base || Near(got[std::min<size_t>(1, got.size() - 1)], RowOf(row).second));
  });
}

// What differs in the layers of one file.
std::vector<std::string> CompareAll(const ModelEncoding& model, const Question& question, Tally& tally) {
  std::vector<std::string> differences;
  for (const LayerEncoding& layer : model.layers) {
    if (layer.kind != PositionKind::kRope || !layer.part.empty()) continue;
    const std::string where = "'" + layer.layer_type + "': ";
    if (question.rows.IsString()) {
      ++tally.refused;
      if (!SaidOfLibrary(model, layer).refuses) {
        differences.push_back(where + "the library fails, without a word: " + question.rows.GetString());
      }
      continue;
    }
    std::string problem;
    bool any = false;
    for (const Value& row : question.rows.GetArray()) {
      const std::string type = row[0].GetString();
      if (!type.empty() && !layer.layer_type.empty() && layer.layer_type != type) continue;
      any = true;
      problem = Compare(model, layer, RowOf(row), question, tally.told);
      if (problem.empty()) break;
    }
    if (!any) continue;
    ++tally.compared;
    tally.by_base += question.by_base ? 1 : 0;
    if (!problem.empty()) differences.push_back(where + problem);
  }
  return differences;
}

const Value& AnswerTo(const Value& answers, const std::string& wanted) {
  for (const auto& answer : answers.GetObject()) {
    std::istringstream names(answer.name.GetString());
    for (std::string edit; names >> edit;) {
      if (edit == wanted) return answer.value;
    }
  }
  return answers;
}

// Whether the library's own numbers are those of an odd count of channels, which leaves half a pair: such a rotation is
// refused here. `dim` channels have the second frequency base^(−2/dim), halved in the edits that scale by 2.
bool LeavesHalfAPair(const Value& rows) {
  return rows.IsArray() && std::any_of(rows.Begin(), rows.End(), [](const Value& value) {
           const Row row = RowOf(value);
           const double plain = std::pow(row.base, -2 / (2 * static_cast<double>(row.pairs) - 1));
           return row.base != 0 && (Near(row.second, plain) || Near(row.second, plain / 2));
         });
}

// What differs in one class's files, by edit.
void CompareClass(const Value& goldens, const std::string& type, const std::string& config, KnownDifferences& known,
                  Tally& tally) {
  const Value& answers = goldens["classes"][type.c_str()];
  const auto plain = ReadModelConfig(Edited(config, goldens["removed"], goldens["edits"]["nothing"]));
  const Value& nothing = AnswerTo(answers, "nothing");
  const bool by_base = plain.ok() && std::any_of(plain->layers.begin(), plain->layers.end(), [&](const auto& layer) {
                         return layer.kind == PositionKind::kRope && layer.part.empty() && ByBase(layer, nothing);
                       });
  const Value none(rapidjson::kObjectType);
  for (const auto& answer : answers.GetObject()) {
    std::istringstream names(answer.name.GetString());
    for (std::string edit; names >> edit;) {
      const std::string name = type + "/" + edit;
      const bool own = edit == "own_partial";
      const Value& keys = own ? none : goldens["edits"][edit.c_str()];
      const auto model =
          ReadModelConfig(own ? OwnPartial(config, goldens["removed"]) : Edited(config, goldens["removed"], keys));
      std::vector<std::string> differences;
      if (model.ok()) {
        differences = CompareAll(*model, {answer.value, keys, plain.ok() ? &*plain : nullptr, by_base}, tally);
      } else if (!answer.value.IsString() && !LeavesHalfAPair(answer.value)) {  // else the library cannot use it either
        differences = {"read: " + std::string(model.status().message())};
      }
      for (const std::string& difference : differences) {
        EXPECT_TRUE(known.Has(name, difference)) << name << " | " << difference;
      }
    }
  }
}

TEST(ReadingsGolden, OlderFilesAreReadAsTheLibraryDoesOrTheAnswerSaysHow) {
  const rapidjson::Document goldens = ReadLibraryJson("readings.json");
  KnownDifferences known("readings_exceptions.json");
  std::map<std::string, std::string> configs;
  for (const LibraryCase& each : LibraryCases()) configs[each.type] = each.config;
  Tally tally;
  for (const auto& entry : goldens["classes"].GetObject()) {
    const std::string type = entry.name.GetString();
    CompareClass(goldens, type, configs[type], known, tally);
  }
  known.ExpectAllSeen();
  EXPECT_GE(tally.compared, 3000);
  EXPECT_GE(tally.told, 540);
  std::printf("%d layers compared, %d of them by their base; %d otherwise and told; %d refused by the library\n",
              tally.compared, tally.by_base, tally.told, tally.refused);
}

// Files with keys that only one class has.
TEST(ReadingsGolden, FilesWithKeysOfOneClassHaveTheLibrarysNumbers) {
  const rapidjson::Document goldens = ReadLibraryJson("readings.json");
  ASSERT_TRUE(goldens.HasMember("files"));
  int compared = 0;
  for (const Value& file : goldens["files"].GetArray()) {
    const auto model = ReadModelConfig(JsonText(file[0]));
    ASSERT_TRUE(model.ok()) << model.status();
    for (const Value& row : file[1].GetArray()) {
      const auto layer = std::find_if(model->layers.begin(), model->layers.end(), [&](const LayerEncoding& each) {
        return each.kind == PositionKind::kRope && each.layer_type == row[0].GetString();
      });
      ASSERT_NE(layer, model->layers.end()) << JsonText(file[0]) << " " << row[0].GetString();
      int told = 0;
      EXPECT_EQ(Compare(*model, *layer, RowOf(row), {file[1], file[0]}, told), "") << JsonText(file[0]);
      EXPECT_EQ(told, 0) << JsonText(file[0]);
      ++compared;
    }
  }
  EXPECT_GE(compared, 14);
}

}  // namespace
}  // namespace phasor::server
