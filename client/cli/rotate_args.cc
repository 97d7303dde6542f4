#include "client/cli/rotate_args.h"

#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "client/cli/array_file.h"
#include "client/cli/spec_arg.h"
#include "client/cli/wire_names.h"

namespace phasor::cli {
namespace {

const std::map<std::string, v1::Pairing> kPairingNames = {{"half_split", v1::PAIRING_HALF_SPLIT},
                                                          {"interleaved", v1::PAIRING_INTERLEAVED},
                                                          {"interleaved_to_half", v1::PAIRING_INTERLEAVED_TO_HALF}};

// constant=S, log_n=LENGTH, or floor=COEFFICIENT,PERIOD[,SHIFT].
absl::Status FillScale(const std::string& text, v1::QueryScale& scale) {
  const absl::Status wrong =
      UsageError(absl::StrCat("--query-scale: given '", text,
                              "'; allowed: constant=FACTOR, log_n=TRAINING_LENGTH, floor=COEFFICIENT,PERIOD[,SHIFT]"));
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
  if (parts.size() != 2) return wrong;
  const std::vector<std::string> numbers = absl::StrSplit(parts[1], ',');
  double value = 0;
  int64_t whole = 0;
  if (parts[0] == "constant" && numbers.size() == 1 && absl::SimpleAtod(numbers[0], &value)) {
    scale.set_constant(value);
    return absl::OkStatus();
  }
  if (parts[0] == "log_n" && numbers.size() == 1 && absl::SimpleAtoi(numbers[0], &whole)) {
    scale.set_log_n_training_length(whole);
    return absl::OkStatus();
  }
  if (parts[0] != "floor" || numbers.size() < 2 || numbers.size() > 3) return wrong;
  v1::FloorScale& rule = *scale.mutable_floor_scale();
  if (!absl::SimpleAtod(numbers[0], &value) || !absl::SimpleAtoi(numbers[1], &whole)) return wrong;
  rule.set_coefficient(value);
  rule.set_period(whole);
  if (numbers.size() == 3) {
    if (!absl::SimpleAtoi(numbers[2], &whole)) return wrong;
    rule.set_shift(whole);
  }
  return absl::OkStatus();
}

absl::Status FillTable(const std::string& text, v1::UploadedTable& table, raw::Payloads& payloads) {
  const std::vector<std::string> paths = absl::StrSplit(text, ',');
  if (paths.size() != 2) return UsageError(absl::StrCat("--table: given '", text, "'; allowed: COS,SIN (two .npy files)"));
  for (size_t i = 0; i < 2; ++i) {
    absl::StatusOr<ArrayFormat> format = FormatOf(paths[i], "");
    if (!format.ok()) return format.status();
    absl::StatusOr<std::vector<LoadedArray>> arrays = ReadArrays(paths[i], *format);
    if (!arrays.ok()) return arrays.status();
    if (arrays->size() != 1) return UsageError(absl::StrCat("--table: ", paths[i], " must hold one array"));
    const auto held = std::make_shared<std::vector<LoadedArray>>(*std::move(arrays));
    const LoadedArray& array = held->front();
    v1::Tensor& tensor = i == 0 ? *table.mutable_cos() : *table.mutable_sin();
    tensor.set_dtype(ToWire(array.info.dtype));
    for (const int64_t extent : array.info.shape) tensor.add_shape(extent);
    const raw::Piece piece{held, array.data.data(), array.data.size()};
    tensor.set_data(payloads.Add({&piece, 1}));
  }
  return absl::OkStatus();
}

absl::Status FillRoles(const std::vector<std::string>& roles, v1::ApplyItem& item) {
  for (const std::string& role : roles) {
    if (role != "q" && role != "k") return UsageError(absl::StrCat("--roles: given '", role, "'; allowed: q, k"));
    item.add_roles(role == "q" ? v1::TENSOR_ROLE_QUERY : v1::TENSOR_ROLE_KEY);
  }
  return absl::OkStatus();
}

}  // namespace

void RotateArgs::AddTo(CLI::App& command) {
  CLI::Option* undo = command.add_flag("--inverse", inverse, "Undo a rotation: angles negated, divided by the factors");
  CLI::Option* gradient =
      command.add_flag("--backward", backward, "The gradient: angles negated, multiplied by the factors")->excludes(undo);
  CLI::Option* move =
      command
          .add_option("--shift", shift,
                      "Move tensors that are rotated already by so many positions (cached keys): a pure rotation, the "
                      "attention factor is not applied again")
          ->excludes("--positions")
          ->excludes(undo)
          ->excludes(gradient);
  CLI::Option* target =
      command
          .add_option("--rerotate", rerotate,
                      "Turn keys that were rotated with SPEC to this one (JSON or a file), in one rotation")
          ->excludes(undo)
          ->excludes(gradient)
          ->excludes(move);
  command.add_option("--target-length", target_length, "Sequence length of the --rerotate target (default --length)")
      ->needs(target);
  CLI::Option* rows = command
                          .add_option("--table", table,
                                      "COS,SIN: files with [rows, pairs] to rotate by in place of SPEC; a position is a row")
                          ->excludes(undo)
                          ->excludes(target);
  command.add_option("--table-pairing", table_pairing, "Pairing of --table: half_split (default), interleaved, …")
      ->needs(rows);
  command
      .add_option("--query-scale", query_scale,
                  "Factor on queries: constant=FACTOR, log_n=TRAINING_LENGTH or floor=COEFFICIENT,PERIOD[,SHIFT]")
      ->excludes(move)
      ->excludes(target);
  command.add_option("--roles", roles, "q or k for each tensor (default: the first is q, the others are k)")->delimiter(',');
}

absl::Status RotateArgs::Fill(Tool& tool, int64_t tokens, v1::ApplyItem& item, raw::Payloads& payloads) const {
  if (absl::Status status = FillRoles(roles, item); !status.ok()) return status;
  if (!table.empty()) {
    if (absl::Status status = FillTable(table, *item.mutable_table(), payloads); !status.ok()) return status;
    if (!table_pairing.empty()) {
      const auto found = kPairingNames.find(table_pairing);
      if (found == kPairingNames.end()) {
        return UsageError(absl::StrCat("--table-pairing: given '", table_pairing,
                                       "'; allowed: half_split, interleaved, interleaved_to_half"));
      }
      item.set_table_pairing(found->second);
    }
  }
  if (shift) {
    item.mutable_shift();
    for (int64_t i = 0; i < tokens; ++i) item.mutable_positions()->mutable_list()->add_ids(*shift);
    return absl::OkStatus();
  }
  if (!rerotate.empty()) {
    SpecArg argument;
    argument.tokens = {rerotate};
    argument.length = target_length;
    absl::StatusOr<LoadedSpec> target = LoadSpec(argument, tool);
    if (!target.ok()) return target.status();
    *item.mutable_rerotate()->mutable_target() = target->spec;
    if (target->sequence_length) item.mutable_rerotate()->set_target_sequence_length(*target->sequence_length);
    return absl::OkStatus();
  }
  item.mutable_rotate()->set_inverse(inverse);
  item.mutable_rotate()->set_backward(backward);
  return query_scale.empty() ? absl::OkStatus() : FillScale(query_scale, *item.mutable_rotate()->mutable_query_scale());
}

const char* RotateArgs::done() const {
  if (shift) return "shifted";
  if (!rerotate.empty()) return "rerotated";
  if (backward) return "rotated backward";
  return inverse ? "rotated back" : "rotated";
}

}  // namespace phasor::cli
