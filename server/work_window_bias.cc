// Bias windows of schemes over windows of an image, and of learned functions of positions.
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "kernels/program/window_bias.h"
#include "server/describe.h"
#include "server/fingerprint.h"
#include "server/window_layout.h"
#include "server/work_parsers.h"

namespace phasor::server {
namespace {

// The mask's place at the start of scratch; what follows keeps its alignment.
constexpr int64_t kRuleBytes = 512;
static_assert(sizeof(MaskRule) <= kRuleBytes && std::is_trivially_destructible_v<MaskRule>);

class WindowBiasWork final : public Work {
 public:
  explicit WindowBiasWork(WindowLayout layout) : layout_(std::move(layout)) {}

  absl::StatusOr<std::vector<ProgramStep>> Steps(std::span<const Resolved* const> plans,
                                                 const WorkMemory& memory) const override {
    std::vector<ProgramStep> steps;
    const Plan& plan = plans[0]->plan;
    const BiasRequest& request = layout_.request;
    std::byte* out = memory.outputs[0];
    std::byte* scratch = memory.scratch + kRuleBytes;
    if (layout_.indices) {
      AppendWindowIndexSteps(std::get<WindowBiasPlan>(plan).window, layout_.dtype, out, scratch, &steps);
      return steps;
    }
    if (request.form == BiasForm::kVector) {
      AppendBiasVectorSteps(plan, layout_.dtype, request.first_head, request.heads, layout_.first_distance,
                            request.queries + request.keys - 1, out, scratch, &steps);
      return steps;
    }
    for (int64_t b = 0; b < (layout_.rows_differ ? layout_.batch_rows() : 1); ++b) {
      AppendBiasSteps(plan, Part(b, out + b * layout_.part_bytes()), scratch, &steps);
    }
    if (!layout_.rows_differ && layout_.batch_rows() > 1) steps.push_back(CopyStep(out));
    if (layout_.masked) {
      const void* additive = memory.inputs.empty() ? nullptr : memory.inputs[0];
      const auto* rule = new (memory.scratch) MaskRule(RuleOf(layout_.masking, request.query_offset, additive));
      steps.push_back(
          MaskStep(*rule, layout_.dtype, layout_.batch_rows(), request.heads, layout_.rows(), request.keys, out));
    }
    return steps;
  }

 private:
  BiasPart Part(int64_t batch_row, void* out) const {
    const auto row_of = [batch_row](const PlaceRows& rows, int64_t count) {
      return std::span<const int64_t>(rows.places)
          .subspan(static_cast<size_t>(batch_row * rows.stride), rows.places.empty() ? 0 : static_cast<size_t>(count));
    };
    return {.dtype = layout_.dtype,
            .first_head = layout_.request.first_head,
            .heads = layout_.request.heads,
            .batch_row = batch_row,
            .query_positions = row_of(layout_.queries, layout_.rows()),
            .key_positions = row_of(layout_.keys, layout_.request.keys),
            .key_padding = Padding(batch_row),
            .out = out};
  }

  std::span<const uint8_t> Padding(int64_t batch_row) const {
    const Masking& masking = layout_.masking;
    if (masking.key_padding.empty()) return {};
    return std::span(masking.key_padding)
        .subspan(static_cast<size_t>(batch_row * masking.key_padding_batch_stride),
                 static_cast<size_t>(layout_.request.keys));
  }

  // The first batch row to all others.
  ProgramStep CopyStep(std::byte* out) const {
    static constexpr int64_t kPiece = int64_t{1} << 18;
    const int64_t bytes = layout_.part_bytes(), pieces = (bytes + kPiece - 1) / kPiece;
    const auto copy = [out, bytes, pieces](RowRange rows, const CancelFlag*) {
      for (int64_t row = rows.begin; row < rows.end; ++row) {
        const int64_t at = row % pieces * kPiece;
        std::memcpy(out + (1 + row / pieces) * bytes + at, out + at, static_cast<size_t>(std::min(kPiece, bytes - at)));
      }
      return absl::OkStatus();
    };
    return ProgramStep::Of(copy, (layout_.batch_rows() - 1) * pieces, 8);
  }

