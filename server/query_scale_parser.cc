#include "server/query_scale_parser.h"

#include <string>

#include "absl/strings/str_cat.h"

#include "server/grpc_status.h"

namespace phasor::server {
namespace {

constexpr double kLargestScale = 1e30;

}  // namespace

absl::StatusOr<PositionScale> ParseQueryScale(const v1::QueryScale& message, std::string_view path) {
  PositionScale scale;
  const auto at = [path](std::string_view field) { return absl::StrCat(std::string(path), ".", std::string(field)); };
  const auto within = [](std::string_view field, double value, double low) -> absl::Status {
    if (value >= low && value <= kLargestScale) return absl::OkStatus();
    return InvalidField(field, absl::StrCat(value), absl::StrCat(low, " … ", kLargestScale));
  };
  switch (message.rule_case()) {
    case v1::QueryScale::kConstant:
      scale.constant = message.constant() + 0.0;
      if (auto s = within(at("constant"), scale.constant, -kLargestScale); !s.ok()) return s;
      return scale;
    case v1::QueryScale::kLogNTrainingLength:
      scale.rule = PositionScale::Rule::kLogN;
      scale.training_length = message.log_n_training_length();
      if (scale.training_length < 2 || scale.training_length > int64_t{1} << 31) {
        return InvalidField(at("log_n_training_length"), absl::StrCat(scale.training_length), "2 … 2^31");
      }
      return scale;
    case v1::QueryScale::kFloorScale:
      break;
    default:
      return InvalidField(path, "nothing", "constant, log_n_training_length or floor_scale");
  }
  const v1::FloorScale& rule = message.floor_scale();
  scale.rule = PositionScale::Rule::kFloor;
  scale.coefficient = rule.coefficient();
  scale.period = rule.period();
  scale.shift = rule.shift();
  if (auto s = within(at("floor_scale.coefficient"), scale.coefficient, 0); !s.ok()) return s;
  if (scale.period < 1 || scale.period > int64_t{1} << 31) {
    return InvalidField(at("floor_scale.period"), absl::StrCat(scale.period), "1 … 2^31");
  }
  if (scale.shift < 0 || scale.shift > 1) {
    return InvalidField(at("floor_scale.shift"), absl::StrCat(scale.shift), "0 or 1");
  }
  return scale;
}

}  // namespace phasor::server
