#include "server/knowledge/memory_plan.h"

#include <algorithm>
#include <map>
#include <optional>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "kernels/program/window_bias.h"

namespace phasor::server {
namespace {

double Number(int64_t value) { return static_cast<double>(value); }

std::string Subject(const PlannedLayer& layer) {
  return layer.layer_type.empty() ? "" : absl::StrCat(layer.layer_type, ": ");
}

// "for all 32 layers of this type".
std::string Shared(const PlannedLayer& layer) {
  return layer.layers > 1 ? absl::StrCat(" for all ", layer.layers, " layers") : "";
}

const HeldForm* FormNamed(const std::vector<HeldForm>& forms, std::string_view name) {
  const auto found = std::find_if(forms.begin(), forms.end(), [&](const HeldForm& form) { return form.form == name; });
  return found == forms.end() ? nullptr : &*found;
}

// What to hold of these forms, the first being the one to take.
std::string AdviceOn(const PlannedLayer& layer, const std::vector<HeldForm>& forms) {
  const HeldForm& best = forms.front();
  const std::string begin = absl::StrCat(Subject(layer), "take the ");
  if (best.what == HeldWhat::kTable && best.form == "half width") {
    const HeldForm* twice = FormNamed(forms, "duplicated");
    std::string text =
        absl::StrCat(begin, "half-width table, ", BytesText(best.bytes), " once", Shared(layer), " and all heads");
    if (twice != nullptr) absl::StrAppend(&text, "; duplicated it would be ", BytesText(twice->bytes));
    return absl::StrCat(text, ".");
  }
  if (best.what == HeldWhat::kTable)
    return absl::StrCat(begin, "table, ", BytesText(best.bytes), ", added once to the input.");
  if (best.what == HeldWhat::kWeights) {
    return absl::StrCat(begin, "table of the checkpoint, ", BytesText(best.bytes),
                        ": upload it once and name it by its hash.");
  }
  const HeldForm* full = FormNamed(forms, "full");
  if (best.form == "full" || full == nullptr) {
    return absl::StrCat(Subject(layer), "the bias has to be held in full, ", BytesText(best.bytes), ". ", best.note);
  }
  const std::string name = best.form == "vector" ? "vector by distance" : "row of the last query";
  return absl::StrCat(begin, name, ", ", BytesText(best.bytes), Shared(layer), "; the full bias would be ",
                      BytesText(full->bytes), absl::StrFormat(", %.4g times as much", full->bytes / best.bytes), ".");
}

MemoryUse UseOf(const PlannedLayer& layer, const HeldForm& form) {
  MemoryUse use;
  use.layer_type = layer.layer_type;
  use.what = std::string(NameOf(form.what));
  use.form = form.form;
  use.bytes = form.bytes;
  use.cached_bytes = form.cached_bytes;
  use.device_bytes = form.cached_bytes > 0 ? form.cached_bytes : form.bytes;
  use.operations = form.operations;
  use.note = form.note;
  return use;
}

// Rows of a table that positions choose from, less those in front of position 0; 0: any position has numbers. Tables that
// a configuration names for something else than the tokens of a sequence ("x_embedding", "query_embedding") have their own.
int64_t PositionsOf(const PlannedLayer& layer) {
  const std::string_view last = std::string_view(layer.layer_type).substr(layer.layer_type.rfind('.') + 1);  // npos + 1 = 0
  if (last.ends_with("_embedding")) return 0;
  if (const auto* learned = std::get_if<LearnedSpec>(&layer.spec.spec)) {
    return std::max<int64_t>(0, learned->num_positions - learned->position_offset.value_or(0));
  }
  const auto traits = layer.lacks_weights ? std::nullopt : TraitsOf(layer.spec.spec);
  return traits ? std::min(traits->query_rows, traits->key_rows) : 0;
}

// What to say where more positions are asked for than there are rows; else empty.
std::string TooFewRows(const PlannedLayer& layer, const Load& load) {
  const int64_t positions = PositionsOf(layer);
  if (positions == 0 || load.keys <= positions) return "";
  return absl::StrCat("there are rows for positions 0 to ", positions - 1, " only: ", load.keys - positions, " of the ",
                      load.keys, " positions asked for have none, and calls that name them are refused.");
}

class Planner {
 public:
  explicit Planner(const Load& load) : load_(load) {}

