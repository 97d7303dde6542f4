#include "server/warm.h"

#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "google/protobuf/util/json_util.h"
#include "phasor/v1/encoding.pb.h"

#include "kernels/encodings/encoding.h"
#include "server/resolve/model_config.h"
#include "server/spec_parser.h"
#include "server/text.h"

namespace phasor::server {
namespace {

struct WarmOptions {
  DType dtype = DType::kF32;
  int64_t positions = 0;
  std::optional<int64_t> length;
  std::string layer_type;
};

absl::Status Bad(std::string_view what, std::string_view allowed) {
  return absl::InvalidArgumentError(Cat("--warm: ", what, "; allowed: ", allowed));
}

absl::Status SetOption(std::string_view key, std::string_view value, int64_t max_positions, WarmOptions* options) {
  if (key == "dtype") {
    for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
      if (value == Name(dtype)) {
        options->dtype = dtype;
        return absl::OkStatus();
      }
    }
    return Bad(Cat("dtype=", value), "f64, f32, f16, bf16");
  }
  if (key == "positions") {
    if (!absl::SimpleAtoi(ToAbsl(value), &options->positions) || options->positions < 1 ||
        options->positions > max_positions) {
      return Bad(Cat("positions=", value), Cat("1 to ", max_positions));
    }
    return absl::OkStatus();
  }
  if (key == "length") {
    int64_t length = 0;
    if (!absl::SimpleAtoi(ToAbsl(value), &length) || length < 1) return Bad(Cat("length=", value), "1 or more");
    options->length = length;
    return absl::OkStatus();
  }
  options->layer_type = value;
  return absl::OkStatus();
}

// Cuts "key=value," pieces off the front of `value`; what is left is the source.
absl::StatusOr<WarmOptions> CutOptions(std::string_view* value, int64_t max_positions) {
  WarmOptions options;
  for (;;) {
    std::string_view key;
    for (const std::string_view known : {"dtype", "positions", "length", "layer_type"}) {
      if (absl::StartsWith(ToAbsl(*value), Cat(known, "="))) key = known;
    }
    if (key.empty()) return options;
    const size_t comma = value->find(',');
    if (comma == std::string_view::npos) return Bad(Cat("nothing after ", *value), "a source after the options");
    const std::string_view text = value->substr(key.size() + 1, comma - key.size() - 1);
    if (absl::Status status = SetOption(key, text, max_positions, &options); !status.ok()) return status;
    value->remove_prefix(comma + 1);
  }
}

absl::StatusOr<WarmTable> MakeTable(CanonicalSpec spec, const WarmOptions& options, int64_t model_maximum,
                                    int64_t max_positions, std::string label) {
  WarmTable table;
  table.label = std::move(label);
  table.dtype = options.dtype;
  table.rows = options.positions > 0 ? options.positions : std::min(model_maximum, max_positions);
  if (table.rows < 1) {
    return Bad(Cat(table.label, " does not say how many positions it has"), "positions=N, before the source");
  }
  if (SchemeOf(spec.spec).needs_sequence_length) {
    if (!options.length) return Bad(Cat(table.label, " depends on the sequence length"), "length=N, before the source");
    table.source.sequence_length = options.length;
  }
  table.source.spec = std::move(spec);
  return table;
}

absl::StatusOr<std::vector<WarmTable>> FromSpec(std::string_view json, const WarmOptions& options, int64_t max_positions) {
  v1::EncodingSpec message;
  const auto parsed =
      google::protobuf::util::JsonStringToMessage(google::protobuf::StringPiece(json.data(), json.size()), &message);
  if (!parsed.ok()) {
    return Bad(Cat("this is no EncodingSpec as JSON (", std::string(parsed.message()), ")"),
               "{\"rope\":{\"head_dim\":128,\"base\":500000}} and the like");
  }
  auto canonical = CanonicalFromProto(message);
  if (!canonical.ok()) return Bad(ToStd(canonical.status().message()), "a spec that Precompute takes");
  if (SchemeOf(canonical->spec).family != "angle") return std::vector<WarmTable>();
  auto table = MakeTable(*std::move(canonical), options, 0, max_positions, std::string(SchemeOf(canonical->spec).name));
  if (!table.ok()) return table.status();
  return std::vector<WarmTable>{*std::move(table)};
}

absl::StatusOr<std::vector<WarmTable>> FromConfig(const std::string& path, const WarmOptions& options,
                                                  int64_t max_positions) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    return absl::NotFoundError(
        Cat("--warm: cannot read ", path, "; allowed: the path of a config.json, or an EncodingSpec as JSON"));
  }
  auto model = ReadModelConfig(text.str());
  if (!model.ok()) return Bad(Cat(path, ": ", model.status().message()), "a model's config.json");
  std::vector<WarmTable> tables;
  bool found = options.layer_type.empty();
  for (LayerEncoding& layer : model->layers) {
    if (!options.layer_type.empty() && layer.layer_type != options.layer_type) continue;
    found = true;
    if (!layer.spec || SchemeOf(layer.spec->spec).family != "angle") continue;
    std::string label = layer.layer_type.empty() ? path : Cat(path, " (", layer.layer_type, ")");
    auto table = MakeTable(*std::move(layer.spec), options, layer.max_position, max_positions, std::move(label));
    if (!table.ok()) return table.status();
    tables.push_back(*std::move(table));
  }
  if (!found) {
    std::string types;
    for (const LayerEncoding& layer : model->layers) Append(&types, types.empty() ? "" : ", ", layer.layer_type);
    return Bad(Cat("layer_type=", options.layer_type), types.empty() ? "none: the model has a single schedule" : types);
  }
  return tables;
}

}  // namespace

absl::StatusOr<std::vector<WarmTable>> ReadWarmValue(std::string_view value, int64_t max_positions) {
  value = ToStd(absl::StripAsciiWhitespace(ToAbsl(value)));
  const auto options = CutOptions(&value, max_positions);
  if (!options.ok()) return options.status();
  if (value.empty()) return Bad("no source", "the path of a config.json, or an EncodingSpec as JSON");
  if (value.front() == '{') return FromSpec(value, *options, max_positions);
  return FromConfig(std::string(value), *options, max_positions);
}

}  // namespace phasor::server
