// Files as versions before transformers 5 wrote them, for every class that rotates: the answer has the numbers of the
// library's own modules (tests/golden/transformers/readings.json), or says what the library makes of the file – and says
// nothing of the kind where both agree.
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/encodings/spec_check.h"
#include "server/resolve/model_config.h"
#include "tests/server/resolve/library_cases.h"
#include "tests/server/resolve/library_compare.h"

namespace phasor::server {
namespace {

// The class's own file without its rope keys, then the edit's.
std::string Edited(const std::string& config, const Value& removed, const Value& edit) {
  rapidjson::Document document;
  document.Parse<kLibraryFlags>(config.c_str());
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
  rapidjson::Document document;
  document.Parse<kLibraryFlags>(config.c_str());
  Value own(rapidjson::kObjectType);
  if (document.HasMember("rope_parameters") && document["rope_parameters"].IsObject()) {
    own.CopyFrom(document["rope_parameters"], document.GetAllocator());
  }
  for (const Value& key : removed.GetArray()) document.RemoveMember(key.GetString());
  AddPartial(own, document);
  document.AddMember("rope_parameters", own, document.GetAllocator());
  return JsonText(document);
}

// What the answer says of transformers 5 about a layer, and about the file.
std::string SaidOfLibrary(const ModelEncoding& model, const LayerEncoding& layer) {
  std::string said;
  for (const auto* notes : {&model.warnings, &layer.warnings}) {
    for (const Note& note : *notes) {
      for (const char* words : {"transformers 5 takes", "transformers 5 rotates", "transformers 5 does",
                                "transformers 5 refuses", "transformers 5 scales"}) {
        if (note.message.find(words) != std::string::npos) said += note.field + ": " + note.message + "; ";
      }
    }
  }
  return said;
}

// One row of the golden: [layer type, pairs, second frequency, last frequency, factor, base, rope type].
struct Row {
  size_t pairs;
  double second, last, factor, base;
};

Row RowOf(const Value& value) {
  return {value[1].GetUint64(), value[2].GetDouble(), value[3].GetDouble(), value[4].GetDouble(),
          value[5].IsNumber() ? value[5].GetDouble() : 0};
}

bool Near(double a, double b) { return std::fabs(a - b) <= 1e-6 * std::fabs(b); }

// Empty where the answer agrees or says what the library does. `base_only`: of modules that hold one axis of several, whose
// order is another, or whose slice is not the module's width (MLA), the numbers are compared elsewhere.
std::string Compare(const ModelEncoding& model, const LayerEncoding& layer, const Row& want, bool base_only, int& told) {
  const RopeSpec& spec = std::get<RopeSpec>(layer.spec->spec);
  const auto resolved = Resolve(*layer.spec, 1, Precision::kExact);
  if (!resolved.ok()) return "resolve: " + std::string(resolved.status().message());
  const std::vector<double>& got = std::get<AnglePlan>(resolved->plan).inv_freq;
  const double base = spec.base.value_or(want.base);
  const std::string said = SaidOfLibrary(model, layer);
  const bool same = base_only ? base == want.base
                              : got.size() == want.pairs && Near(got[std::min<size_t>(1, got.size() - 1)], want.second) &&
                                    Near(got.back(), want.last) && Near(resolved->attention_factor, want.factor);
  if (same) {
    const bool wrong = base_only ? said.find(": base ") != std::string::npos : !said.empty();
    return wrong ? "agrees, and says: " + said : "";
  }
  if (said.empty()) {
    std::ostringstream text;
    text << "differs without a word: " << got.size() << " pairs, " << got[std::min<size_t>(1, got.size() - 1)] << ", factor "
         << resolved->attention_factor << " instead of " << want.pairs << ", " << want.second << ", " << want.factor
         << " (base " << base << ", " << want.base << ")";
    return text.str();
  }
  if (!base_only && got.size() != want.pairs && said.find(std::to_string(want.pairs)) == std::string::npos) {
    return "pairs " + std::to_string(want.pairs) + " are not in: " + said;
  }
  if (want.base != 0 && base != want.base && said.find(FormatNumber(want.base)) == std::string::npos) {
    return "base " + FormatNumber(want.base) + " is not in: " + said;
  }
  ++told;
  return "";
}

struct Tally {
  int compared = 0, told = 0, refused = 0;
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

struct Question {
  std::string name;      // class/edit
  const Value& rows;     // what the library answers
  bool several = false;  // the plain file shows that modules are compared by their base
};

void CompareAll(const ModelEncoding& model, const Question& question, Tally& tally) {
  for (const LayerEncoding& layer : model.layers) {
    if (layer.kind != PositionKind::kRope || !layer.part.empty()) continue;
    if (question.rows.IsString()) {
      ++tally.refused;
      if (SaidOfLibrary(model, layer).find("refuses") == std::string::npos) {
        ADD_FAILURE() << question.name << " '" << layer.layer_type
                      << "': the library fails, without a word: " << question.rows.GetString();
      }
      continue;
    }
    std::string problem;
    bool any = false;
    for (const Value& row : question.rows.GetArray()) {
      const std::string type = row[0].GetString();
      if (!type.empty() && !layer.layer_type.empty() && layer.layer_type != type) continue;
      any = true;
      problem = Compare(model, layer, RowOf(row), question.several, tally.told);
      if (problem.empty()) break;
    }
    if (!any) continue;
    ++tally.compared;
    EXPECT_TRUE(problem.empty()) << question.name << " '" << layer.layer_type << "': " << problem;
  }
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

TEST(ReadingsGolden, OlderFilesAreReadAsTheLibraryDoesOrTheAnswerSaysHow) {
  const rapidjson::Document goldens = ReadLibraryJson("readings.json");
  const rapidjson::Document exceptions = ReadLibraryJson("readings_exceptions.json");
  const rapidjson::Document faults = ReadLibraryJson("exceptions.json");
  ASSERT_TRUE(goldens.IsObject());
  ASSERT_TRUE(exceptions.IsObject());
  std::map<std::string, std::string> configs;
  for (const LibraryCase& each : LibraryCases()) configs[each.type] = each.config;
  Tally tally;
  std::set<std::string> excepted;
  for (const auto& model_type : goldens["classes"].GetObject()) {
    const std::string type = model_type.name.GetString();
    const auto plain = ReadModelConfig(Edited(configs[type], goldens["removed"], goldens["edits"]["nothing"]));
    const Value& nothing = AnswerTo(model_type.value, "nothing");
    const bool several = plain.ok() && std::any_of(plain->layers.begin(), plain->layers.end(), [&](const auto& layer) {
                           return layer.kind == PositionKind::kRope && layer.part.empty() && ByBase(layer, nothing);
                         });
    for (const auto& answer : model_type.value.GetObject()) {
      std::istringstream names(answer.name.GetString());
      for (std::string edit; names >> edit;) {
        const std::string name = type + "/" + edit;
        if (exceptions.HasMember(name.c_str())) {
          EXPECT_GE(exceptions[name.c_str()].GetStringLength(), 20u) << name;
          excepted.insert(name);
          continue;
        }
        const auto model = ReadModelConfig(edit == "own_partial"
                                               ? OwnPartial(configs[type], goldens["removed"])
                                               : Edited(configs[type], goldens["removed"], goldens["edits"][edit.c_str()]));
        if (!model.ok()) {
          // Class defaults that the library itself cannot use, and shares of a head that leave half a pair.
          const bool odd = model.status().message().find("even number of channels") != std::string::npos;
          EXPECT_TRUE(answer.value.IsString() || odd || faults.HasMember(type.c_str())) << name << ": " << model.status();
          continue;
        }
        CompareAll(*model, {name, answer.value, several}, tally);
      }
    }
  }
  for (const auto& entry : exceptions.GetObject())
    EXPECT_TRUE(excepted.contains(entry.name.GetString())) << entry.name.GetString();
  EXPECT_GE(tally.compared, 2500);
  EXPECT_GE(tally.told, 300);
  std::printf("%d layers compared, %d of them otherwise and told; %d refused by the library\n", tally.compared, tally.told,
              tally.refused);
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
      EXPECT_EQ(Compare(*model, *layer, RowOf(row), false, told), "") << JsonText(file[0]);
      EXPECT_EQ(told, 0) << JsonText(file[0]);
      ++compared;
    }
  }
  EXPECT_GE(compared, 14);
}

}  // namespace
}  // namespace phasor::server