  void Add(const PlannedLayer& layer) {
    if (layer.lacks_weights) return AddWeightsOnly(layer);
    const auto resolved = Resolve(layer.spec, load_.keys, Precision::kExact);
    if (!resolved.ok()) return AddWeightsOnly(layer);
    std::vector<HeldForm> forms = FormsOf(layer.spec.spec, resolved->plan, load_);
    if (forms.empty()) return AddWeightsOnly(layer);
    const std::string missing = TooFewRows(layer, load_);
    const auto [first, is_new] = same_.try_emplace(PlanKey(resolved->plan), layer.layer_type);
    for (const HeldForm& form : forms) {
      MemoryUse use = UseOf(layer, form);
      if (!is_new && use.cached_bytes > 0)
        absl::StrAppend(&use.note, " The same numbers as ", first->second, ": kept once.");
      use.advised = &form == &forms.front();
      if (use.advised && !missing.empty()) absl::StrAppend(&use.note, " Note: ", missing);
      plan_.uses.push_back(std::move(use));
    }
    if (is_new) cached_ += forms.front().cached_bytes;
    const auto* angles = std::get_if<AnglePlan>(&resolved->plan);
    const bool by_position = angles != nullptr || std::holds_alternative<GatherPlan>(resolved->plan) ||
                             std::holds_alternative<MixedAnglePlan>(resolved->plan);
    if (by_position) axes_ = std::max(axes_, angles == nullptr ? 1 : angles->axes);
    Advise(AdviceOn(layer, forms));
    if (!missing.empty()) Advise(Subject(layer) + missing);
  }

  MemoryPlan Finish() {
    if (axes_ > 0) AddIds();
    if (cached_ > 0) Advise(absl::StrCat("The server's cache keeps ", BytesText(cached_), " for it, whoever asks."));
    return std::move(plan_);
  }

 private:
  void Advise(const std::string& sentence) { absl::StrAppend(&plan_.advice, plan_.advice.empty() ? "" : " ", sentence); }

  void AddWeightsOnly(const PlannedLayer& layer) {
    MemoryUse use;
    use.layer_type = layer.layer_type;
    use.what = "weights";
    use.form = "as uploaded";
    use.bytes = use.device_bytes = layer.weight_elements * Number(load_.element_bytes);
    use.advised = true;
    use.note = layer.weight_elements > 0
                   ? "Numbers of the checkpoint. Terms of the scores hold no bias: each call needs queries and keys."
                   : "Numbers of the checkpoint; neither the spec nor the configuration says how many.";
    const std::string missing = TooFewRows(layer, load_);
    if (!missing.empty()) absl::StrAppend(&use.note, " Note: ", missing);
    plan_.uses.push_back(std::move(use));
    Advise(absl::StrCat(Subject(layer), "upload the checkpoint's numbers",
                        layer.weight_elements > 0 ? absl::StrCat(", ", BytesText(plan_.uses.back().bytes)) : "", ", once."));
    if (!missing.empty()) Advise(Subject(layer) + missing);
  }

  // Positions of every query, where they do not simply follow one another.
  void AddIds() {
    MemoryUse ids;
    ids.what = "position_ids";
    ids.form = axes_ == 1 ? "int64" : absl::StrCat("int64, ", axes_, " coordinates");
    ids.bytes = ids.device_bytes = Number(load_.batch) * Number(load_.queries) * Number(axes_) * 8;
    ids.advised = axes_ > 1;
    ids.note = axes_ > 1 ? "[axes, batch, queries]."
                         : "[batch, queries]. Not needed where positions follow one another: a start and a count say them.";
    plan_.uses.push_back(std::move(ids));
  }

  const Load load_;
  MemoryPlan plan_;
  std::map<std::string, std::string, std::less<>> same_;  // plan key → the layer type that had it first
  int64_t axes_ = 0;                                      // most coordinates of a position; 0: positions are not asked for
  double cached_ = 0;
};

}  // namespace

MemoryPlan PlanMemoryUse(const std::vector<PlannedLayer>& layers, const Load& load) {
  Planner planner(load);
  for (const PlannedLayer& layer : layers) planner.Add(layer);
  return planner.Finish();
}

}  // namespace phasor::server
