#include "server/response_writer.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

#include "proto/raw/message_writer.h"
#include "proto/raw/payloads.h"
#include "server/grpc_status.h"

namespace phasor::server {
namespace {

std::string ItemPath(size_t index) { return absl::StrCat("items[", index, "]."); }

void Write(const StageTimes& stages, v1::StageTimes* out) {
  out->set_decode_ns(stages.decode_ns);
  out->set_queue_ns(stages.queue_ns);
  out->set_build_ns(stages.build_ns);
  out->set_copy_ns(stages.copy_ns);
}

v1::CacheOutcome ToProto(CacheOutcome outcome) {
  switch (outcome) {
    case CacheOutcome::kNone:
      return v1::CACHE_OUTCOME_UNSPECIFIED;
    case CacheOutcome::kHit:
      return v1::CACHE_OUTCOME_HIT;
    case CacheOutcome::kPartial:
      return v1::CACHE_OUTCOME_PARTIAL;
    case CacheOutcome::kMiss:
      return v1::CACHE_OUTCOME_MISS;
    case CacheOutcome::kCoalesced:
      return v1::CACHE_OUTCOME_COALESCED;
    case CacheOutcome::kBypass:
      return v1::CACHE_OUTCOME_BYPASS;
  }
  return v1::CACHE_OUTCOME_UNSPECIFIED;
}

// The array, its bytes in `payloads`. Data that the caller asked not to get is left out; an array without elements has data,
// and it is empty.
void Write(Array&& array, raw::Payloads* payloads, v1::Tensor* out) {
  out->set_dtype(static_cast<v1::Dtype>(array.dtype));
  out->mutable_shape()->Add(array.shape.begin(), array.shape.end());
  out->mutable_strides()->Add(array.strides.begin(), array.strides.end());
  const bool no_elements = std::find(array.shape.begin(), array.shape.end(), 0) != array.shape.end();
  if (array.data.empty() && !no_elements) return;
  for (Bytes& piece : array.data) {
    payloads->AddPiece({std::move(piece.owner), piece.data, static_cast<size_t>(piece.size)});
  }
  out->set_data(payloads->Close());
}

// What results of both methods have in common. False: the item failed and the answer is complete.
template <typename R, typename M>
bool WriteCommon(const R& result, size_t index, std::string_view backend, M* out) {
  Write(result.stages, out->mutable_stages());
  if (!result.status.ok()) {
    // The parser's errors know their item; those of the kernels library know the field of the spec only.
    const bool is_spec_error = SpecErrorOf(result.status).has_value();
    *out->mutable_status() = ToRpcStatus(is_spec_error ? AtPath(ItemPath(index), result.status) : result.status);
    return false;
  }
  out->set_backend(std::string(backend));
  out->set_payload_bytes(result.payload_bytes);
  out->set_fingerprint(result.fingerprint);
  if constexpr (requires { result.cache; }) {
    out->set_cache(ToProto(result.cache));
    if (result.softmax_scale_multiplier) out->set_softmax_scale_multiplier(*result.softmax_scale_multiplier);
    out->mutable_rope_delta()->Add(result.rope_delta.begin(), result.rope_delta.end());
  }
  for (const Note& note : result.warnings) {
    v1::Warning* warning = out->add_warnings();
    warning->set_field(note.field.empty() ? "" : absl::StrCat(ItemPath(index), note.field));
    warning->set_message(note.message);
  }
  return true;
}

}  // namespace

absl::StatusOr<grpc::ByteBuffer> WritePrecompute(Answer<PrecomputeResult>&& answer, std::string_view backend) {
  v1::PrecomputeResponse response;
  raw::Payloads payloads;
  Write(answer.stages, response.mutable_stages());
  for (size_t i = 0; i < answer.results.size(); ++i) {
    PrecomputeResult& result = answer.results[i];
    v1::PrecomputeResult* out = response.add_results();
    if (!WriteCommon(result, i, backend, out)) continue;
    out->set_not_modified(result.not_modified);
    out->set_attention_factor(result.attention_factor);
    if (result.inv_freq) Write(*std::move(result.inv_freq), &payloads, out->mutable_inv_freq());
    if (result.cos) Write(*std::move(result.cos), &payloads, out->mutable_cos());
    if (result.sin) Write(*std::move(result.sin), &payloads, out->mutable_sin());
    if (result.table) Write(*std::move(result.table), &payloads, out->mutable_table());
    if (result.bias) Write(*std::move(result.bias), &payloads, out->mutable_bias());
  }
  return raw::Join(response, raw::kPrecomputeResponse, payloads);
}

absl::StatusOr<grpc::ByteBuffer> WriteScores(Answer<ScoresResult>&& answer, std::string_view backend) {
  v1::ScoresResponse response;
  raw::Payloads payloads;
  Write(answer.stages, response.mutable_stages());
  for (size_t i = 0; i < answer.results.size(); ++i) {
    ScoresResult& result = answer.results[i];
    v1::ScoresResult* out = response.add_results();
    if (!WriteCommon(result, i, backend, out)) continue;
    out->set_scale(result.scale);
    if (result.scores) Write(*std::move(result.scores), &payloads, out->mutable_scores());
    if (result.values) Write(*std::move(result.values), &payloads, out->mutable_values());
  }
  return raw::Join(response, raw::kScoresResponse, payloads);
}

absl::StatusOr<grpc::ByteBuffer> WriteApply(Answer<ApplyResult>&& answer, std::string_view backend) {
  v1::ApplyResponse response;
  raw::Payloads payloads;
  Write(answer.stages, response.mutable_stages());
  for (size_t i = 0; i < answer.results.size(); ++i) {
    ApplyResult& result = answer.results[i];
    v1::ApplyResult* out = response.add_results();
    if (!WriteCommon(result, i, backend, out)) continue;
    for (Array& tensor : result.tensors) Write(std::move(tensor), &payloads, out->add_tensors());
  }
  return raw::Join(response, raw::kApplyResponse, payloads);
}

}  // namespace phasor::server
