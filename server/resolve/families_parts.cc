#include <algorithm>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/spec_check.h"
#include "server/resolve/class_values.h"
#include "server/resolve/layer_groups.h"
#include "server/resolve/library_readings.h"
#include "server/resolve/readers.h"

namespace phasor::server {
namespace {

constexpr std::string_view kMemory = "memory_attention_hidden_size";  // SAM 2's video models rotate there only

// Where the base stands, or would.
NumberSource GridBaseFrom(const Model& model) {
  if (model.text.IsObject("rope_parameters") && model.text.Object("rope_parameters")->Has("rope_theta")) {
    return {model.text.Object("rope_parameters")->PathOf("rope_theta")};
  }
  const std::string_view key = model.text.FirstOf({"rope_theta", "memory_attention_rope_theta"});
  return model.From(key.empty() ? "rope_theta" : key);
}

// The same of the head's width.
NumberSource GridHeadFrom(const Model& model) {
  return model.text.Has(kMemory) ? NumberSource{model.text.PathOf(kMemory)} : model.HeadDimFrom();
}

}  // namespace

std::vector<double> AxisFrequencies(const Model& model, double base, int64_t pairs, const NumberSource& from) {
  RopeSpec one;
  one.head_dim = 2 * pairs;
  one.base = base;
  const auto canonical = Canonicalize(one);
  const auto resolved = canonical.ok() ? Resolve(*canonical, std::nullopt, Precision::kExact) : canonical.status();
  if (!resolved.ok()) {
    const auto error = SpecErrorOf(resolved.status());
    const bool of_base = error && error->field.ends_with("base");
    error ? model.Blame(of_base ? from : GridHeadFrom(model), *error) : model.problems->Fail(resolved.status());
    return {};
  }
  return std::get<AnglePlan>(resolved->plan).inv_freq;
}

namespace {

// What an image tower's rotation starts from.
struct Grid {
  int64_t head_dim = 0;
  double base = 10000;
  LayerEncoding layer;

