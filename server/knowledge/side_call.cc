#include "server/knowledge/side_call.h"

#include <utility>

#include "server/grpc_status.h"
#include "server/knowledge/compare.h"
#include "server/knowledge/wire_side.h"
#include "server/text.h"

namespace phasor::server {
namespace {

bool IsOfRequest(std::string_view field) {
  return field == "sequence_length" || field == "first_position" || field == "count";
}

}  // namespace

absl::Status AtSide(const v1::ComparedSide& message, std::string_view path, const absl::Status& status) {
  const auto error = SpecErrorOf(status);
  if (!error) return status;
  if (IsOfRequest(error->field)) return InvalidField(error->field, error->given, error->allowed);
  std::string field = error->field;
  constexpr std::string_view kSpec = "spec";
  if (message.has_config_json() && (field == kSpec || field.starts_with("spec.")))
    field.replace(0, kSpec.size(), "config_json");
  return InvalidField(field.empty() ? std::string(path) : Cat(path, ".", field), error->given, error->allowed);
}

absl::StatusOr<Side> ReadSide(const v1::ComparedSide& message, std::string_view path, std::optional<int64_t> sequence_length,
                              const Limits& limits, const Side* other) {
  if (message.source_case() == v1::ComparedSide::SOURCE_NOT_SET) {
    return InvalidField(path, "nothing", "a spec, the text of a config.json or a table");
  }
  if (message.has_table()) {
    if (message.compat_f32())
      return InvalidField(Cat(path, ".compat_f32"), "true", "false for a table, which is computed already");
    if (!message.layer_type().empty())
      return InvalidField(Cat(path, ".layer_type"), message.layer_type(), "nothing for a table");
    const auto table = ReadInputTable(message.table(), Cat(path, ".table"));
    if (!table.ok()) return table.status();
    auto side = SideOfTable(*table, other);
    return side.ok() ? std::move(side) : AtSide(message, path, side.status());
  }
  const auto layer = ReadLayer(message, path, limits);
  if (!layer.ok()) return layer.status();
  if (layer->lacks_weights) {
    return InvalidField(Cat(path, ".config_json"),
                        Cat(SchemeOf(layer->spec.spec).name, ", whose numbers are in the checkpoint"),
                        "a spec with its weights, or a table");
  }
  auto side = SideOfSpec(layer->spec, sequence_length, message.compat_f32() ? Precision::kCompatF32 : Precision::kExact);
  return side.ok() ? std::move(side) : AtSide(message, path, side.status());
}

absl::StatusOr<SidePair> ReadSides(const v1::ComparedSide& a, std::string_view path_a, const v1::ComparedSide& b,
                                   std::string_view path_b, std::optional<int64_t> sequence_length, const Limits& limits) {
  // A table is read last: what its numbers are may follow from the other side.
  const auto says = [](const v1::ComparedSide& side) {
    return !side.has_table() || side.table().content() != 0 || side.table().tensors_size() == 2;
  };
  const bool b_first = a.has_table() && (!b.has_table() || (!says(a) && says(b)));
  std::optional<Side> side_b;
  if (b_first) {
    auto read = ReadSide(b, path_b, sequence_length, limits, nullptr);
    if (!read.ok()) return read.status();
    side_b = *std::move(read);
  }
  auto side_a = ReadSide(a, path_a, sequence_length, limits, b_first ? &*side_b : nullptr);
  if (!side_a.ok()) return side_a.status();
  if (!b_first) {
    auto read = ReadSide(b, path_b, sequence_length, limits, says(a) ? &*side_a : nullptr);
    if (!read.ok()) return read.status();
    side_b = *std::move(read);
  }
  MatchSides(&*side_a, &*side_b);
  if (absl::Status status = CheckComparable(*side_a, *side_b); !status.ok()) return AtSide(b, path_b, status);
  return SidePair{*std::move(side_a), *std::move(side_b)};
}

}  // namespace phasor::server
