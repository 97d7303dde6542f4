#include "server/resolve/class_values.h"

#include "absl/strings/str_cat.h"

namespace phasor::server {

int64_t OrOfClass(const Model& model, const JsonObject& object, std::string_view key, WholeRange range, int64_t of_class,
                  std::vector<Note>& defaults) {
  const auto given = object.Integer(key, range.low, range.high);
  if (!given) defaults.push_back({object.PathOf(key), DefaultText(model, absl::StrCat(of_class))});
  return given.value_or(of_class);
}

void FailWord(const Model& model, const JsonObject& object, std::string_view key, std::string_view word,
              std::string_view allowed) {
  constexpr size_t kShown = 48;
  const std::string_view shown = word.substr(0, kShown);
  model.problems->Fail(object.PathOf(key), absl::StrCat("\"", absl::string_view(shown.data(), shown.size()), "\""), allowed);
}

void ForgetAttentionFactor(CanonicalSpec& spec) {
  std::erase_if(spec.warnings, [](const Note& note) { return note.field == "rope.attention_factor"; });
}

}  // namespace phasor::server
