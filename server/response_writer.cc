#include "server/response_writer.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

#include "proto/raw/crc32c.h"
#include "proto/raw/message_writer.h"
#include "proto/raw/payloads.h"
#include "server/device_access.h"
#include "server/device_store.h"
#include "server/grpc_status.h"
#include "server/header_arena.h"
#include "server/region_access.h"

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

// Answers of less are one slice: referring to their arrays would cost more than copying them.
constexpr int64_t kCopyAnswerBelow = 4096;
constexpr size_t kMostItemsInside = 64;

// Where the bytes of an answer's arrays go: into the message, or beside it.
struct Placed {
  raw::Payloads payloads;
  bool inside = false;
};

// The array, its bytes as `placed` says. Data that the caller asked not to get is left out; an array without elements has
// data, and it is empty.
void Write(Array&& array, Placed* placed, v1::Tensor* out) {
  out->set_dtype(static_cast<v1::Dtype>(array.dtype));
  out->mutable_shape()->Add(array.shape.begin(), array.shape.end());
  out->mutable_strides()->Add(array.strides.begin(), array.strides.end());
  const bool no_elements = std::find(array.shape.begin(), array.shape.end(), 0) != array.shape.end();
  if (array.data.empty() && !no_elements) return;
  if (array.region != nullptr && !array.data.empty()) {
    v1::SharedMemory* place = out->mutable_shared_memory();
    place->set_region(array.region->name());
    place->set_offset_bytes(static_cast<uint64_t>(array.data.front().data - array.region->data()));
    place->set_size_bytes(static_cast<uint64_t>(array.data.front().size));
    return;
  }
  if (array.allocation != nullptr && !array.data.empty()) {
    const Bytes& place = array.data.front();
    return Write(*array.allocation, place.data - array.allocation->data(), place.size, out->mutable_device());
  }
  if (placed->inside) {
    std::string* const data = out->mutable_data();
    data->reserve(static_cast<size_t>(TotalSize(array.data)));
    for (const Bytes& piece : array.data) {
      data->append(reinterpret_cast<const char*>(piece.data), static_cast<size_t>(piece.size));
    }
    return;
  }
  for (Bytes& piece : array.data) {
    placed->payloads.AddPiece({std::move(piece.owner), piece.data, static_cast<size_t>(piece.size)});
  }
  out->set_data(placed->payloads.Close());
}

google::rpc::Status StatusOf(const absl::Status& status, size_t index) {
  // The parser's errors know their item; those of the kernels library know the field of the spec only.
  return ToRpcStatus(SpecErrorOf(status).has_value() ? AtPath(ItemPath(index), status) : status);
}

