#include "client/cli/spec_arg.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/util/json_util.h"

#include "client/cli/array_file.h"
#include "client/cli/gguf_file.h"
#include "client/cli/weight_arg.h"

namespace phasor::cli {
namespace {

using google::protobuf::OneofDescriptor;

constexpr int64_t kMaxSpecBytes = 64 << 20;

bool LooksLikeFile(const std::string& token) {
  return token == "-" || absl::StrContains(token, '/') || absl::EndsWith(token, ".json") || absl::EndsWith(token, ".gguf") ||
         std::filesystem::exists(token);
}

// What SPEC's file or inline text holds: the text of JSON, or a GGUF file's head.
struct SpecSource {
  std::string text;
  std::optional<v1::GgufHeader> gguf;
};

absl::StatusOr<SpecSource> ReadSource(const SpecArg& argument) {
  const std::string& first = argument.tokens.front();
  SpecSource source;
  if (!first.empty() && first.front() == '{') {
    source.text = first;
    return source;
  }
  if (IsGgufFile(first)) {
    absl::StatusOr<v1::GgufHeader> gguf = ReadGgufFile(first);
    if (!gguf.ok()) return gguf.status();
    source.gguf = *std::move(gguf);
    return source;
  }
  absl::StatusOr<std::string> text = ReadWhole(first, kMaxSpecBytes);
  if (!text.ok()) return text.status();
  if (absl::StartsWith(*text, "GGUF")) {  // through a pipe
    absl::StatusOr<v1::GgufHeader> gguf = ReadGgufBytes(*text, first);
    if (!gguf.ok()) return gguf.status();
    source.gguf = *std::move(gguf);
    return source;
  }
  source.text = *std::move(text);
  return source;
}

v1::ResolveModelRequest RequestFor(SpecSource source, const SpecArg& argument) {
  v1::ResolveModelRequest request;
  if (source.gguf) {
    *request.mutable_gguf() = *std::move(source.gguf);
  } else {
    request.set_config_json(std::move(source.text));
  }
  request.set_layer_type(argument.layer_type);
  if (argument.length) request.set_sequence_length(*argument.length);
  return request;
}

// An EncodingSpec names its scheme at the top; a configuration never has exactly one of these keys.
bool ParseAsSpec(const std::string& text, v1::EncodingSpec* spec, std::string* error) {
  const auto status = google::protobuf::util::JsonStringToMessage(text, spec);
  *error = status.ok() ? "it sets no scheme" : std::string(status.message());
  return status.ok() && spec->scheme_case() != v1::EncodingSpec::SCHEME_NOT_SET;
}

bool NamesAScheme(std::string_view text) {
  // The first key of the object.
  const size_t open = text.find('"');
  if (open == std::string_view::npos) return false;
  const size_t close = text.find('"', open + 1);
  const std::string_view key = text.substr(open + 1, close - open - 1);
  const OneofDescriptor* schemes = v1::EncodingSpec::descriptor()->FindOneofByName("scheme");
  for (int i = 0; i < schemes->field_count(); ++i) {
    if (key == schemes->field(i)->name() || key == schemes->field(i)->json_name()) return true;
  }
  return false;
}

absl::StatusOr<const v1::ResolvedLayer*> ChooseLayer(const v1::ResolveModelResponse& model, const std::string& name,
                                                     Tool& tool) {
  std::vector<const v1::ResolvedLayer*> with_numbers;
  std::vector<std::string> types;
  for (const v1::ResolvedLayer& layer : model.layers()) {
    if (layer.has_spec()) with_numbers.push_back(&layer);
    types.push_back(layer.layer_type());
  }
  if (with_numbers.empty()) {
    std::vector<std::string> kinds;
    for (const v1::ResolvedLayer& layer : model.layers()) {
      const std::string what = layer.kind() == v1::POSITION_KIND_NONE
                                   ? "no position encoding"
                                   : absl::StrCat(layer.unserved(), " (not served by this version)");
      kinds.push_back(layer.layer_type().empty() ? what : absl::StrCat(layer.layer_type(), ": ", what));
    }
    return absl::FailedPreconditionError(absl::StrCat(name, " has no encoding to compute: ", absl::StrJoin(kinds, "; ")));
  }
  // Towers and other parts have names; the language model of a single schedule has none.
  const auto own = std::find_if(with_numbers.begin(), with_numbers.end(),
                                [](const v1::ResolvedLayer* layer) { return layer->layer_type().empty(); });
  if (own != with_numbers.end()) with_numbers = {*own};
  // Layer types that differ in other things than positions (attention windows, say) are one for this purpose.
  const std::string first = with_numbers[0]->spec().SerializeAsString();
  const bool one_spec = std::all_of(with_numbers.begin(), with_numbers.end(), [&](const v1::ResolvedLayer* layer) {
    return layer->spec().SerializeAsString() == first;
  });
  if (!one_spec) {
    return UsageError(
        absl::StrCat(name, " has several layer types; give --layer-type with one of: ", absl::StrJoin(types, ", ")));
  }
  if (model.layers_size() > 1 && with_numbers.size() == 1)
    tool.Say(absl::StrCat(name, ": using layer type ", with_numbers[0]->layer_type(), ", the only one with numbers"));
  for (const v1::Warning& warning : model.warnings())
    tool.Say(absl::StrCat("warning: ", warning.field(), ": ", warning.message()));
  for (const v1::Warning& warning : with_numbers[0]->warnings())
    tool.Say(absl::StrCat("warning: ", warning.field(), ": ", warning.message()));
  return with_numbers[0];
}

}  // namespace

void SpecArg::AddTo(CLI::App& command) {
  command
      .add_option("SPEC", tokens,
                  "A model's config.json or .gguf file (a path, or - for standard input), an EncodingSpec as JSON (a path "
                  "or inline), or "
                  "a scheme's "
                  "name with key=value pairs: rope_yarn head_dim=128 base=1e6 factor=4 original_max_position=32768")
      ->required();
  command.add_option("--layer-type", layer_type, "Which of a model's layer types, as `phasor resolve` names them");
  command.add_option("--weight", weights, "Learned numbers, NAME=FILE with one array; may be given several times")
      ->allow_extra_args(false);
  command.add_option("--length", length, "Sequence length, for schemes that depend on it (dynamic NTK, LongRoPE, Qwen 1)");
}

absl::StatusOr<v1::ResolveModelRequest> LoadConfig(const SpecArg& argument) {
  if (argument.tokens.size() != 1) return UsageError("CONFIG: allowed: one path, - or inline JSON");
  absl::StatusOr<SpecSource> source = ReadSource(argument);
  if (!source.ok()) return source.status();
  return RequestFor(*std::move(source), argument);
}

namespace {

absl::StatusOr<LoadedSpec> LoadWithoutWeights(const SpecArg& argument, Tool& tool) {
  const std::string& first = argument.tokens.front();
  LoadedSpec loaded;
  loaded.name = first;
  loaded.sequence_length = argument.length;
  if (first.empty() || (first.front() != '{' && !LooksLikeFile(first))) {
    auto spec = SpecFromPairs(argument.tokens);
    if (!spec.ok()) return spec.status();
    loaded.spec = *std::move(spec);
    return loaded;
  }
  if (argument.tokens.size() != 1)
    return UsageError(absl::StrCat("SPEC: given '", argument.tokens[1], "' after a file; allowed: nothing"));
  absl::StatusOr<SpecSource> source = ReadSource(argument);
  if (!source.ok()) return source.status();
  if (first.front() == '{') loaded.name = "SPEC";
  std::string error;
  if (NamesAScheme(source->text)) {
    if (ParseAsSpec(source->text, &loaded.spec, &error)) return loaded;
    return absl::InvalidArgumentError(absl::StrCat(loaded.name, " is no EncodingSpec: ", error));
  }
  absl::StatusOr<client::Client*> client = tool.Connect();
  if (!client.ok()) return client.status();
  auto model = (*client)->ResolveModel(RequestFor(*std::move(source), argument));
  if (!model.ok()) return model.status();
  const auto layer = ChooseLayer(*model, loaded.name, tool);
  if (!layer.ok()) return layer.status();
  loaded.spec = (*layer)->spec();
  if ((*layer)->max_position() > 0) loaded.max_position = (*layer)->max_position();
  return loaded;
}

}  // namespace

absl::StatusOr<LoadedSpec> LoadSpec(const SpecArg& argument, Tool& tool) {
  absl::StatusOr<LoadedSpec> loaded = LoadWithoutWeights(argument, tool);
  if (!loaded.ok()) return loaded;
  if (auto status = AddWeights(argument.weights, tool, &loaded->spec); !status.ok()) return status;
  return loaded;
}

}  // namespace phasor::cli
