#include "client/cli/add_args.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "client/cli/array_file.h"
#include "client/cli/spec_arg.h"
#include "client/cli/wire_names.h"

namespace phasor::cli {
namespace {

// The one array of a file, as a tensor.
absl::Status ReadTensor(const std::string& flag, const std::string& path, v1::Tensor& tensor, raw::Payloads& payloads) {
  absl::StatusOr<ArrayFormat> format = FormatOf(path, "");
  if (!format.ok()) return format.status();
  absl::StatusOr<std::vector<LoadedArray>> arrays = ReadArrays(path, *format);
  if (!arrays.ok()) return arrays.status();
  if (arrays->size() != 1) {
    return UsageError(absl::StrCat(flag, ": ", path, " holds ", arrays->size(), " arrays; allowed: one"));
  }
  const auto array = std::make_shared<const LoadedArray>(std::move(arrays->front()));
  tensor.set_dtype(ToWire(array->info.dtype));
  for (const int64_t extent : array->info.shape) tensor.add_shape(extent);
  const raw::Piece piece{array, array->data.data(), array->data.size()};
  tensor.set_data(payloads.Add({&piece, array->data.empty() ? size_t{0} : size_t{1}}));
  return absl::OkStatus();
}

}  // namespace

void AddArgs::AddTo(CLI::App& command) {
  auto* group = command.add_option_group("Adding", "Add the encoding instead of rotating: y = dropout(scale * x + PE)");
  auto* on = group->add_flag("--add", add, "Add; layouts are bsd (default), sbd and td");
  auto* factor = group->add_option("--scale", scale, "Factor on x")->needs(on);
  auto* root = group->add_flag("--scale-sqrt-dim", scale_sqrt_dim, "Factor on x: the square root of the width")->needs(on);
  factor->excludes(root);
  AddChoice(*group, "--scale-dtype", scale_dtype, kDTypeNames, "Type that the factor is rounded to first (Gemma: bf16)")
      ->needs(on);
  auto* drop = group->add_option("--dropout", dropout, "Probability of being dropped, 0 to below 1")->needs(on);
  group->add_option("--seed", seed, "Of dropout (default 0)")->needs(drop);
  auto* gated = group->add_option("--gate", gate, "File of one array: gate * PE + (1 - gate) * the encoding of --gate-spec")
                    ->needs(on);
  auto* other =
      group->add_option("--gate-spec", gate_spec, "The second encoding, an EncodingSpec as JSON (a file or inline)");
  gated->needs(other);
  other->needs(gated);
  group->add_option("--first", first, "File of [k, dim]: added at the first k positions")->needs(on);
  group->add_option("--last", last, "File of [k, dim]: added at the last k positions")->needs(on);
  group
      ->add_option("--zero-padding", mask,
                   "File of a mask [batch, sequence] of 0 and 1: hidden tokens become zeros, the "
                   "others are counted")
      ->needs(on);
}

absl::Status AddArgs::Fill(Tool& tool, const RotateArgs& rotate, v1::ApplyItem& item, raw::Payloads& payloads) const {
  if (rotate.inverse || rotate.shift || !rotate.rerotate.empty() || !rotate.table.empty() || !rotate.query_scale.empty() ||
      !rotate.roles.empty()) {
    return UsageError("--add: given with an option of rotations; allowed: alone, or with --backward");
  }
  v1::AddOperation& operation = *item.mutable_add();
  operation.set_backward(rotate.backward);
  if (scale) operation.set_scale(*scale);
  operation.set_scale_sqrt_dim(scale_sqrt_dim);
  operation.set_scale_dtype(scale_dtype);
  if (dropout) {
    operation.mutable_dropout()->set_probability(*dropout);
    operation.mutable_dropout()->set_seed(seed);
  }
  absl::Status status;
  if (!gate.empty()) {
    SpecArg argument;
    argument.tokens = {gate_spec};
    absl::StatusOr<LoadedSpec> loaded = LoadSpec(argument, tool);
    if (!loaded.ok()) return loaded.status();
    *operation.mutable_gate()->mutable_other() = loaded->spec;
    status = ReadTensor("--gate", gate, *operation.mutable_gate()->mutable_gate(), payloads);
  }
  if (status.ok() && !first.empty()) {
    status = ReadTensor("--first", first, *operation.mutable_offsets()->mutable_first(), payloads);
  }
  if (status.ok() && !last.empty()) {
    status = ReadTensor("--last", last, *operation.mutable_offsets()->mutable_last(), payloads);
  }
  if (status.ok() && !mask.empty()) {
    if (item.has_positions()) return UsageError("--zero-padding: given with --positions; allowed: one of the two");
    operation.set_zero_padding(true);
    status = ReadTensor("--zero-padding", mask, *item.mutable_positions()->mutable_mask()->mutable_mask(), payloads);
  }
  return status;
}

}  // namespace phasor::cli