  const WindowLayout layout_;
};

int64_t ScratchBytes(const EncodingSpec& spec, const WindowLayout& layout) {
  const BiasRequest& request = layout.request;
  if (layout.indices) return BiasScratchBytes(spec, layout.dtype, 1, 1, 1);
  if (request.form == BiasForm::kVector) {
    return BiasScratchBytes(spec, layout.dtype, request.heads, 1, request.queries + request.keys - 1);
  }
  return BiasScratchBytes(spec, layout.dtype, request.heads, layout.rows(), request.keys);
}

void AppendPlaces(const PlaceRows& rows, std::string* key) {
  absl::StrAppend(key, " ", rows.stride, ",", rows.places.size(), ":");
  const char* bytes = reinterpret_cast<const char*>(rows.places.data());
  *key += Sha256(std::string_view(bytes, rows.places.size() * sizeof(int64_t)));
}

absl::Status CheckProducts(const EncodingSpec& spec, const WindowLayout& layout, const Limits& limits) {
  const auto follow = [](const PlaceRows& rows) {
    for (size_t i = 1; i < rows.places.size(); ++i) {
      if (rows.places[i] != rows.places[i - 1] + 1) return false;
    }
    return true;
  };
  if (layout.indices) return absl::OkStatus();
  const int64_t batch = layout.rows_differ ? layout.batch_rows() : 1;
  return CheckFunctionProducts("bias", spec, batch, layout.rows(), layout.request.keys,
                               follow(layout.queries) && follow(layout.keys), limits);
}

LastPosition LastPositionOf(const v1::BiasWindow& window, const WindowLayout& layout) {
  const BiasRequest& request = layout.request;
  const auto largest_of = [](const PlaceRows& rows, int64_t otherwise) {
    return rows.places.empty() ? otherwise : *std::max_element(rows.places.begin(), rows.places.end());
  };
  return LastOf(window, largest_of(layout.queries, request.query_offset + request.queries - 1),
                largest_of(layout.keys, request.keys - 1));
}

// Shapes and the plan say the rest.
std::string KeyOf(const WindowLayout& layout) {
  const BiasRequest& request = layout.request;
  std::string key = absl::StrCat("window-bias ", layout.indices ? 1 : 0, " ", static_cast<int>(request.form), " ",
                                 request.first_head, " ", layout.first_distance);
  AppendPlaces(layout.queries, &key);
  AppendPlaces(layout.keys, &key);
  if (layout.masked) absl::StrAppend(&key, " masked ", request.query_offset, " ");
  if (layout.masked) key += layout.masking_key;
  return key;
}

}  // namespace

ParsedWork ParseWindowBiasWork(const v1::PrecomputeItem& message, const TableSource& source, ParseContext& context) {
  const EncodingSpec& spec = source.spec.spec;
  const std::optional<BiasTraits> traits = TraitsOf(spec);
  if (!traits) return nullptr;
  absl::StatusOr<WindowLayout> layout = ParseWindowLayout(message, std::string(SchemeOf(spec).name), *traits, context);
  if (!layout.ok()) return layout.status();
  auto array = ArrayOf(*layout, context.limits);
  if (!array.ok()) return array.status();
  if (auto status = CheckProducts(spec, *layout, context.limits); !status.ok()) return status;
  std::vector<WorkInput> inputs;
  if (layout->additive) inputs.push_back(*std::exchange(layout->additive, std::nullopt));
  const int64_t scratch_bytes = kRuleBytes + ScratchBytes(spec, *layout);
  const LastPosition last = traits->tokens > 0 ? LastPosition() : LastPositionOf(message.bias(), *layout);
  std::string key = KeyOf(*layout);
  auto work = std::make_shared<WindowBiasWork>(*std::move(layout));
  work->sources = {source};
  work->inputs = std::move(inputs);
  work->outputs = {*std::move(array)};
  work->scratch_bytes = scratch_bytes;
  work->key = std::move(key);
  work->warnings = WarningsFor(source, static_cast<double>(last.position), last.field);
  if (source.max_position && traits->tokens > 0) {
    work->warnings.push_back({"max_position", "without effect: the tokens of a window have their places"});
  }
  return work;
}

}  // namespace phasor::server
