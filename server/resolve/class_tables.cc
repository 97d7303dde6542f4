#include "server/resolve/class_tables.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/resolve/readers.h"

namespace phasor::server {
namespace {

constexpr int64_t kMostOfKey = int64_t{1} << 30;
constexpr int64_t kMost = int64_t{1} << 40;

class Formula {
 public:
  Formula(const Model& model, std::string_view text, std::vector<Note>& defaults)
      : model_(model), rest_(text), defaults_(defaults) {}

  int64_t Value() { return Sum(); }
  // The path of the last key that was read.
  const std::string& path() const { return path_; }

 private:
  bool Take(char c) {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  int64_t Bounded(int64_t value) {
    if (std::abs(value) <= kMost) return value;
    model_.problems->Fail(path_, absl::StrCat(value), absl::StrCat("a table of at most ", kMost, " rows"));
    return 0;
  }

  int64_t Sum() {
    int64_t value = Product();
    for (;;) {
      if (Take('+')) {
        value = Bounded(value + Product());
      } else if (Take('-')) {
        value = Bounded(value - Product());
      } else {
        return value;
      }
    }
  }

  int64_t Product() {
    int64_t value = Factor();
    for (;;) {
      if (Take('*')) {
        const int64_t other = Factor();
        // Both are at most 2^40: what the double says is right where the bound is near.
        const bool fits = static_cast<double>(std::abs(value)) * static_cast<double>(std::abs(other)) < 0x1p62;
        value = Bounded(fits ? value * other : 2 * kMost);
      } else if (Take('/')) {
        const int64_t divisor = Factor();
        if (divisor == 0) {
          model_.problems->Fail(path_, "0", "at least 1");
          return 0;
        }
        value = value >= 0 ? value / divisor : -((-value + divisor - 1) / divisor);  // as Python rounds
      } else {
        return value;
      }
    }
  }

  int64_t Factor() {
    if (Take('(')) {
      const int64_t value = Sum();
      Take(')');
      return value;
    }
    return std::isdigit(static_cast<unsigned char>(rest_.front())) ? Number() : Key();
  }

  int64_t Number() {
    int64_t value = 0;
    const auto end = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value).ptr;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }

  std::string_view Name() {
    const auto end = std::find_if(rest_.begin(), rest_.end(),
                                  [](char c) { return !std::isalnum(static_cast<unsigned char>(c)) && c != '_'; });
    const std::string_view name = rest_.substr(0, static_cast<size_t>(end - rest_.begin()));
    rest_.remove_prefix(name.size());
    return name;
  }

  int64_t Key() {
    const bool flag = Take('?');
    std::optional<JsonObject> object = Take('^') ? model_.file : model_.text;
    std::string_view name = Name();
    while (Take('>')) {
      object = object ? object->Object(name) : std::nullopt;
      name = Name();
    }
    const std::string_view part = Take('.') ? Name() : std::string_view();
    const int64_t of_class = Take('=') ? Number() : 0;
    path_ = object ? object->PathOf(name) : std::string(name);
    const auto given = object ? Read(*object, name, part, flag) : std::nullopt;
    if (given) return *given;
    const Note note{path_, DefaultText(model_, absl::StrCat(of_class))};
    const bool noted = std::any_of(defaults_.begin(), defaults_.end(), [&](const Note& other) {
      return other.field == note.field && other.message == note.message;
    });
    if (!noted) defaults_.push_back(note);
    return of_class;
  }

  std::optional<int64_t> Read(const JsonObject& object, std::string_view name, std::string_view part, bool flag) const {
    if (!object.Has(name)) return std::nullopt;
    if (flag) return object.IsTrue(name) ? 1 : 0;
    if (object.IsList(name)) {
      const auto list = object.Integers(name, 0, kMostOfKey).value_or(std::vector<int64_t>());
      size_t at = part == "w" ? 1 : 0;
      if (!part.empty() && std::isdigit(static_cast<unsigned char>(part.front())))
        at = static_cast<size_t>(part.front() - '0');
      if ((part == "h" || part == "w") && list.size() > 2) {
        model_.problems->Fail(object.PathOf(name), absl::StrCat("a list of ", list.size()),
                              "a whole number, or [height, width]");
        return 0;
      }
      if (at < list.size()) return list[at];
      model_.problems->Fail(object.PathOf(name), absl::StrCat("a list of ", list.size()), absl::StrCat("at least ", at + 1));
      return 0;
    }
    return object.Integer(name, 0, kMostOfKey);
  }

  const Model& model_;
  std::string_view rest_;
  std::vector<Note>& defaults_;
  std::string path_;
};

void AddTable(const Model& model, const ClassTable& table, ModelEncoding& out) {
  std::vector<Note> defaults;
  if (!table.when.empty() && Evaluate(model, table.when, defaults) == 0) return;
  Formula rows(model, table.rows, defaults);
  LearnedSpec spec;
  spec.num_positions = rows.Value();
  spec.dim = table.dim.empty() ? 0 : Evaluate(model, table.dim, defaults);
  spec.position_offset = table.offset;
  const int64_t count = table.layers.empty() ? 0 : std::min(Evaluate(model, table.layers, defaults), kMaxLayers);
  if (!model.problems->ok()) return;
  if (table.after_padding && !out.layers.empty() && out.layers.front().kind == PositionKind::kLearned) {
    const auto& own = std::get<LearnedSpec>(out.layers.front().spec->spec);
    spec.position_offset = own.position_offset;
    spec.padding_row = own.padding_row;
  }
  if (spec.num_positions < 1) {
    return model.problems->Fail(rows.path(), absl::StrCat("a table of ", spec.num_positions, " rows"), "at least one row");
  }
  if (!table.dim.empty() && spec.dim < 1) {
    return model.problems->Fail(rows.path(), absl::StrCat("a table of ", spec.dim, " columns"), "at least one column");
  }
  const size_t before = out.layers.size();
  AddLearned(model, std::string(table.layer_type), spec, out);
  if (out.layers.size() == before) return;
  LayerEncoding& layer = out.layers.back();
  layer.defaults.insert(layer.defaults.end(), defaults.begin(), defaults.end());
  if (!table.note.empty()) layer.warnings.push_back({rows.path(), std::string(table.note)});
  if (layer.kind != PositionKind::kLearned) return;
  const auto& canonical = std::get<LearnedSpec>(layer.spec->spec);
  layer.weights = {{"table", {canonical.num_positions, canonical.dim}, std::string(table.source), false}};
  for (int64_t i = 0; i < count; ++i) layer.layers.push_back(i);
}

}  // namespace

int64_t Evaluate(const Model& model, std::string_view formula, std::vector<Note>& defaults) {
  return Formula(model, formula, defaults).Value();
}

void AddClassTables(const Model& model, ModelEncoding& out) {
  const std::string wrapper = NormalisedFamilyName(model.file.String("model_type").value_or(""));
  for (const ClassTable& table : ClassTables()) {
    if (!model.problems->ok()) return;
    if (table.family == model.family->model_type || table.family == wrapper) AddTable(model, table, out);
  }
}

}  // namespace phasor::server
