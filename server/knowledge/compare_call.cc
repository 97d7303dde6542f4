#include <algorithm>
#include <optional>

#include "server/grpc_status.h"
#include "server/knowledge/calls.h"
#include "server/knowledge/compare.h"
#include "server/knowledge/side_call.h"
#include "server/knowledge/spec_fields.h"
#include "server/knowledge/wire_side.h"
#include "server/spec_parser.h"
#include "server/text.h"

namespace phasor::server {
namespace {

constexpr size_t kMaxFields = 256;

void Write(const DifferenceAt& from, v1::DifferenceAt* to) {
  to->set_index(from.index);
  to->set_max(from.max);
  to->set_rms(from.rms);
}

void WriteFields(const v1::CompareSpecsRequest& request, const SidePair& sides, v1::CompareSpecsResponse* response) {
  if (!sides.a.from_spec || !sides.b.from_spec) return;
  for (const FieldDifference& difference : DifferentFields(sides.a.spec->spec, sides.b.spec->spec, kMaxFields)) {
    auto* field = response->add_fields();
    field->set_field(difference.field);
    field->set_a(difference.a);
    field->set_b(difference.b);
  }
  if (request.a().compat_f32() != request.b().compat_f32()) {
    auto* field = response->add_fields();
    field->set_field("compat_f32");
    field->set_a(request.a().compat_f32() ? "true" : "false");
    field->set_b(request.b().compat_f32() ? "true" : "false");
  }
}

void WriteScores(const ScoreEffect& from, v1::ScoreEffect* to) {
  to->set_samples(from.samples);
  to->set_max_change(from.max_change);
  to->set_rms_change(from.rms_change);
  to->set_rms_score(from.rms_score);
  for (const DifferenceAt& at : from.by_distance) Write(at, to->add_by_distance());
}

void WriteTransformation(const Transformation& from, v1::Transformation* to) {
  to->set_kind(from.kind);
  to->set_how(from.how);
  to->mutable_permutation()->Add(from.permutation.begin(), from.permutation.end());
  to->set_shift(from.shift);
  to->set_scale(from.scale);
  to->set_position_factor(from.position_factor);
}

v1::CompareSpecsResponse ToProto(const v1::CompareSpecsRequest& request, const SidePair& sides, const Comparison& from) {
  v1::CompareSpecsResponse response;
  response.set_verdict(from.verdict);
  response.set_same_spec(from.same_spec);
  response.set_same_bits(from.same_bits);
  WriteFields(request, sides, &response);
  response.set_max_difference(from.max_difference);
  response.set_max_position(from.max_position);
  response.set_max_column(from.max_column);
  response.set_rms_difference(from.rms_difference);
  for (const DifferenceAt& at : from.by_position) Write(at, response.add_by_position());
  for (const DifferenceAt& at : from.by_column) Write(at, response.add_by_column());
  for (const FirstDifference& first : from.first_differences) {
    auto* to = response.add_first_differences();
    to->set_dtype(static_cast<v1::Dtype>(first.dtype));
    if (first.position) to->set_position(*first.position);
    to->set_share(first.share);
  }
  if (from.scores) WriteScores(*from.scores, response.mutable_scores());
  WriteTransformation(from.transformation, response.mutable_transformation());
  if (from.max_ulps) response.set_max_ulps(*from.max_ulps);
  return response;
}

}  // namespace

absl::StatusOr<v1::CompareSpecsResponse> CompareSpecs(const KnowledgeContext& context,
                                                      const v1::CompareSpecsRequest& request) {
  if (auto status = CheckRange("first_position", request.first_position(), 0, (int64_t{1} << 31) - 1); !status.ok())
    return status;
  if (auto status = CheckRange("count", request.count(), 0, kMaxComparedRows); !status.ok()) return status;
  std::optional<int64_t> length;
  if (request.has_sequence_length()) {
    if (auto status = CheckRange("sequence_length", request.sequence_length(), 1, kMaxSequenceLength); !status.ok())
      return status;
    length = request.sequence_length();
  }
  const auto sides = ReadSides(request.a(), "a", request.b(), "b", length, context.limits);
  if (!sides.ok()) return sides.status();
  std::optional<int64_t> first;
  if (request.first_position() > 0) first = request.first_position();
  const auto window = ChooseWindow(sides->a, &sides->b, first, request.count(), kDefaultRows);
  if (!window.ok()) return AtSide(request.b(), "b", window.status());
  const auto comparison = Compare(context.backend, sides->a, sides->b, *window, request.seed(), context.cancel);
  if (!comparison.ok()) return AtSide(request.b(), "b", comparison.status());
  return ToProto(request, *sides, *comparison);
}

}  // namespace phasor::server
