#include "client/cli/side_arg.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "client/cli/array_file.h"
#include "client/cli/spec_arg.h"
#include "client/cli/text.h"
#include "client/cli/wire_names.h"

namespace phasor::cli {
namespace {

const std::map<std::string, v1::TableContent> kContentNames = {{"cos", v1::TABLE_CONTENT_COS},
                                                               {"sin", v1::TABLE_CONTENT_SIN},
                                                               {"cos_and_sin", v1::TABLE_CONTENT_COS_AND_SIN},
                                                               {"cos_sin", v1::TABLE_CONTENT_COS_SIN},
                                                               {"sinusoidal", v1::TABLE_CONTENT_SINUSOIDAL},
                                                               {"bias", v1::TABLE_CONTENT_BIAS},
                                                               {"bias_vector", v1::TABLE_CONTENT_BIAS_VECTOR},
                                                               {"inv_freq", v1::TABLE_CONTENT_INV_FREQ},
                                                               {"slopes", v1::TABLE_CONTENT_SLOPES}};

bool IsArrayFile(const std::string& token) {
  return absl::EndsWith(token, ".npy") || absl::EndsWith(token, ".npz") || absl::EndsWith(token, ".safetensors");
}

// head_dim=128, but not dir=x/config.json.
bool IsPair(const std::string& token) {
  return absl::StrContains(token, '=') && token.front() != '{' && !std::filesystem::exists(token) && !IsArrayFile(token) &&
         !absl::EndsWith(token, ".json") && !absl::EndsWith(token, ".gguf");
}

void WriteTensor(const LoadedArray& array, v1::Tensor* tensor) {
  tensor->set_dtype(ToWire(array.info.dtype));
  tensor->mutable_shape()->Add(array.info.shape.begin(), array.info.shape.end());
  tensor->set_data(array.data.data(), array.data.size());
}

absl::StatusOr<std::vector<LoadedArray>> Read(const std::string& path) {
  const auto format = FormatOf(path, "");
  if (!format.ok()) return format.status();
  return ReadArrays(path, *format);
}

// One array, or two of which one is named cos and one sin (cos.npy, rotary.cos …).
absl::Status WriteTable(const SideArg& argument, v1::TableInput* table) {
  const std::string& path = argument.tokens.front();
  auto arrays = Read(path);
  if (!arrays.ok()) return arrays.status();
  std::erase_if(*arrays, [](const LoadedArray& array) { return absl::StartsWith(array.info.name, "phasor_"); });
  const auto named = [&](std::string_view name) {
    return std::find_if(arrays->begin(), arrays->end(),
                        [&](const LoadedArray& a) { return absl::StrContains(a.info.name, View(name)); });
  };
  if (arrays->size() == 2 && named("cos") != arrays->end() && named("sin") != arrays->end()) {
    WriteTensor(*named("cos"), table->add_tensors());
    WriteTensor(*named("sin"), table->add_tensors());
  } else if (arrays->size() == 1) {
    WriteTensor(arrays->front(), table->add_tensors());
    if (absl::EndsWith(arrays->front().info.name, "inv_freq")) table->set_content(v1::TABLE_CONTENT_INV_FREQ);
  } else {
    return UsageError(absl::StrCat(path, ": given ", arrays->size(), " arrays; allowed: one, or cos and sin"));
  }
  if (!argument.content.empty()) {
    const auto found = kContentNames.find(argument.content);
    if (found == kContentNames.end()) {
      return UsageError(absl::StrCat(
          "--content: given '", argument.content, "'; allowed: ",
          absl::StrJoin(kContentNames, ", ", [](std::string* out, const auto& row) { out->append(row.first); })));
    }
    table->set_content(found->second);
  }
  if (argument.first_position) table->set_first_position(*argument.first_position);
  return absl::OkStatus();
}

absl::Status AddInlineWeights(const std::vector<std::string>& arguments, v1::EncodingSpec* spec) {
  for (const std::string& argument : arguments) {
    const size_t equals = argument.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return UsageError(absl::StrCat("--weight: given '", argument, "'; allowed: NAME=FILE"));
    }
    const auto arrays = Read(argument.substr(equals + 1));
    if (!arrays.ok()) return arrays.status();
    if (arrays->size() != 1) {
      return UsageError(
          absl::StrCat("--weight: given ", argument.substr(equals + 1), " with ", arrays->size(), " arrays; allowed: one"));
    }
    v1::Weight* weight = spec->add_weights();
    weight->set_name(argument.substr(0, equals));
    WriteTensor(arrays->front(), weight->mutable_tensor());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::vector<std::string>>> SplitSpecs(const std::vector<std::string>& tokens, size_t most) {
  std::vector<std::vector<std::string>> specs;
  for (const std::string& token : tokens) {
    std::vector<std::string> parts{token};
    if (!token.empty() && token.front() != '{' && absl::StrContains(token, ' ') && !std::filesystem::exists(token)) {
      parts = absl::StrSplit(token, ' ', absl::SkipEmpty());
    }
    for (std::string& part : parts) {
      if (part.empty()) continue;
      if (specs.empty() || !IsPair(part)) specs.emplace_back();
      specs.back().push_back(std::move(part));
    }
  }
  if (specs.size() > most) {
    return UsageError(
        absl::StrCat("SPEC: given ", specs.size(), " of them (the last is '", specs.back().front(), "'); allowed: ", most));
  }
  return specs;
}

absl::StatusOr<v1::ComparedSide> LoadSide(const SideArg& argument, std::optional<int64_t> length, Tool& tool) {
  v1::ComparedSide side;
  if (argument.tokens.size() == 1 && IsArrayFile(argument.tokens.front())) {
    if (absl::Status status = WriteTable(argument, side.mutable_table()); !status.ok()) return status;
    return side;
  }
  SpecArg spec;
  spec.tokens = argument.tokens;
  spec.layer_type = argument.layer_type;
  spec.length = length;
  auto loaded = LoadSpec(spec, tool);
  if (!loaded.ok()) return loaded.status();
  *side.mutable_spec() = std::move(loaded->spec);
  if (absl::Status status = AddInlineWeights(argument.weights, side.mutable_spec()); !status.ok()) return status;
  side.set_compat_f32(argument.compat_f32);
  return side;
}

}  // namespace phasor::cli