  RopeSpec Spec(const Model& model, int64_t rotary_dim) const {
    RopeSpec spec;
    spec.head_dim = head_dim;
    spec.rotary_dim = rotary_dim;
    spec.base = base;
    spec.pairing = model.family->pairing;
    return spec;
  }
};

int64_t GridHeadDim(const Model& model, std::vector<Note>& defaults) {
  if (!model.text.Has(kMemory)) return model.HeadDim(defaults);
  const auto read = [&](std::string_view key) { return model.text.Integer(key, 1, kMaxHeadDim).value_or(1); };
  const int64_t width = read(kMemory);
  const int64_t parts = read("memory_attention_downsample_rate") * read("memory_attention_num_attention_heads");
  if (model.problems->ok() && width < parts) {
    model.problems->Fail(model.text.PathOf(kMemory), absl::StrCat(width),
                         absl::StrCat("at least ", parts, ", the heads times memory_attention_downsample_rate"));
  }
  return width / parts;
}

// Whether a head has so many channels, one pair for each axis; else an error.
bool IsWide(const Model& model, const Grid& grid, int64_t channels) {
  if (grid.head_dim >= channels) return true;
  const NumberSource from = GridHeadFrom(model);
  model.problems->Fail(from.path, absl::StrCat(grid.head_dim, from.made),
                       absl::StrCat("heads of at least ", channels, " channels"));
  return false;
}

double GridBase(const Model& model, std::vector<Note>& defaults) {
  if (const auto dict = model.text.Object("rope_parameters"); dict && dict->Has("rope_theta")) {
    return dict->Number("rope_theta").value_or(1);
  }
  const std::string_view key = model.text.FirstOf({"rope_theta", "memory_attention_rope_theta"});
  if (!key.empty()) return model.text.Number(key).value_or(1);
  defaults.push_back({model.text.PathOf("rope_theta"), DefaultText(model, FormatNumber(model.family->base))});
  return model.family->base;
}

void AddGrid(const Model& model, LayerEncoding layer, const RopeSpec& spec, ModelEncoding& out) {
  auto canonical = Canonicalize(spec);
  if (!canonical.ok()) {
    const auto error = SpecErrorOf(canonical.status());
    const bool of_base = error && error->field == "rope.base";
    if (!error) return model.problems->Fail(canonical.status());
    return model.Blame(of_base ? GridBaseFrom(model) : GridHeadFrom(model), *error);
  }
  layer.kind = PositionKind::kRope;
  layer.spec = *std::move(canonical);
  layer.key_of = {{"base", GridBaseFrom(model).path}, {"head_dim", GridHeadFrom(model).path}};
  out.layers.push_back(std::move(layer));
}

// One half of the head, turned by one coordinate.
void AddHalf(const Model& model, const Grid& grid, std::string_view name, int64_t first_channel, ModelEncoding& out) {
  RopeSpec spec = grid.Spec(model, grid.head_dim / 4 * 2);
  spec.first_channel = first_channel;
  LayerEncoding layer = grid.layer;
  layer.layer_type = name;
  AddGrid(model, std::move(layer), spec, out);
}

// Every frequency of one axis twice.
std::vector<double> Twins(const Model& model, const Grid& grid, int64_t pairs) {
  std::vector<double> twins;
  for (const double frequency : AxisFrequencies(model, grid.base, pairs, GridBaseFrom(model)))
    twins.insert(twins.end(), 2, frequency);
  return twins;
}

// Some towers add rows of a table to the patches before the layers turn them.
void AddTableBeside(const Model& model, ModelEncoding& out) {
  if (model.family->learned == LearnedRule::kUnknown || !model.problems->ok()) return;
  const size_t before = out.layers.size();
  ReadLearned(model, out);
  if (out.layers.size() == before) return;
  if (out.layers.back().kind == PositionKind::kLearned) {
    out.layers.back().layer_type = "embedding";
    return;
  }
  out.layers.pop_back();
  model.problems->Warn(model.text.PathOf("image_size"),
                       "not given: the class adds a learned table to the patches too, and nothing says how large it is");
}

}  // namespace

void ReadParts(const Model&, ModelEncoding&) {}

void ReadVisionRope(const Model& model, ModelEncoding& out) {
  Grid grid;
  grid.head_dim = GridHeadDim(model, grid.layer.defaults);
  grid.base = GridBase(model, grid.layer.defaults);
  if (!model.problems->ok()) return;
  const GridRule rule = model.family->grid;
  const int64_t axes = rule == GridRule::kResetThree ? 3 : 2;
  if (!IsWide(model, grid, 2 * axes)) return;
  const int64_t pairs = grid.head_dim / axes / 2;  // of one axis
  FillFacts(model, grid.head_dim, grid.layer);
  WarnAxialScaling(model, grid.layer);
  if (rule == GridRule::kHalvesOfTheHead) {
    AddHalf(model, grid, "height", 0, out);
    return AddHalf(model, grid, "width", grid.head_dim / 2, out);
  }
  RopeSpec spec = grid.Spec(model, 2 * axes * pairs);
  spec.axes = RopeAxes{std::vector<int64_t>(static_cast<size_t>(axes), pairs), AxisLayout::kReset};
  if (rule == GridRule::kSplit) {
    spec.axes = RopeAxes{{(pairs * 2 + 1) / 2, pairs}, AxisLayout::kSplitFrequencies};
  } else if (rule == GridRule::kTwinsWidthFirst) {
    spec.axes->layout = AxisLayout::kInterleaved;
    spec.schedule = InvFreqSchedule{Twins(model, grid, pairs)};
    spec.base.reset();
  }
  if (rule == GridRule::kResetWidthFirst || rule == GridRule::kTwinsWidthFirst) {
    grid.layer.warnings.push_back(
        {model.text.PathOf("rope_parameters"), "positions are [width, height]: the column goes first"});
  }
  AddGrid(model, grid.layer, spec, out);
  AddTableBeside(model, out);
}

void ReadDinoV3(const Model& model, ModelEncoding& out) {
  Grid grid;
  grid.head_dim = GridHeadDim(model, grid.layer.defaults);
  grid.base = model.family->base == 10000 ? 100 : model.family->base;
  if (model.text.Has("rope_theta") || model.text.IsObject("rope_parameters")) {
    grid.base = GridBase(model, grid.layer.defaults);
  } else {
    grid.layer.defaults.push_back({model.text.PathOf("rope_theta"), DefaultText(model, "100")});
  }
  if (!model.problems->ok()) return;
  if (!IsWide(model, grid, 4)) return;
  FillFacts(model, grid.head_dim, grid.layer);
  // A coordinate runs from −1 to 1 over the image and turns by 2π·c·base^(−k/n), n pairs an axis.
  const int64_t pairs = grid.head_dim / 4;
  std::vector<double> turns;
  for (const double frequency : AxisFrequencies(model, grid.base, pairs, GridBaseFrom(model)))
    turns.push_back(kTwoPi * frequency);
  if (!model.problems->ok()) return;
  std::vector<double> both = turns;
  both.insert(both.end(), turns.begin(), turns.end());
  RopeSpec spec = grid.Spec(model, 4 * pairs);
  spec.base.reset();
  spec.schedule = InvFreqSchedule{std::move(both)};
  spec.axes = RopeAxes{{pairs, pairs}, AxisLayout::kChunked};
  grid.layer.warnings.push_back(
      {model.text.PathOf("patch_size"),
       "positions are coordinates [y, x] of patches, 2*(index + 0.5)/size - 1; class and register tokens are not rotated"});
  AddGrid(model, grid.layer, spec, out);
}

void ReadOther(const Model& model, ModelEncoding& out) {
  const std::string_view what = model.family->other;
  out.layers.push_back(Unserved(model, "", what.empty() ? "other" : what));
}

void ReadClvp(const Model& model, ModelEncoding& out) {
  std::vector<Note> defaults;
  const int64_t heads = std::max<int64_t>(model.Heads(defaults), 1);
  const int64_t projection = model.text.Integer("projection_dim", 1, kMaxHeadDim).value_or(768);
  GroupRule rule = DefaultRule(model);
  rule.request.rotary_dim = std::max<int64_t>(projection / (heads * 2), 32);
  rule.request.from["rotary_dim"] = model.From("projection_dim");
  ReadGroups(model, {}, [&](std::string_view) { return rule; }, out);
}

}  // namespace phasor::server
