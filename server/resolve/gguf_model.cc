#include "server/resolve/gguf_model.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "kernels/encodings/spec_check.h"
#include "server/resolve/family.h"
#include "server/resolve/gguf_rope.h"
#include "server/resolve/gguf_tables.h"
#include "server/text.h"

namespace phasor::server {
namespace {

constexpr std::string_view kFreqs = "rope_freqs.weight";
constexpr std::string_view kLong = "rope_factors_long.weight";
constexpr std::string_view kShort = "rope_factors_short.weight";
constexpr GgufArchitecture kUnknown{.name = ""};
constexpr int kMostUnread = 16;

// "blk.7.rope_freqs.weight" → "rope_freqs.weight".
std::string_view WithoutLayer(std::string_view tensor) {
  constexpr std::string_view kBlock = "blk.";
  if (!tensor.starts_with(kBlock)) return tensor;
  const size_t dot = tensor.find('.', kBlock.size());
  const std::string_view number = tensor.substr(kBlock.size(), dot == tensor.npos ? 0 : dot - kBlock.size());
  const bool digits =
      !number.empty() && std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits ? tensor.substr(dot + 1) : tensor;
}

// The data of the tensors of one kind, whole-model or per layer; those must agree.
std::vector<double> ReadFactors(const GgufHead& head, std::span<const GgufTensor> tensors, std::string_view kind,
                                Problems& problems) {
  std::vector<double> factors;
  for (const GgufTensorInfo& info : head.tensors) {
    if (WithoutLayer(info.name) != kind || !problems.ok()) continue;
    const std::string name = GgufPrintable(info.name);
    const auto data = std::find_if(tensors.begin(), tensors.end(), [&](const GgufTensor& t) { return t.name == info.name; });
    if (data == tensors.end()) {
      problems.Fail(name, "nothing", "the data of this tensor, which decides positions");
      return {};
    }
    if (data->values.size() != info.elements || info.elements > kMaxHeadDim) {
      problems.Fail(name, Cat(data->values.size(), " values"), Cat(info.elements, ", as listed, and at most ", kMaxHeadDim));
      return {};
    }
    for (size_t i = 0; i < data->values.size(); ++i) {
      const float value = data->values[i];
      if (value > 0 && std::isfinite(value)) continue;
      problems.Fail(Cat(name, "[", i, "]"), std::isnan(value) ? "NaN" : FormatFloat(value), "a finite number > 0");
      return {};
    }
    const std::vector<double> values(data->values.begin(), data->values.end());
    if (!factors.empty() && values != factors) problems.Fail(name, "other values than another layer's", "the same ones");
    factors = values;
  }
  return factors;
}

// Data of tensors that the head does not list, or twice the same: whoever sends it means it to count.
void CheckTensors(const GgufHead& head, std::span<const GgufTensor> tensors, Problems& problems) {
  std::set<std::string_view> names;
  for (const GgufTensor& tensor : tensors) {
    const std::string name = GgufPrintable(tensor.name);
    if (head.FindTensor(tensor.name) == nullptr) {
      problems.Fail(name, "data of a tensor that the header does not list", "tensors of the header");
    } else if (!names.insert(tensor.name).second) {
      problems.Fail(name, "the same tensor twice", "each tensor once");
    } else if (!GgufDecidesPositions(tensor.name)) {
      problems.Warn(name, "data not read: positions do not depend on it");
    }
    if (!problems.ok()) return;
  }
}

void FillFacts(const GgufContext& model, const GgufGroup& group, LayerEncoding& layer) {
  const GgufKeys& keys = model.keys;
  layer.layer_type = group.name;
  layer.layers = group.layers;
  layer.defaults = group.defaults;
  const GgufHeads heads = GgufHeadsOf(keys, group, layer.warnings);
  layer.num_q_heads = heads.query;
  layer.num_kv_heads = heads.key_value;
  if (heads.query != 0 && heads.key_value != 0 && heads.query % heads.key_value != 0) {
    layer.warnings.push_back(
        {keys.PathOf("attention.head_count_kv"),
         Cat(heads.key_value, " does not divide the ", heads.query, " query heads: no model has groups of that size")});
  }
  layer.max_position = keys.Integer("context_length", 0, kMaxLength).value_or(0);
}

// The factor on q·k that the architecture or a key decides.
void FillSoftmax(const GgufContext& model, const GgufGroup& group, LayerEncoding& layer) {
  const GgufKeys& keys = model.keys;
  const auto given = keys.Number("attention.scale");
  if (given && *given != 0) {
    layer.softmax_scale = given;
    return;
  }
  switch (model.architecture.softmax) {
    case GgufSoftmax::kOne:
      layer.softmax_scale = 1;
      break;
    case GgufSoftmax::kGrok:
      layer.softmax_scale = keys.Number("attention.output_scale");
      break;
    case GgufSoftmax::kExplicit: {
      std::vector<Note> ignored;
      double width = static_cast<double>(GgufHeadDim(model, group, ignored));
      const int64_t layers = model.architecture.largest_layers;
      const int64_t embedding = keys.Integer("embedding_length", 1, int64_t{1} << 20).value_or(0);
      if (layers != 0 && embedding != 0 && layer.num_q_heads != 0 && keys.Integer("block_count", 0, kMaxLayers) == layers) {
        width = static_cast<double>(embedding / layer.num_q_heads);
        layer.defaults.push_back(
            {keys.PathOf("block_count"), Cat(layers, " layers: the largest model, whose softmax scale is ",
                                             "(embedding_length / attention.head_count)^-0.5")});
      }
      if (width > 0) layer.softmax_scale = InverseSqrt(width);
      break;
    }
    case GgufSoftmax::kHeadDim:
    case GgufSoftmax::kMla:
      break;
  }
}

// Rules that scale q by position. llama.cpp: src/llama-graph.cpp, llm_graph_input_attn_temp.
void FillQueryScale(const GgufContext& model, const GgufGroup& group, LayerEncoding& layer) {
  const GgufKeys& keys = model.keys;
  const bool llama4 = model.architecture.name == "llama4";
  double scale = keys.Number("attention.temperature_scale").value_or(0);
  const std::string_view key =
      keys.FirstOf({"attention.temperature_length", "rope.scaling.original_context_length", "context_length"});
  int64_t length = key.empty() ? 0 : keys.Integer(key, 0, kMaxLength).value_or(0);
  if (llama4) {
    if (group.name != "nope_layers") return;
    scale = 0.1;
    length = 8192;
    layer.defaults.push_back(
        {keys.PathOf("attention.temperature_scale"), "0.1, with length 8192 (of the architecture, which no key says)"});
  }
  if (scale < 0) {
    return keys.problems().Fail(keys.PathOf("attention.temperature_scale"), FormatFloat(scale),
                                "a finite number, at least 0");
  }
  if (scale == 0 || length == 0) return;
  layer.query_scale =
      Cat("1 + ", FormatFloat(scale), "*ln(1 + floor(", llama4 ? "(position+1)/" : "position/", length, "))");
  layer.query_scale_rule = QueryScaleRule{QueryScaleRule::Kind::kFloor, scale, length, llama4 ? 1 : 0};
}

void ReadAlibi(const GgufContext& model, LayerEncoding& layer) {
  constexpr std::string_view kBias = "attention.max_alibi_bias";
  const GgufKeys& keys = model.keys;
  AlibiSpec spec;
  spec.num_heads = layer.num_q_heads;
  spec.max_bias = keys.Number(kBias);
  if (!spec.max_bias) {
    spec.max_bias = 8;
    layer.defaults.push_back({keys.PathOf(kBias), "8 (default of the architecture)"});
  }
  const bool causal = keys.Bool("attention.causal").value_or(model.architecture.name != "jina-bert-v2");
  spec.form = causal ? AlibiForm::kCausal : AlibiForm::kSymmetric;
  auto canonical = Canonicalize(spec);
  if (!canonical.ok()) {
    const auto error = SpecErrorOf(canonical.status());
    const std::string_view key = error && error->field == "alibi.max_bias" ? kBias : "attention.head_count";
    keys.problems().Fail(keys.PathOf(key), error ? error->given : "", error ? error->allowed : "");
    return;
  }
  layer.kind = PositionKind::kAlibi;
  layer.spec = *std::move(canonical);
}

// What an architecture that is not in the table most likely has.
GgufPositions Guess(const GgufKeys& keys) {
  if (keys.Number("attention.max_alibi_bias").value_or(0) > 0) return GgufPositions::kAlibi;
  if (keys.Has("attention.relative_buckets_count")) return GgufPositions::kBuckets;
  if (!keys.FirstOf({"rope.freq_base", "rope.dimension_count"}).empty()) return GgufPositions::kRope;
  if (keys.head().FindTensor("position_embd.weight") != nullptr) return GgufPositions::kLearned;
  return keys.Has("attention.head_count") ? GgufPositions::kUnknown : GgufPositions::kNone;
}

GgufPositions PositionsOf(const GgufContext& model) {
  const GgufKeys& keys = model.keys;
  if (!model.known) return Guess(keys);
  switch (model.architecture.positions) {
    case GgufPositions::kAlibiByKey:
      return keys.Number("attention.max_alibi_bias").value_or(0) > 0 ? GgufPositions::kAlibi : GgufPositions::kLearned;
    case GgufPositions::kAlibiFrom40Layers:
      return keys.Integer("block_count", 0, kMaxLayers).value_or(0) == 40 ? GgufPositions::kAlibi : GgufPositions::kRope;
    case GgufPositions::kRope:
      // Granite's writers say by this key whether the model rotates at all.
      if (model.architecture.name.starts_with("granite") && !keys.Bool("rope.scaling.finetuned").value_or(true)) {
        return GgufPositions::kNone;
      }
      return GgufPositions::kRope;
    default:
      return model.architecture.positions;
  }
}

LayerEncoding ReadGroup(const GgufContext& model, const GgufGroup& group, GgufPositions positions) {
  LayerEncoding layer;
  FillFacts(model, group, layer);
  FillSoftmax(model, group, layer);
  FillQueryScale(model, group, layer);
  switch (positions) {
    case GgufPositions::kAlibi:
      ReadAlibi(model, layer);
      break;
    case GgufPositions::kLearned:
      ReadGgufTable(model, layer);
      break;
    case GgufPositions::kBuckets:
      ReadGgufBuckets(model, group, layer);
      break;
    case GgufPositions::kNone:
      layer.kind = PositionKind::kNone;
      break;
    case GgufPositions::kUnknown:
      layer.kind = PositionKind::kUnserved;
      layer.unserved = "unknown";
      layer.warnings.push_back({"general.architecture", "unknown, and no key says how it encodes positions"});
      break;
    default:
      if (group.rotates) {
        ReadGgufRope(model, group, layer);
      } else {
        layer.kind = PositionKind::kNone;
      }
  }
  return layer;
}

void ReadGroups(const GgufContext& model, ModelEncoding& out) {
  const GgufKeys& keys = model.keys;
  const GgufPositions positions = PositionsOf(model);
  if (positions == GgufPositions::kVision) return ReadGgufTowers(model, out);
  std::vector<GgufGroup> groups(1);
  if (positions == GgufPositions::kRope || model.architecture.attention != GgufAttention::kAll) {
    groups = GgufGroups(keys, model.architecture);
  }
  if (positions == GgufPositions::kBuckets) {
    groups.front().name = "encoder";
    if (model.architecture.name != "t5encoder") {
      groups.push_back({});
      groups.back().name = "decoder";
    }
  }
  for (const GgufGroup& group : groups) {
    if (!keys.problems().ok()) return;
    out.layers.push_back(ReadGroup(model, group, positions));
  }
}

// Keys about positions that nothing here reads: misspelt, or of another program.
void WarnUnread(const GgufKeys& keys) {
  constexpr std::string_view kRead[] = {"dimension_count",
                                        "dimension_count_swa",
                                        "dimension_sections",
                                        "freq_base",
                                        "freq_base_swa",
                                        "scale_linear",
                                        "scaling.type",
                                        "scaling.factor",
                                        "scaling.alpha",
                                        "scaling.attn_factor",
                                        "scaling.original_context_length",
                                        "scaling.finetuned",
                                        "scaling.yarn_log_multiplier",
                                        "scaling.yarn_ext_factor",
                                        "scaling.yarn_attn_factor",
                                        "scaling.yarn_beta_fast",
                                        "scaling.yarn_beta_slow"};
  const std::string prefix = keys.PathOf("rope.");
  int unread = 0;
  for (const GgufEntry& entry : keys.head().entries) {
    if (!entry.key.starts_with(prefix)) continue;
    const std::string_view rest = entry.key.substr(prefix.size());
    if (std::find(std::begin(kRead), std::end(kRead), rest) != std::end(kRead)) continue;
    if (++unread <= kMostUnread) keys.problems().Warn(GgufPrintable(entry.key), "not read");
  }
  if (unread > kMostUnread) keys.problems().Warn(prefix, Cat(unread - kMostUnread, " more keys are not read"));
}

// Keys that other architectures have and this one does not look at.
void WarnUnused(const GgufContext& model, const ModelEncoding& out) {
  const GgufKeys& keys = model.keys;
  const auto any = [&](auto holds) { return std::any_of(out.layers.begin(), out.layers.end(), holds); };
  const auto warn = [&](std::string_view key, std::string_view why) {
    if (keys.Has(key)) keys.problems().Warn(keys.PathOf(key), Cat("not read: ", why));
  };
  const bool alibi = any([](const LayerEncoding& layer) { return layer.kind == PositionKind::kAlibi; });
  constexpr std::string_view kBias = "attention.max_alibi_bias";
  const GgufEntry* bias = keys.head().Find(keys.PathOf(kBias));
  const bool none = bias != nullptr && bias->value.type == GgufType::kFloat32 &&
                    bias->value.bytes.find_first_not_of('\0') == std::string_view::npos;
  if (!alibi && !none) warn(kBias, "this architecture has no ALiBi");
  const bool typed = any([](const LayerEncoding& layer) {
    return layer.layer_type == "sliding_attention" || layer.layer_type == "full_attention";
  });
  if (!typed) {
    for (const std::string_view key :
         {"attention.sliding_window_pattern", "rope.freq_base_swa", "rope.dimension_count_swa"}) {
      warn(key, "no layers of this architecture differ by their window");
    }
  }
  if (model.architecture.axes == GgufAxes::kOne) {
    warn("rope.dimension_sections", "this architecture rotates by one position");
  }
}

void WarnAboutFile(const GgufContext& model, const std::string& name) {
  Problems& problems = model.keys.problems();
  if (!model.known) {
    problems.Warn("general.architecture", Cat("\"", GgufPrintable(name), "\" is unknown: read by its keys"));
  } else if (!model.architecture.llama_cpp_reads_it) {
    problems.Warn("general.architecture", "llama.cpp knows the name but does not compute this architecture");
  }
  if (const GgufEntry* parts = model.keys.head().Find("split.count")) {
    if (parts->value.type != GgufType::kUint16 || parts->value.bytes != std::string_view("\1\0", 2)) {
      problems.Warn("split.count", "one of several parts: tensors of the other parts are not seen");
    }
  }
  WarnUnread(model.keys);
}

}  // namespace

bool GgufDecidesPositions(std::string_view tensor) {
  const std::string_view kind = WithoutLayer(tensor);
  return kind == kFreqs || kind == kLong || kind == kShort;
}

std::string CompactGgufHead(const GgufHead& head) {
  return RewriteGgufHead(
      head, [](const GgufEntry& entry) { return !entry.key.starts_with("tokenizer."); },
      [](const GgufTensorInfo& tensor) { return GgufIsTable(tensor.name) || GgufDecidesPositions(tensor.name); });
}

absl::StatusOr<ModelEncoding> ReadGguf(std::string_view bytes, std::span<const GgufTensor> tensors) {
  const auto head = ParseGgufHead(bytes);
  if (!head.ok()) return head.status();
  Problems problems;
  constexpr size_t kLongestName = 64;
  const std::string name = GgufString(*head, "general.architecture", kLongestName, problems).value_or("");
  if (problems.ok() && name.empty()) problems.Fail("general.architecture", "nothing", "the architecture's name");
  const GgufArchitecture* known = FindGgufArchitecture(name);
  const GgufKeys keys(*head, name, &problems);
  GgufContext model{keys, known ? *known : kUnknown, known != nullptr, {}};
  if (problems.ok()) CheckTensors(*head, tensors, problems);
  if (problems.ok()) model.factors.freqs = ReadFactors(*head, tensors, kFreqs, problems);
  if (problems.ok()) model.factors.long_factors = ReadFactors(*head, tensors, kLong, problems);
  if (problems.ok()) model.factors.short_factors = ReadFactors(*head, tensors, kShort, problems);
  ModelEncoding out;
  out.model_type = GgufPrintable(name);
  if (problems.ok()) ReadGroups(model, out);
  if (!problems.ok()) return problems.status();
  WarnAboutFile(model, name);
  WarnUnused(model, out);
  out.warnings = problems.TakeWarnings();
  return out;
}

}  // namespace phasor::server
