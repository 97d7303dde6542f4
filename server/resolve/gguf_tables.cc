#include "server/resolve/gguf_tables.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "kernels/encodings/spec_check.h"
#include "server/text.h"

namespace phasor::server {
namespace {

constexpr std::string_view kTable = "position_embd.weight";
constexpr std::string_view kImageTable = "v.position_embd.weight";
constexpr std::string_view kSoundTable = "a.position_embd.weight";
constexpr int64_t kMaxWidth = int64_t{1} << 20;
constexpr int64_t kMaxBuckets = 65536;
constexpr int64_t kMaxPixels = int64_t{1} << 20;

// Rows and columns of a tensor: ggml lists the fastest extent first.
std::pair<int64_t, int64_t> Shape(const GgufTensorInfo& info) {
  const uint64_t columns = info.dims[0];
  if (columns == 0 || columns > kMaxWidth || info.elements / columns >= (uint64_t{1} << 31)) return {0, 0};
  return {static_cast<int64_t>(info.elements / columns), static_cast<int64_t>(columns)};
}

// `path` is blamed for what cannot be.
void SetSpec(const GgufKeys& keys, const EncodingSpec& spec, PositionKind kind, const std::string& path,
             LayerEncoding& layer) {
  auto canonical = Canonicalize(spec);
  if (!canonical.ok()) {
    const auto error = SpecErrorOf(canonical.status());
    return keys.problems().Fail(path, error ? error->given : "", error ? error->allowed : "");
  }
  layer.kind = kind;
  layer.spec = *std::move(canonical);
}

void SetTable(const GgufKeys& keys, std::string_view tensor, std::pair<int64_t, int64_t> shape, int64_t offset,
              LayerEncoding& layer) {
  LearnedSpec spec;
  std::tie(spec.num_positions, spec.dim) = shape;
  spec.position_offset = offset;
  layer.weights = {{"table", {shape.first, shape.second}, std::string(tensor), false}};
  SetSpec(keys, spec, PositionKind::kLearned, std::string(tensor), layer);
}

// ---- Towers

enum class TowerRotation : uint8_t {
  kNone,
  kResetHalfSplit,    // rows, then columns, with the same frequencies; pairs (i, i + d/2)
  kSplitInterleaved,  // rows take every second frequency, columns the others; pairs (2i, 2i + 1)
  kOther,             // two axes in an arrangement of its own
};

struct Projector {
  std::string_view name;  // clip.projector_type
  TowerRotation rotation;
};

// llama.cpp tools/mtmd/models. Every other projector's tower has a table alone.
constexpr Projector kProjectors[] = {
    {"qwen2vl_merger", TowerRotation::kResetHalfSplit},
    {"qwen2.5vl_merger", TowerRotation::kResetHalfSplit},
    {"qwen2.5o", TowerRotation::kResetHalfSplit},
    {"qwen3vl_merger", TowerRotation::kResetHalfSplit},
    {"pixtral", TowerRotation::kSplitInterleaved},
    {"lightonocr", TowerRotation::kSplitInterleaved},
    {"glm4v", TowerRotation::kOther},
    {"dots_ocr", TowerRotation::kOther},
    {"gemma4v", TowerRotation::kOther},
    {"kimivl", TowerRotation::kOther},
    {"kimik25", TowerRotation::kOther},
    {"llama4", TowerRotation::kOther},
    {"paddleocr", TowerRotation::kOther},
    {"step3vl", TowerRotation::kOther},
    {"youtuvl", TowerRotation::kOther},
    {"lfm2a", TowerRotation::kOther},
    {"parakeet", TowerRotation::kOther},
    {"gemma4a", TowerRotation::kOther},
};

struct Tower {
  std::string_view part;   // "vision", "audio"
  std::string_view table;  // tensor
};

std::string ProjectorOf(const GgufKeys& keys, const Tower& tower) {
  const auto own = keys.String(Cat(tower.part, ".projector_type"));
  return own ? *own : keys.String("projector_type").value_or("mlp");
}

LayerEncoding TowerLayer(const GgufKeys& keys, const Tower& tower, std::string_view name) {
  LayerEncoding layer;
  layer.part = tower.part;
  layer.layer_type = name.empty() ? std::string(tower.part) : Cat(tower.part, ".", name);
  layer.num_q_heads = layer.num_kv_heads = keys.Integer(Cat(tower.part, ".attention.head_count"), 1, kMaxHeads).value_or(0);
  return layer;
}

void AddRotation(const GgufKeys& keys, const Tower& tower, TowerRotation rotation, ModelEncoding& out) {
  LayerEncoding layer = TowerLayer(keys, tower, "");
  if (rotation == TowerRotation::kOther) {
    layer.kind = PositionKind::kUnserved;
    layer.unserved = Cat(tower.part, "_", ProjectorOf(keys, tower));
    out.layers.push_back(std::move(layer));
    return;
  }
  const std::string width_key = Cat(tower.part, ".embedding_length");
  const int64_t width = keys.Integer(width_key, 1, kMaxWidth).value_or(0);
  if (!keys.problems().ok()) return;
  if (width == 0 || layer.num_q_heads == 0) {
    return keys.problems().Fail(keys.PathOf(width == 0 ? width_key : Cat(tower.part, ".attention.head_count")), "nothing",
                                "a whole number: it says how wide a head is");
  }
  RopeSpec spec;
  spec.head_dim = width / layer.num_q_heads;
  const int64_t pairs = spec.head_dim / 4;  // of one axis
  const bool split = rotation == TowerRotation::kSplitInterleaved;
  spec.rotary_dim = 4 * pairs;
  spec.base = 10000;
  spec.pairing = split ? Pairing::kInterleaved : Pairing::kHalfSplit;
  spec.axes = RopeAxes{{pairs, pairs}, split ? AxisLayout::kSplitFrequencies : AxisLayout::kReset};
  const std::string path = keys.PathOf(width_key);
  layer.defaults.push_back({path, "base 10000 (of the architecture, which no key says)"});
  if (split) {
    layer.warnings.push_back({path,
                              "pairing interleaved is that of this file's weights: writing it turned the rows of q and k, "
                              "which are half-split in the model's own checkpoint"});
  }
  SetSpec(keys, spec, PositionKind::kRope, path, layer);
  out.layers.push_back(std::move(layer));
}

// Rows beyond the image's patches, class tokens, come first.
int64_t ClassTokens(const GgufKeys& keys, const Tower& tower, int64_t rows) {
  const int64_t image = keys.Integer(Cat(tower.part, ".image_size"), 1, kMaxPixels).value_or(0);
  const int64_t patch = keys.Integer(Cat(tower.part, ".patch_size"), 1, kMaxPixels).value_or(0);
  if (image == 0 || patch == 0) return 0;
  const int64_t beyond = rows - (image / patch) * (image / patch);
  constexpr int64_t kMost = 16;
  return beyond > 0 && beyond <= kMost ? beyond : 0;
}

}  // namespace

bool GgufIsTable(std::string_view tensor) { return tensor == kTable || tensor == kImageTable || tensor == kSoundTable; }

void ReadGgufTable(const GgufContext& model, LayerEncoding& layer) {
  const GgufKeys& keys = model.keys;
  std::pair<int64_t, int64_t> shape{0, 0};
  if (const GgufTensorInfo* info = keys.head().FindTensor(kTable)) {
    shape = Shape(*info);
  } else {
    shape = {keys.Integer("context_length", 0, kMaxLength).value_or(0),
             keys.Integer("embedding_length", 1, kMaxWidth).value_or(0)};
    layer.defaults.push_back(
        {std::string(kTable), Cat("[", shape.first, ", ", shape.second,
                                  "] (context_length and embedding_length: the head lists no such tensor)")});
  }
  if (!keys.problems().ok()) return;
  if (shape.first == 0 || shape.second == 0) {
    return keys.problems().Fail(std::string(kTable), "nothing", "this tensor, or context_length and embedding_length");
  }
  SetTable(keys, kTable, shape, 0, layer);
  if (model.architecture.name == "bert") {
    layer.warnings.push_back({std::string(kTable),
                              "position m reads row m: where the model's own table begins at padding index + 1 (RoBERTa), "
                              "writing the file left the rows before that out"});
  }
}

void ReadGgufBuckets(const GgufContext& model, const GgufGroup& group, LayerEncoding& layer) {
  const GgufKeys& keys = model.keys;
  constexpr std::string_view kKey = "attention.relative_buckets_count";
  constexpr int64_t kDistance = 128;
  T5BucketSpec spec;
  spec.num_buckets = keys.Integer(kKey, 1, kMaxBuckets);
  if (!spec.num_buckets) {
    spec.num_buckets = 32;
    layer.defaults.push_back({keys.PathOf(kKey), "32 (of every published model); llama.cpp refuses a file without it"});
  }
  spec.max_distance = kDistance;
  spec.bidirectional = group.name != "decoder";
  spec.num_heads = layer.num_q_heads;
  if (!keys.problems().ok()) return;
  if (spec.num_heads == 0) {
    return keys.problems().Fail(keys.PathOf("attention.head_count"), "nothing", Cat("a whole number, 1 … ", kMaxHeads));
  }
  layer.defaults.push_back({keys.PathOf(kKey), "max_distance 128 (no key says it)"});
  layer.warnings.push_back(
      {keys.PathOf(kKey),
       "the file does not keep relative_attention_max_distance, and llama.cpp counts 128 in any case: a "
       "model that was trained with another distance is read wrongly there"});
  const std::string side = group.name == "decoder" ? "dec" : "enc";
  layer.weights = {{"table",
                    {*spec.num_buckets, spec.num_heads},
                    Cat(side, ".blk.N.attn_rel_b.weight of each layer, or of layer 0 where others have none (T5)"),
                    false}};
  SetSpec(keys, spec, PositionKind::kBias, keys.PathOf(kKey), layer);
}

void ReadGgufTowers(const GgufContext& model, ModelEncoding& out) {
  const GgufKeys& keys = model.keys;
  for (const Tower& tower : {Tower{"vision", kImageTable}, Tower{"audio", kSoundTable}}) {
    const GgufTensorInfo* info = keys.head().FindTensor(tower.table);
    const bool there = keys.Bool(Cat("has_", tower.part, "_encoder")).value_or(info != nullptr);
    if (!there || !keys.problems().ok()) continue;
    const std::string projector = ProjectorOf(keys, tower);
    const auto* known = std::find_if(std::begin(kProjectors), std::end(kProjectors),
                                     [&](const Projector& each) { return each.name == projector; });
    const bool rotates = known != std::end(kProjectors) && known->rotation != TowerRotation::kNone;
    if (rotates) AddRotation(keys, tower, known->rotation, out);
    if (!keys.problems().ok()) return;
    if (info != nullptr) {
      LayerEncoding layer = TowerLayer(keys, tower, rotates ? "embedding" : "");
      const auto shape = Shape(*info);
      SetTable(keys, tower.table, shape, ClassTokens(keys, tower, shape.first), layer);
      out.layers.push_back(std::move(layer));
    } else if (!rotates) {
      LayerEncoding layer = TowerLayer(keys, tower, "");
      layer.kind = PositionKind::kUnserved;
      layer.unserved = tower.part;
      layer.warnings.push_back({std::string(tower.table), "not in the head: nothing says how large the table is"});
      out.layers.push_back(std::move(layer));
    }
  }
}

}  // namespace phasor::server
