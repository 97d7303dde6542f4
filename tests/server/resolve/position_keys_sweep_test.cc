// Every class of the tables with every key of positions: the answer is another one, or says something, or refuses the value.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>

#include "server/resolve/family.h"
#include "server/resolve/position_keys.h"
#include "tests/server/resolve/resolve_testing.h"

namespace phasor::server {
namespace {

std::string Config(std::string_view model_type, std::string_view extra) {
  return absl::StrCat(R"({"hidden_size":512,"num_attention_heads":4,"num_hidden_layers":4,"max_position_embeddings":512,)",
                      R"("image_size":32,"patch_size":16,"vocab_size":100,"pad_token_id":0,"model_type":")",
                      absl::string_view(model_type.data(), model_type.size()), "\"", extra.empty() ? "" : ",",
                      absl::string_view(extra.data(), extra.size()), "}");
}

void Add(const std::vector<Note>& notes, std::string& text) {
  for (const Note& note : notes) absl::StrAppend(&text, note.field, ": ", note.message, "\n");
}

// All that an answer says, but for the numbers of its specs.
std::string Words(const ModelEncoding& model) {
  std::string text;
  Add(model.warnings, text);
  for (const LayerEncoding& layer : model.layers) {
    absl::StrAppend(&text, layer.layer_type, " ", static_cast<int>(layer.kind), " ", layer.unserved, " ",
                    layer.layers.size(), " ", layer.num_q_heads, " ", layer.num_kv_heads, " ", layer.max_position, " ",
                    layer.softmax_scale.value_or(0), " ", layer.query_scale, "\n");
    Add(layer.defaults, text);
    Add(layer.warnings, text);
    if (layer.spec) Add(layer.spec->warnings, text);
    for (const NeededWeight& weight : layer.weights) {
      absl::StrAppend(&text, weight.name, weight.source);
      for (const int64_t extent : weight.shape) absl::StrAppend(&text, " ", extent);
    }
  }
  return text;
}

bool SameSpecs(const ModelEncoding& a, const ModelEncoding& b) {
  return std::equal(a.layers.begin(), a.layers.end(), b.layers.begin(), b.layers.end(),
                    [](const LayerEncoding& x, const LayerEncoding& y) {
                      return x.spec.has_value() == y.spec.has_value() && (!x.spec || x.spec->spec == y.spec->spec);
                    });
}

// Values of every type that no class has by default.
constexpr const char* kValues[] = {"true", "17", R"("relative_key")", R"({"rope_type":"linear","factor":3})"};

// What a class has in any case may be asked for without a word.
bool MayAgree(std::string_view key, std::string_view value) {
  constexpr std::string_view kFlags[] = {"alibi",
                                         "use_alibi",
                                         "relative_attention",
                                         "rope",
                                         "rotary",
                                         "rotary_emb",
                                         "use_rotary_embedding",
                                         "rope_interleave",
                                         "static_position_embeddings",
                                         "use_abs_pos",
                                         "use_absolute_position_embeddings",
                                         "use_learned_position_embeddings"};
  return value == "true" && std::find(std::begin(kFlags), std::end(kFlags), key) != std::end(kFlags);
}

// What has no answer says why; its other keys wait for that.
bool NothingSaid(const ModelEncoding& model) {
  const auto open = [](const LayerEncoding& layer) { return layer.kind == PositionKind::kUnserved; };
  return std::all_of(model.layers.begin(), model.layers.end(), open) ||
         std::any_of(model.layers.begin(), model.layers.end(),
                     [](const LayerEncoding& layer) { return layer.unserved == "mrope"; });
}

TEST(PositionKeys, NoneIsSilent) {
  std::set<std::string> silent;
  int tried = 0;
  std::set<std::string_view> classes;
  for (const auto table : {RopeFamilies(), OtherFamilies(), LearnedFamilies(), TransformersFamilies1(),
                           TransformersFamilies2(), TransformersFamilies3()}) {
    for (const Family& family : table) {
      const auto before = ReadModelConfig(Config(family.model_type, ""));
      if (!before.ok() || NothingSaid(*before)) continue;
      const std::string words = Words(*before);
      classes.insert(family.model_type);
      for (const std::string_view key : PositionKeys()) {
        for (const char* value : kValues) {
          const auto after = ReadModelConfig(
              Config(family.model_type, absl::StrCat("\"", absl::string_view(key.data(), key.size()), "\":", value)));
          ++tried;
          if (MayAgree(key, value)) continue;
          if (!after.ok() || Words(*after) != words || !SameSpecs(*before, *after)) continue;
          silent.insert(absl::StrCat(absl::string_view(family.model_type.data(), family.model_type.size()), " ",
                                     absl::string_view(key.data(), key.size()), " ", value));
        }
      }
    }
  }
  std::printf("%zu classes, %d values tried, %zu silent\n", classes.size(), tried, silent.size());
  for (const std::string& each : silent) std::printf("silent: %s\n", each.c_str());
  EXPECT_TRUE(silent.empty());
}

}  // namespace
}  // namespace phasor::server
