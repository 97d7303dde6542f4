#include "server/describe.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "kernels/encodings/spec_check.h"
#include "server/fingerprint.h"

namespace phasor::server {
namespace {

constexpr int64_t kLastPosition = (int64_t{1} << 31) - 1;

bool Has(const PositionSet& positions, int64_t position) {
  if (!positions.ids.empty()) return std::find(positions.ids.begin(), positions.ids.end(), position) != positions.ids.end();
  if (positions.count == 0) return false;
  if (positions.stride == 0) return position == positions.start;
  const int64_t steps = (position - positions.start) / positions.stride;
  return steps >= 0 && steps < positions.count && positions.start + steps * positions.stride == position;
}

absl::Status CheckOffset(const PositionSet& positions, int64_t offset) {
  if (offset == 0 || positions.count == 0) return absl::OkStatus();
  int64_t lowest = 0, highest = 0;
  if (positions.ids.empty()) {
    lowest = std::min(positions.at(0), positions.at(positions.count - 1));
    highest = std::max(positions.at(0), positions.at(positions.count - 1));
  } else {
    const auto [low, high] = std::minmax_element(positions.ids.begin(), positions.ids.end());
    lowest = *low;
    highest = *high;
  }
  if (lowest + offset >= -kLastPosition && highest + offset <= kLastPosition) return absl::OkStatus();
  return MakeSpecError("sinusoidal.position_offset", absl::StrCat(offset),
                       absl::StrCat("position + position_offset within ±", kLastPosition));
}

// The largest position count that a schedule was made for, where it says one.
struct Maximum {
  std::optional<int64_t> sequence_length;

