// What the tests of configurations share: read one, find a layer type, find a note.
#ifndef PHASOR_TESTS_SERVER_RESOLVE_RESOLVE_TESTING_H_
#define PHASOR_TESTS_SERVER_RESOLVE_RESOLVE_TESTING_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"

#include "server/resolve/model_config.h"

namespace phasor::server {

// The configuration must be readable.
inline ModelEncoding Read(std::string_view json) {
  auto model = ReadModelConfig(json);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : ModelEncoding();
}

inline LayerEncoding LayerOf(const ModelEncoding& model, std::string_view layer_type = "") {
  for (const LayerEncoding& layer : model.layers) {
    if (layer.layer_type == layer_type) return layer;
  }
  ADD_FAILURE() << "no layer type '" << layer_type << "'";
  return {};
}

inline RopeSpec RopeOf(const LayerEncoding& layer) {
  EXPECT_EQ(layer.kind, PositionKind::kRope) << layer.unserved;
  if (!layer.spec || !std::holds_alternative<RopeSpec>(layer.spec->spec)) return {};
  return std::get<RopeSpec>(layer.spec->spec);
}

template <typename Schedule>
Schedule ScheduleOf(const RopeSpec& spec) {
  EXPECT_TRUE(std::holds_alternative<Schedule>(spec.schedule)) << "schedule " << spec.schedule.index();
  return std::holds_alternative<Schedule>(spec.schedule) ? std::get<Schedule>(spec.schedule) : Schedule();
}

inline bool HasNote(const std::vector<Note>& notes, std::string_view field, std::string_view words = "") {
  return std::any_of(notes.begin(), notes.end(),
                     [&](const Note& note) { return note.field == field && note.message.find(words) != std::string::npos; });
}

// The field of the error that the configuration gives; "OK" when there is none.
inline std::string ErrorField(std::string_view json) {
  const auto model = ReadModelConfig(json);
  if (model.ok()) return "OK";
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  const auto error = SpecErrorOf(model.status());
  return error ? error->field : "no SpecError";
}

// A LLaMA of 32 heads of 128 and 8192 positions, with the given keys added.
inline std::string Llama(std::string_view extra) {
  return absl::StrCat(R"({"model_type":"llama","hidden_size":4096,"num_attention_heads":32,"num_hidden_layers":4,)"
                      R"("max_position_embeddings":8192)",
                      extra.empty() ? "" : ",", absl::string_view(extra.data(), extra.size()), "}");
}

}  // namespace phasor::server

#endif  // PHASOR_TESTS_SERVER_RESOLVE_RESOLVE_TESTING_H_
