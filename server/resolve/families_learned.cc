#include <array>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/spec_check.h"
#include "server/resolve/readers.h"

namespace phasor::server {
namespace {

constexpr int64_t kMostRows = int64_t{1} << 30;

// Pixels per side from an int or a list of [height, width]; 0 where neither the file nor the class says.
std::array<int64_t, 2> Sides(const Model& model, std::string_view key, const std::array<int64_t, 2>& of_class,
                             std::vector<Note>& defaults) {
  if (model.text.IsList(key)) {
    const auto sides = model.text.Integers(key, 1, kMostRows).value_or(std::vector<int64_t>());
    if (sides.size() == 1 || sides.size() == 2) return {sides.front(), sides.back()};
    if (model.problems->ok()) {
      model.problems->Fail(model.text.PathOf(key), absl::StrCat(sides.size(), " entries"),
                           "a whole number, or [height, width]");
    }
    return {0, 0};
  }
  if (model.text.Has(key) || model.text.IsNull(key) || of_class[0] == 0) {
    const int64_t side = model.text.Integer(key, 1, kMostRows).value_or(0);
    return {side, side};
  }
  const auto [height, width] = of_class;
  defaults.push_back({model.text.PathOf(key),
                      DefaultText(model, height == width ? absl::StrCat(height) : absl::StrCat(height, "x", width))});
  return of_class;
}

// Patches of a whole image; 0 where neither the file nor the class says.
int64_t Patches(const Model& model, std::vector<Note>& defaults) {
  const auto [height, width] = Sides(model, "image_size", model.family->image, defaults);
  const auto [patch_height, patch_width] = Sides(model, "patch_size", model.family->patch, defaults);
  if (height == 0 || patch_height == 0) return 0;
  const int64_t rows = height / patch_height;
  const int64_t columns = width / patch_width;
  return rows > 0 && columns <= kMostRows / rows ? rows * columns : 0;
}

int64_t PaddingIndex(const Model& model, std::vector<Note>& defaults) {
  const std::string_view key = model.text.FirstOf({"pad_token_id", "padding_idx", "pad_index"});
  if (!key.empty()) return model.text.Integer(key, 0, kMostRows).value_or(model.family->padding);
  defaults.push_back({model.text.PathOf("pad_token_id"), DefaultText(model, absl::StrCat(model.family->padding))});
  return model.family->padding;
}

int64_t Positions(const Model& model, std::vector<Note>& defaults) {
  const std::string_view keys = model.family->rows_key;
  const size_t times = keys.find('*');  // a grid has a key for each side
  const std::string_view first = keys.substr(0, times);
  if (model.family->rows != 0 && !model.text.Has(first) && !model.text.IsNull(first)) {
    defaults.push_back({model.text.PathOf(first), DefaultText(model, absl::StrCat(model.family->rows))});
    return model.family->rows;
  }
  const auto read = [&](std::string_view key) { return model.text.Integer(key, 1, int64_t{1} << 15).value_or(0); };
  if (times != std::string_view::npos) return read(keys.substr(0, times)) * read(keys.substr(times + 1));
  if (!keys.empty() && model.text.Has(keys)) return model.text.Integer(keys, 1, kMostRows).value_or(0);
  return model.MaxPosition();
}

// The key that an error about the rows of a table blames.
std::string_view RowsKey(const Model& model) {
  const std::string_view keys = model.family->rows_key;
  if (const std::string_view first = keys.substr(0, keys.find('*')); !first.empty() && model.text.Has(first)) return first;
  const bool image = model.family->learned == LearnedRule::kImage || model.family->learned == LearnedRule::kImageFirst;
  return image ? "image_size" : "max_position_embeddings";
}

// Why nobody can say how large a table is.
Note WhyNoTable(const Model& model, bool of_columns) {
  std::string_view key = of_columns ? "hidden_size" : RowsKey(model);
  constexpr std::string_view kPatch = "patch_size";
  const bool no_patch = model.text.IsNull(kPatch) || (!model.text.Has(kPatch) && model.family->patch[0] == 0);
  if (key == "image_size" && no_patch && (model.text.Has(key) || model.family->image[0] != 0)) key = kPatch;
  const std::string given = model.text.Has(key) ? model.text.ValueText(key) : model.text.IsNull(key) ? "null" : "not given";
  return {model.text.PathOf(key),
          absl::StrCat(given, ": nothing says how many ", of_columns ? "columns" : "rows", " the table has")};
}

}  // namespace

void AddLearned(const Model& model, std::string layer_type, LearnedSpec spec, ModelEncoding& out) {
  LayerEncoding layer;
  layer.layer_type = std::move(layer_type);
  if (spec.dim == 0) spec.dim = model.Hidden(layer.defaults);
  FillFacts(model, 0, layer);
  if (!model.problems->ok()) return;
  if (spec.num_positions == 0 || spec.dim == 0) {
    out.layers.push_back(Unserved(model, layer.layer_type, "learned"));
    out.layers.back().warnings.push_back(WhyNoTable(model, spec.dim == 0));
    return;
  }
  auto canonical = Canonicalize(spec);
  if (!canonical.ok()) {
    const auto error = SpecErrorOf(canonical.status());
    if (!error) return model.problems->Fail(canonical.status());
    const std::string_view key = error->field == "learned.dim"           ? "hidden_size"
                                 : error->field == "learned.padding_row" ? "pad_token_id"
                                                                         : RowsKey(model);
    return model.Blame(model.From(key), *error);
  }
  layer.kind = PositionKind::kLearned;
  layer.positions_from_mask = spec.padding_row.has_value();
  layer.spec = *std::move(canonical);
  out.layers.push_back(std::move(layer));
}

void ReadLearned(const Model& model, ModelEncoding& out) {
  std::vector<Note> defaults;
  LearnedSpec spec;
  spec.num_positions = Positions(model, defaults);
  switch (model.family->learned) {
    case LearnedRule::kUnknown:
      out.layers.push_back(Unserved(model, "", "learned"));
      return;
    case LearnedRule::kPlain:
      break;
    case LearnedRule::kPadding:
      spec.padding_row = PaddingIndex(model, defaults);
      spec.position_offset = *spec.padding_row + 1;
      break;
    case LearnedRule::kTwoMoreMasked:
      spec.padding_row = 1;
      [[fallthrough]];
    case LearnedRule::kTwoMore:
      spec.position_offset = 2;
      if (spec.num_positions != 0) spec.num_positions += 2;
      break;
    case LearnedRule::kImage:
      spec.position_offset = model.family->extra_rows;
      [[fallthrough]];
    case LearnedRule::kImageFirst: {
      const int64_t patches = Patches(model, defaults);
      spec.num_positions = patches == 0 ? 0 : patches + model.family->extra_rows;
      break;
    }
  }
  AddLearned(model, "", spec, out);
  for (LayerEncoding& layer : out.layers) layer.defaults.insert(layer.defaults.end(), defaults.begin(), defaults.end());
}

}  // namespace phasor::server
