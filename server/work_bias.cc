// Bias windows that no tile of the cache serves.
#include "server/work_bias.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/buckets.h"
#include "server/describe.h"
#include "server/fingerprint.h"
#include "server/grpc_status.h"
#include "server/work_parsers.h"

namespace phasor::server {
namespace {

// Values of a plan by distance.
class DistanceWork final : public BiasMatrixWork {
 public:
  // Positions written out that are the plain ones, and masks that hide nothing, leave the window that tiles serve.
  std::string PlainFingerprint(std::span<const Resolved* const> plans) const override {
    const BiasLayout& l = layout();
    if (l.masked || l.batch > 0 || !l.query_positions.positions.empty() || !l.key_positions.positions.empty()) return {};
    BiasRequest request = l.request;
    request.query_offset = l.bias_offset;
    return BiasFingerprint(plans[0]->plan, request, l.dtype);
  }

 protected:
  absl::StatusOr<ProgramStep> ValueStep(std::span<const Resolved* const> plans, const Values& values) const override {
    const std::optional<DistancePlan> plan = DistancePlanOf(plans[0]->plan);
    if (!plan) return absl::InternalError("a bias whose plan has no values by distance");
    BiasVectorTask task;
    task.plan = *plan;
    task.dtype = layout().dtype;
    task.first_distance = values.first;
    task.first_head = values.row * HeadsOf(*plan) + values.first_head;
    task.heads = values.heads;
    task.out = values.out;
    task.head_stride = values.head_stride;
    task.distances = values.distances;
    return ProgramStep::Of(task, values.count);
  }

  std::shared_ptr<BiasMatrixWork> Blank() const override { return std::make_shared<DistanceWork>(); }
};

// Row numbers by distance.
class IndexWork final : public BiasMatrixWork {
 public:
  explicit IndexWork(DistanceIndex index) : index_(std::move(index)) {}

 protected:
  absl::StatusOr<ProgramStep> ValueStep(std::span<const Resolved* const>, const Values& values) const override {
    constexpr int64_t kRowsPerSlice = 100000;
    const auto write = [this, values](RowRange rows, const CancelFlag*) {
      std::visit(
          [&](const auto& index) {
            for (int64_t i = rows.begin; i < rows.end; ++i) {
              const int64_t number =
                  index.at(values.distances.empty() ? values.first + i : values.distances[static_cast<size_t>(i)]);
              if (layout().dtype == DType::kI64) {
                reinterpret_cast<int64_t*>(values.out)[i] = number;
              } else {
                reinterpret_cast<int32_t*>(values.out)[i] = static_cast<int32_t>(number);
              }
            }
          },
          index_);
      return absl::OkStatus();
    };
    return ProgramStep::Of(write, values.count, kRowsPerSlice);
  }

  std::shared_ptr<BiasMatrixWork> Blank() const override { return std::make_shared<IndexWork>(index_); }

 private:
  const DistanceIndex index_;
};

// "spec.alibi".
std::string NameOf(const v1::EncodingSpec& spec) {
  return absl::StrCat("spec.", v1::EncodingSpec::descriptor()->FindFieldByNumber(spec.scheme_case())->name());
}

// The indices of a scheme whose tables are read by distance.
std::optional<DistanceIndex> IndexOf(const EncodingSpec& spec) {
  if (const auto* t5 = std::get_if<T5BucketSpec>(&spec)) {
    return DistanceBuckets(*t5->num_buckets, *t5->max_distance, *t5->bidirectional, t5->distance_divisor);
  }
  if (const auto* shaw = std::get_if<ShawSpec>(&spec)) return ClippedDistances{shaw->clip, shaw->key_minus_query};
  if (const auto* deberta = std::get_if<DebertaSpec>(&spec)) {
    return LogBuckets(*deberta->position_buckets, *deberta->max_relative_positions);
  }
  return std::nullopt;
}

ParsedWork ParseIndexWork(const v1::PrecomputeItem& message, DistanceIndex index, const TableSource& source,
                          ParseContext& context) {
  const v1::BiasWindow& window = message.bias();
  if (window.first_head() != 0)
    return InvalidField("bias.first_head", absl::StrCat(window.first_head()), "0: indices have no heads");
  if (window.has_head_count()) {
    return InvalidField("bias.head_count", absl::StrCat(window.head_count()), "unset: indices have no heads");
  }
  const auto dtype = ParseIndexType(message.dtype());
  if (!dtype.ok()) return dtype.status();
  auto work = std::make_shared<IndexWork>(std::move(index));
  work->sources = {source};
  if (auto status = work->Parse(window, 1, *dtype, /*indices=*/true, BiasForm::kFull, 0, context); !status.ok())
    return status;
  const LastPosition last = work->last_position(window);
  work->warnings = WarningsFor(source, static_cast<double>(last.position), last.field);
  return work;
}

ParsedWork ParseDistanceWork(const v1::PrecomputeItem& message, int64_t num_heads, const TableSource& source,
                             ParseContext& context) {
  const auto dtype = ParseValueType(message.dtype());
  if (!dtype.ok()) return dtype.status();
  const auto* alibi = std::get_if<AlibiSpec>(&source.spec.spec);
  const int64_t value_batch = alibi == nullptr ? 0 : static_cast<int64_t>(alibi->batch_slopes.size()) / num_heads;
  if (!IsComposed(message.bias()) && value_batch == 0) return nullptr;
  auto work = std::make_shared<DistanceWork>();
  work->sources = {source};
  const auto status =
      work->Parse(message.bias(), num_heads, *dtype, /*indices=*/false, BiasForm::kVector, value_batch, context);
  if (!status.ok()) return status;
  const LastPosition last = work->last_position(message.bias());
  work->warnings = WarningsFor(source, static_cast<double>(last.position), last.field);
  return work;
}

}  // namespace

ParsedWork ParseBiasWork(const v1::PrecomputeItem& message, const TableSource& source, ParseContext& context) {
  ParsedWork special = ParseWindowBiasWork(message, source, context);
  if (!special.ok() || *special != nullptr) return special;
  const EncodingSpec& spec = source.spec.spec;
  if (message.bias().indices()) {
    std::optional<DistanceIndex> index = IndexOf(spec);
    if (index) return ParseIndexWork(message, *std::move(index), source, context);
    return InvalidField("bias.indices", absl::StrCat("indices of ", NameOf(message.spec())),
                        "unset: the scheme has no indices");
  }
  if (const auto heads = DistanceHeadsOf(spec)) return ParseDistanceWork(message, *heads, source, context);
  if (std::holds_alternative<T5BucketSpec>(spec)) {
    return InvalidField("spec.weights", "nothing", "table [num_buckets, heads]: only indices can be had without it");
  }
  return InvalidField("bias", absl::StrCat("a bias for ", NameOf(message.spec())), "a scheme that has values of a bias");
}

}  // namespace phasor::server
