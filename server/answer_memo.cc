#include "server/answer_memo.h"

#include <cstring>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "grpcpp/impl/codegen/proto_utils.h"

#include "server/method.h"

namespace phasor::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// absl's hashes are seeded anew in every process: nobody can aim for one place.
size_t HashOf(std::string_view request) { return absl::HashOf(absl::string_view(request.data(), request.size())); }

// A tensor that is anywhere but in the message, or memory of the caller's.
bool LiesElsewhere(const Message& message) {
  const auto* type = message.GetDescriptor();
  if (type == v1::Upload::descriptor() || type == v1::SharedMemory::descriptor() || type == v1::DeviceMemory::descriptor()) {
    return true;
  }
  const auto* reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      if (LiesElsewhere(reflection->GetMessage(message, field))) return true;
      continue;
    }
    for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
      if (LiesElsewhere(reflection->GetRepeatedMessage(message, field, i))) return true;
    }
  }
  return false;
}

}  // namespace

AnswerMemo::Bytes AnswerMemo::Find(std::string_view request) {
  const std::lock_guard lock(mutex_);
  const auto found = by_request_.find(request);
  if (found == by_request_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  found_.fetch_add(1, std::memory_order_relaxed);
  return found->second->answer;
}

void AnswerMemo::Offer(std::string_view request, uint64_t generation, const std::function<std::string()>& make) {
  {
    const std::lock_guard lock(mutex_);
    if (by_request_.count(request) > 0 || !OfferedBefore(HashOf(request))) return;
  }
  auto answer = std::make_shared<const std::string>(make());
  if (answer->empty()) return;
  const std::lock_guard lock(mutex_);
  if (generation != generation_.load(std::memory_order_relaxed) || by_request_.count(request) > 0) return;
  entries_.push_front({std::string(request), std::move(answer)});
  by_request_.emplace(entries_.front().request, entries_.begin());
  bytes_ += entries_.front().bytes();
  while (bytes_ > kMaxBytes) Drop(std::prev(entries_.end()));
}

// Most requests come once: their answers are not worth keeping.
bool AnswerMemo::OfferedBefore(size_t hash) { return std::exchange(offered_[hash % offered_.size()], hash) == hash; }

void AnswerMemo::Drop(Entries::iterator entry) {
  bytes_ -= entry->bytes();
  by_request_.erase(entry->request);
  entries_.erase(entry);
}

void AnswerMemo::Clear() {
  const std::lock_guard lock(mutex_);
  generation_.fetch_add(1, std::memory_order_relaxed);
  by_request_.clear();
  entries_.clear();
  bytes_ = 0;
}

AnswerMemo::Stats AnswerMemo::stats() const {
  const std::lock_guard lock(mutex_);
  return {static_cast<int64_t>(entries_.size()), static_cast<int64_t>(bytes_), found_.load(std::memory_order_relaxed)};
}

bool SaysAll(const v1::PrecomputeRequest& request) {
  for (const v1::PrecomputeItem& item : request.items()) {
    if (item.share()) return false;
  }
  return !LiesElsewhere(request);
}

std::string WithoutTimes(const grpc::ByteBuffer& answer) {
  v1::PrecomputeResponse response;
  grpc::ByteBuffer copy(answer);
  if (!ParseMessage(&copy, &response).ok()) return "";
  response.clear_stages();
  for (v1::PrecomputeResult& result : *response.mutable_results()) result.clear_stages();
  std::string bytes;
  if (!response.SerializeToString(&bytes) || bytes.size() > AnswerMemo::kMaxAnswerBytes) return "";
  return bytes;
}

grpc::ByteBuffer WithTimes(const std::string& answer, const StageTimes& stages) {
  // Fields of a message may come in parts, one after the other.
  v1::PrecomputeResponse times;
  times.mutable_stages()->set_decode_ns(stages.decode_ns);
  times.mutable_stages()->set_queue_ns(stages.queue_ns);
  times.mutable_stages()->set_build_ns(stages.build_ns);
  times.mutable_stages()->set_copy_ns(stages.copy_ns);
  const size_t more = times.ByteSizeLong();
  grpc::Slice slice(answer.size() + more);
  auto* const bytes = const_cast<uint8_t*>(slice.begin());  // nobody else has the slice yet
  std::memcpy(bytes, answer.data(), answer.size());
  times.SerializeWithCachedSizesToArray(bytes + answer.size());
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace phasor::server