// What results of both methods have in common. False: the item failed and the answer is complete.
template <typename R, typename M>
bool WriteCommon(const R& result, size_t index, std::string_view backend, M* out) {
  Write(result.stages, out->mutable_stages());
  if (!result.status.ok()) {
    *out->mutable_status() = StatusOf(result.status, index);
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

void WriteResult(PrecomputeResult&& result, size_t index, std::string_view backend, Placed* placed,
                 v1::PrecomputeResult* out) {
  if (!WriteCommon(result, index, backend, out)) return;
  out->set_not_modified(result.not_modified);
  out->set_attention_factor(result.attention_factor);
  if (result.inv_freq) Write(*std::move(result.inv_freq), placed, out->mutable_inv_freq());
  if (result.cos) Write(*std::move(result.cos), placed, out->mutable_cos());
  if (result.sin) Write(*std::move(result.sin), placed, out->mutable_sin());
  if (result.table) Write(*std::move(result.table), placed, out->mutable_table());
  if (result.bias) Write(*std::move(result.bias), placed, out->mutable_bias());
  if (result.shared_region) Write(*result.shared_region, result.shared_lease, out->mutable_shared_region());
}

void WriteResult(ApplyResult&& result, size_t index, std::string_view backend, Placed* placed, v1::ApplyResult* out) {
  if (!WriteCommon(result, index, backend, out)) return;
  for (Array& tensor : result.tensors) Write(std::move(tensor), placed, out->add_tensors());
}

void WriteResult(ScoresResult&& result, size_t index, std::string_view backend, Placed* placed, v1::ScoresResult* out) {
  if (!WriteCommon(result, index, backend, out)) return;
  out->set_scale(result.scale);
  if (result.scores) Write(*std::move(result.scores), placed, out->mutable_scores());
  if (result.values) Write(*std::move(result.values), placed, out->mutable_values());
}

// Of its arrays.
int64_t BytesOf(const PrecomputeResult& result) {
  int64_t bytes = 0;
  for (const std::optional<Array>* array : {&result.inv_freq, &result.cos, &result.sin, &result.table, &result.bias}) {
    if (*array) bytes += TotalSize((*array)->data);
  }
  return bytes;
}
int64_t BytesOf(const ScoresResult& result) {
  return (result.scores ? TotalSize(result.scores->data) : 0) + (result.values ? TotalSize(result.values->data) : 0);
}
int64_t BytesOf(const ApplyResult& result) {
  int64_t bytes = 0;
  for (const Array& tensor : result.tensors) bytes += TotalSize(tensor.data);
  return bytes;
}

absl::StatusOr<grpc::ByteBuffer> Serialize(const google::protobuf::MessageLite& message) {
  grpc::Slice slice(message.ByteSizeLong());
  auto* const bytes = const_cast<uint8_t*>(slice.begin());  // nobody else has the slice yet
  message.SerializeWithCachedSizesToArray(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

template <typename M, typename R>
absl::StatusOr<grpc::ByteBuffer> WriteBatch(Answer<R>&& answer, std::string_view backend, const raw::Node& schema) {
  HeaderArena arena;
  M* const response = arena.New<M>();
  Placed placed;
  int64_t bytes = 0;
  for (const R& result : answer.results) bytes += BytesOf(result);
  placed.inside = bytes < kCopyAnswerBelow && answer.results.size() <= kMostItemsInside;
  Write(answer.stages, response->mutable_stages());
  for (size_t i = 0; i < answer.results.size(); ++i) {
    WriteResult(std::move(answer.results[i]), i, backend, &placed, response->add_results());
  }
  return placed.inside ? Serialize(*response) : raw::Join(*response, schema, placed.payloads);
}

void WriteChunk(v1::ResultArray name, std::optional<Array>&& array, bool checksums, raw::Payloads* payloads,
                v1::StreamChunk* out) {
  if (!array) return;
  v1::ChunkData* data = out->add_arrays();
  data->set_array(name);
  for (Bytes& piece : array->data) {
    payloads->AddPiece({std::move(piece.owner), piece.data, static_cast<size_t>(piece.size)});
  }
  data->set_data(payloads->Close());
  if (checksums) data->set_crc32c(raw::Crc32c(*payloads->Find(data->data())));
}

}  // namespace

absl::StatusOr<grpc::ByteBuffer> WritePrecompute(Answer<PrecomputeResult>&& answer, std::string_view backend) {
  return WriteBatch<v1::PrecomputeResponse>(std::move(answer), backend, raw::kPrecomputeResponse);
}

absl::StatusOr<grpc::ByteBuffer> WriteScores(Answer<ScoresResult>&& answer, std::string_view backend) {
  return WriteBatch<v1::ScoresResponse>(std::move(answer), backend, raw::kScoresResponse);
}

absl::StatusOr<grpc::ByteBuffer> WriteApply(Answer<ApplyResult>&& answer, std::string_view backend) {
  return WriteBatch<v1::ApplyResponse>(std::move(answer), backend, raw::kApplyResponse);
}

absl::StatusOr<grpc::ByteBuffer> WriteStreamHeader(size_t item, PrecomputeResult&& described, const StreamExtent& extent,
                                                   int64_t first_row, std::string_view backend) {
  v1::StreamPrecomputeResponse response;
  Placed placed;
  response.set_item(static_cast<int64_t>(item));
  v1::StreamHeader* header = response.mutable_header();
  WriteResult(std::move(described), item, backend, &placed, header->mutable_result());
  header->mutable_result()->clear_stages();
  header->set_rows(extent.rows);
  header->set_first_row(first_row);
  return raw::Join(response, raw::kStreamPrecomputeResponse, placed.payloads);
}

absl::StatusOr<grpc::ByteBuffer> WriteStreamChunk(size_t item, PrecomputeResult&& part, int64_t offset, bool checksums) {
  v1::StreamPrecomputeResponse response;
  raw::Payloads payloads;
  response.set_item(static_cast<int64_t>(item));
  v1::StreamChunk* chunk = response.mutable_chunk();
  chunk->set_offset_bytes(offset);
  WriteChunk(v1::RESULT_ARRAY_INV_FREQ, std::move(part.inv_freq), checksums, &payloads, chunk);
  WriteChunk(v1::RESULT_ARRAY_COS, std::move(part.cos), checksums, &payloads, chunk);
  WriteChunk(v1::RESULT_ARRAY_SIN, std::move(part.sin), checksums, &payloads, chunk);
  WriteChunk(v1::RESULT_ARRAY_TABLE, std::move(part.table), checksums, &payloads, chunk);
  WriteChunk(v1::RESULT_ARRAY_BIAS, std::move(part.bias), checksums, &payloads, chunk);
  return raw::Join(response, raw::kStreamPrecomputeResponse, payloads);
}

absl::StatusOr<grpc::ByteBuffer> WriteApplyHeader(size_t item, ApplyResult&& described, std::string_view backend) {
  v1::StreamApplyResponse response;
  Placed placed;
  response.set_item(static_cast<int64_t>(item));
  WriteResult(std::move(described), item, backend, &placed, response.mutable_header());
  response.mutable_header()->clear_stages();
  return raw::Join(response, raw::kStreamApplyResponse, placed.payloads);
}

absl::StatusOr<grpc::ByteBuffer> WriteTensorChunk(size_t item, size_t tensor, int64_t offset, Chunks&& data,
                                                  bool checksums) {
  v1::StreamApplyResponse response;
  raw::Payloads payloads;
  response.set_item(static_cast<int64_t>(item));
  v1::TensorChunk* chunk = response.mutable_chunk();
  chunk->set_tensor(static_cast<int64_t>(tensor));
  chunk->set_offset_bytes(offset);
  for (Bytes& piece : data) payloads.AddPiece({std::move(piece.owner), piece.data, static_cast<size_t>(piece.size)});
  chunk->set_data(payloads.Close());
  if (checksums) chunk->set_crc32c(raw::Crc32c(*payloads.Find(chunk->data())));
  return raw::Join(response, raw::kStreamApplyResponse, payloads);
}

template <typename M>
absl::StatusOr<grpc::ByteBuffer> WriteStreamEnd(size_t item, const absl::Status& status, int64_t sent_bytes,
                                                CacheOutcome cache, const StageTimes& stages) {
  M response;
  response.set_item(static_cast<int64_t>(item));
  v1::StreamEnd* end = response.mutable_end();
  if (!status.ok()) *end->mutable_status() = StatusOf(status, item);
  end->set_sent_bytes(sent_bytes);
  end->set_cache(ToProto(cache));
  Write(stages, end->mutable_stages());
  // An end has no payload in either message.
  return raw::Join(response, raw::kStreamPrecomputeResponse, {});
}
template absl::StatusOr<grpc::ByteBuffer> WriteStreamEnd<v1::StreamPrecomputeResponse>(size_t, const absl::Status&, int64_t,
                                                                                       CacheOutcome, const StageTimes&);
template absl::StatusOr<grpc::ByteBuffer> WriteStreamEnd<v1::StreamApplyResponse>(size_t, const absl::Status&, int64_t,
                                                                                  CacheOutcome, const StageTimes&);

}  // namespace phasor::server
