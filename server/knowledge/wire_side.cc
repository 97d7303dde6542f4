#include "server/knowledge/wire_side.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_join.h"

#include "server/enum_text.h"
#include "server/grpc_status.h"
#include "server/knowledge/numbers.h"
#include "server/resolve/model_config.h"
#include "server/spec_parser.h"
#include "server/spec_weights.h"
#include "server/text.h"

namespace phasor::server {
namespace {

constexpr size_t kMaxInputAxes = 3;

absl::StatusOr<InputTensor> ReadInputTensor(const v1::Tensor& message, const std::string& path) {
  const auto weight = InlineWeightReader().Read(message, path);
  if (!weight.ok()) return weight.status();
  InputTensor tensor;
  tensor.dtype = (*weight)->dtype;
  tensor.shape = (*weight)->shape;
  while (tensor.shape.size() > 1 && tensor.shape.front() == 1) tensor.shape.erase(tensor.shape.begin());
  if (tensor.shape.empty() || tensor.shape.size() > kMaxInputAxes) {
    return InvalidField(Cat(path, ".shape"), Cat("[", absl::StrJoin((*weight)->shape, ", "), "]"), "1 to 3 axes");
  }
  int64_t elements = 1;
  for (const int64_t extent : tensor.shape) elements *= extent;  // as many as the data holds
  if (elements > kMaxInputElements) {
    return InvalidField(Cat(path, ".shape"), Cat(elements, " elements"), Cat("at most ", kMaxInputElements));
  }
  tensor.values = Widen(tensor.dtype, (*weight)->data.get(), elements);
  return tensor;
}

std::string TypesOf(const std::vector<SideLayer>& layers) {
  return absl::StrJoin(layers, ", ", [](std::string* out, const SideLayer& layer) {
    Append(out, layer.layer_type.empty() ? "\"\" (a single schedule)" : layer.layer_type);
  });
}

// An extent that the configuration does not say is 0, and so is the product.
double ElementsOf(const std::vector<NeededWeight>& weights) {
  double all = 0;
  for (const NeededWeight& weight : weights) {
    double elements = 1;
    for (const int64_t extent : weight.shape) elements *= static_cast<double>(extent);
    all += elements;
  }
  return all;
}

absl::StatusOr<std::vector<SideLayer>> ReadConfiguration(const v1::ComparedSide& message, std::string_view path,
                                                         const Limits& limits) {
  const std::string field = Cat(path, ".config_json");
  const int64_t size = static_cast<int64_t>(message.config_json().size());
  if (size > limits.max_config_bytes) return OverLimit(field, size, "max_config_bytes", limits.max_config_bytes, "bytes");
  auto model = ReadModelConfig(message.config_json());
  if (const auto error = SpecErrorOf(model.status())) {
    return InvalidField(error->field.empty() ? field : Cat(field, ".", error->field), error->given, error->allowed);
  }
  if (!model.ok()) return model.status();
  std::vector<SideLayer> layers;
  for (LayerEncoding& layer : model->layers) {
    if (!layer.spec) continue;
    layers.push_back({layer.layer_type, *std::move(layer.spec), layer.num_q_heads, layer.num_kv_heads,
                      static_cast<int64_t>(layer.layers.size()), LacksWeights(layer), ElementsOf(layer.weights)});
  }
  if (layers.empty()) {
    return InvalidField(field, Cat("model_type \"", model->model_type, "\", which has no numbers of positions"),
                        "a configuration of which ResolveModel gives a spec");
  }
  return layers;
}

}  // namespace

absl::Status CheckRange(std::string_view field, int64_t given, int64_t lowest, int64_t highest) {
  if (given >= lowest && given <= highest) return absl::OkStatus();
  return InvalidField(field, Cat(given), Cat(lowest, " … ", highest));
}

absl::StatusOr<InputTable> ReadInputTable(const v1::TableInput& message, std::string_view path) {
  InputTable table;
  if (message.tensors().empty() || message.tensors_size() > 2) {
    return InvalidField(Cat(path, ".tensors"), Cat(message.tensors_size(), " tensors"), "one, or cosines and sines");
  }
  if (!v1::TableContent_IsValid(message.content())) {
    return InvalidField(Cat(path, ".content"), Cat(static_cast<int>(message.content())),
                        AllowedValues(v1::TableContent_descriptor()));
  }
  table.content = static_cast<InputContent>(message.content());
  for (int i = 0; i < message.tensors_size(); ++i) {
    auto tensor = ReadInputTensor(message.tensors(i), Cat(path, ".tensors[", i, "]"));
    if (!tensor.ok()) return tensor.status();
    table.tensors.push_back(*std::move(tensor));
  }
  const bool two = table.tensors.size() == 2;
  if (two && (table.tensors[0].shape != table.tensors[1].shape || table.tensors[0].dtype != table.tensors[1].dtype)) {
    return InvalidField(Cat(path, ".tensors[1]"), "another shape or type than tensors[0]",
                        "cosines and sines of one shape and type");
  }
  if (two && table.content == InputContent::kUnknown) table.content = InputContent::kCosAndSin;
  if (two != (table.content == InputContent::kCosAndSin)) {
    return InvalidField(Cat(path, ".tensors"), Cat(table.tensors.size(), two ? " tensors" : " tensor"),
                        two ? "one, for this content" : "two for COS_AND_SIN");
  }
  if (message.has_first_position()) {
    if (auto status = CheckRange(Cat(path, ".first_position"), message.first_position(), 0, (int64_t{1} << 31) - 1);
        !status.ok()) {
      return status;
    }
    table.first_position = message.first_position();
  }
  return table;
}

absl::StatusOr<CanonicalSpec> ReadSpec(const v1::EncodingSpec& message, std::string_view path) {
  const InlineWeightReader weights;
  auto spec = CanonicalFromProto(message, &weights);
  const auto error = SpecErrorOf(spec.status());
  if (!error) return spec;
  const std::string field = WeightPath(message, error->field);
  return InvalidField(field.empty() ? std::string(path) : Cat(path, ".", field), error->given, error->allowed);
}

absl::StatusOr<std::vector<SideLayer>> ReadLayers(const v1::ComparedSide& message, std::string_view path,
                                                  const Limits& limits) {
  std::vector<SideLayer> layers;
  switch (message.source_case()) {
    case v1::ComparedSide::kSpec: {
      auto spec = ReadSpec(message.spec(), Cat(path, ".spec"));
      if (!spec.ok()) return spec.status();
      layers.push_back({"", *std::move(spec)});
      break;
    }
    case v1::ComparedSide::kConfigJson: {
      auto read = ReadConfiguration(message, path, limits);
      if (!read.ok()) return read.status();
      layers = *std::move(read);
      break;
    }
    default:
      return InvalidField(path, message.has_table() ? "a table" : "nothing", "a spec or the text of a config.json");
  }
  if (message.layer_type().empty()) return layers;
  const std::string types = TypesOf(layers);
  std::erase_if(layers, [&](const SideLayer& layer) { return layer.layer_type != message.layer_type(); });
  if (layers.empty()) return InvalidField(Cat(path, ".layer_type"), message.layer_type(), types);
  return layers;
}

absl::StatusOr<SideLayer> ReadLayer(const v1::ComparedSide& message, std::string_view path, const Limits& limits) {
  auto layers = ReadLayers(message, path, limits);
  if (!layers.ok()) return layers.status();
  if (layers->size() > 1) return InvalidField(Cat(path, ".layer_type"), "nothing", TypesOf(*layers));
  return std::move(layers->front());
}

}  // namespace phasor::server