  template <typename Schedule>
  std::optional<int64_t> operator()(const Schedule& schedule) const {
    std::optional<int64_t> maximum;
    if constexpr (std::is_same_v<Schedule, Llama3Schedule>) {
      return std::nullopt;  // trained on more than its parameters say: 131072 positions with a factor of 8 over 8192
    } else if constexpr (requires { schedule.original_max_position; }) {
      maximum = schedule.original_max_position;
      if constexpr (requires { schedule.factor; }) {
        const double factor = std::optional<double>(schedule.factor).value_or(1);
        if (factor > 1) maximum = static_cast<int64_t>(std::min(std::floor(static_cast<double>(*maximum) * factor), 0x1p62));
      }
      if constexpr (requires { schedule.max_position; }) {
        if (const std::optional<int64_t> given = schedule.max_position) maximum = given;
      }
    } else if constexpr (requires { schedule.max_position; }) {
      // The frequencies were stretched to the sequence length, so that is the maximum where it is larger.
      maximum = std::max(schedule.max_position, sequence_length.value_or(0));
    } else if constexpr (requires { schedule.training_length; }) {
      maximum = std::max(schedule.training_length, sequence_length.value_or(0));
    }
    return maximum;
  }
};

absl::Status DescribeTable(const PrecomputeItem& item, const PlanEntry& plan, const CallContext& call,
                           PrecomputeResult* result) {
  const auto& request = std::get<TableRequest>(item.window);
  if (plan.angle() == nullptr) return absl::InvalidArgumentError("a table window needs a scheme of angles");
  const auto shape = ShapeOfTable(item.source.spec, *plan.angle(), request);
  if (!shape.ok()) return shape.status();

  TableContent content;
  content.positions = &request.positions;
  content.position_offset = shape->offset;
  content.zero_row = shape->zero_row;
  content.form = request.form;
  content.columns = shape->columns;
  content.inverse = DividesByFactor(*plan.angle(), request.inverse);
  if (request.include_inv_freq) content.inv_freq = plan.angle()->inv_freq;
  auto fingerprint = TableFingerprint(plan.hash, content, item.dtype, &call);
  if (!fingerprint.ok()) return fingerprint.status();
  result->fingerprint = *std::move(fingerprint);
  result->warnings = WarningsFor(item.source, request.positions.last(), "table.positions");

  const Array array{item.dtype, {request.positions.count, shape->columns}, {}, {}};
  if (shape->two_arrays) {
    result->cos = array;
    result->sin = array;
  } else {
    result->table = array;
  }
  if (request.include_inv_freq) result->inv_freq = Array{DType::kF64, {plan.angle()->pairs()}, {}, {}};
  return absl::OkStatus();
}

absl::Status DescribeBias(const PrecomputeItem& item, const PlanEntry& plan, PrecomputeResult* result) {
  const auto& request = std::get<BiasRequest>(item.window);
  const std::optional<DistancePlan> bias = plan.bias();
  if (!bias) return absl::InvalidArgumentError("a bias window needs a scheme of biases");
  if (request.first_head < 0 || request.heads > HeadsOf(*bias) - request.first_head) {
    return absl::InvalidArgumentError("a bias window must stay within the scheme's heads");
  }
  result->fingerprint = BiasFingerprint(plan.resolved.plan, request, item.dtype, &plan.hash);
  const LastPosition last = LastOf(request);
  result->warnings = WarningsFor(item.source, static_cast<double>(last.position), last.field);
  Array array{item.dtype, {request.heads, ShapeOfBias(request).count}, {}, {}};
  if (request.form == BiasForm::kFull) array.shape = {request.heads, request.queries, request.keys};
  result->bias = std::move(array);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TableShape> ShapeOfTable(const CanonicalSpec& spec, const AnglePlan& plan, const TableRequest& request) {
  TableShape shape;
  shape.two_arrays = request.form == TableForm::kHalf || request.form == TableForm::kDuplicated ||
                     request.form == TableForm::kInterleavedDuplicated;
  shape.columns = request.form == TableForm::kHalf ? plan.pairs() : 2 * plan.pairs();
  if (const auto* sinusoidal = std::get_if<SinusoidalSpec>(&spec.spec)) {
    shape.offset = sinusoidal->position_offset.value_or(0);
    shape.columns = sinusoidal->dim;
    const absl::Status status = CheckOffset(request.positions, shape.offset);
    if (!status.ok()) return status;
    if (sinusoidal->padding_row && Has(request.positions, *sinusoidal->padding_row - shape.offset)) {
      shape.zero_row = sinusoidal->padding_row;
    }
  }
  return shape;
}

BiasShape ShapeOfBias(const BiasRequest& request) {
  const int64_t first = -(request.queries - 1) - request.query_offset;
  return {first, request.form == BiasForm::kRow ? request.keys : request.queries + request.keys - 1};
}

LastPosition LastOf(const BiasRequest& request) {
  const int64_t query = request.query_offset + request.queries - 1;
  if (query < request.keys) return {request.keys - 1, "bias.keys"};
  return {query, "bias.query_offset"};  // without one the last query stands at the last key
}

std::vector<Note> WarningsFor(const TableSource& source, double largest, std::string_view field) {
  std::vector<Note> warnings = source.spec.warnings;
  for (Note& warning : warnings) warning.field.insert(0, warning.field.empty() ? "spec" : "spec.");
  std::optional<int64_t> maximum = source.max_position;
  if (const auto* rope = std::get_if<RopeSpec>(&source.spec.spec)) {
    // A schedule that stretches positions reaches beyond the maximum that the configuration was trained with.
    maximum = std::visit(Maximum{source.sequence_length}, rope->schedule);
    if (source.max_position) maximum = std::max(*source.max_position, maximum.value_or(0));
  }
  if (maximum && largest > static_cast<double>(*maximum - 1)) {
    warnings.push_back({std::string(field), absl::StrCat("position ", FormatNumber(largest),
                                                         " is beyond the model's own maximum of ", *maximum, " positions")});
  }
  if (source.precision == Precision::kCompatF32 && SchemeOf(source.spec.spec).family == "bias") {
    warnings.push_back({"precision", "without effect: PRECISION_COMPAT_F32 is about angles, and biases have none"});
  }
  return warnings;
}

absl::Status DescribePrecompute(const PrecomputeItem& item, const PlanEntry& plan, const CallContext& call,
                                PrecomputeResult* result) {
  const absl::Status status = std::holds_alternative<TableRequest>(item.window) ? DescribeTable(item, plan, call, result)
                                                                                : DescribeBias(item, plan, result);
  if (!status.ok()) return status;
  result->payload_bytes = item.payload_bytes;
  result->attention_factor = plan.resolved.attention_factor;
  result->softmax_scale_multiplier = plan.resolved.softmax_scale_multiplier;
  return absl::OkStatus();
}

absl::Status DescribeApply(const ApplyItem& item, const PlanEntry& plan, const CallContext& call, ApplyResult* result) {
  if (plan.angle() == nullptr) return absl::UnimplementedError("only rotations are applied to tensors");
  TableContent content;
  content.positions = &item.positions;
  content.columns = plan.angle()->pairs();
  content.inverse = DividesByFactor(*plan.angle(), item.inverse);
  const DType dtype = item.tensors.empty() ? DType::kF32 : TableTypeFor(item.tensors.front().dtype);
  auto fingerprint = TableFingerprint(plan.hash, content, dtype, &call);
  if (!fingerprint.ok()) return fingerprint.status();
  result->fingerprint = *std::move(fingerprint);
  result->warnings = WarningsFor(item.source, item.positions.last(), "positions");
  result->payload_bytes = item.payload_bytes;
  result->softmax_scale_multiplier = plan.resolved.softmax_scale_multiplier;
  for (const TensorInput& tensor : item.tensors) {
    if (tensor.head_dim < 2 * plan.angle()->pairs())
      return absl::InvalidArgumentError("a head is narrower than the rotation");
    result->tensors.push_back(Array{tensor.dtype, tensor.shape, tensor.strides, {}});
  }
  return absl::OkStatus();
}

}  // namespace phasor::server
