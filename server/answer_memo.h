// Answers to small requests that come again and again, found by the requests' bytes.
//
// Reading a request, finding its plan and tiles and writing its answer takes longer than all else about a small call. Where
// the same bytes have led to the same bytes before, and nothing but the table cache was asked, the answer is kept whole.
#ifndef PHASOR_SERVER_ANSWER_MEMO_H_
#define PHASOR_SERVER_ANSWER_MEMO_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "grpcpp/support/byte_buffer.h"
#include "phasor/v1/position_service.pb.h"

#include "server/engine.h"

namespace phasor::server {

// Thread-safe. Answers of the same request are equal but for the times that they tell, so the most recent one serves.
class AnswerMemo {
 public:
  // Longest request and answer, bytes, and how much all of them may take.
  static constexpr size_t kMaxRequestBytes = 1024;
  static constexpr size_t kMaxAnswerBytes = size_t{16} << 10;
  static constexpr size_t kMaxBytes = size_t{4} << 20;

  using Bytes = std::shared_ptr<const std::string>;

  // The answer to exactly these bytes, or null.
  Bytes Find(std::string_view request);

  // How often Clear was called: to be taken before the answer is looked for in the table cache.
  uint64_t generation() const { return generation_.load(std::memory_order_relaxed); }

  // The table cache has answered `request`. Calls `make` for the bytes to keep when the request was offered before, lately;
  // `make` gives an empty string when the answer must not be kept. Nothing happens after a Clear that came after
  // `generation`.
  void Offer(std::string_view request, uint64_t generation, const std::function<std::string()>& make);

  // Forgets all: the table cache was told to.
  void Clear();

  struct Stats {
    int64_t answers = 0, bytes = 0;
    int64_t found = 0;  // since start
  };
  Stats stats() const;

 private:
  struct Entry {
    std::string request;
    Bytes answer;
    size_t bytes() const { return request.size() + answer->size() + kOverhead; }
  };
  // What a node of the list, its place in the table and two blocks of malloc take, about.
  static constexpr size_t kOverhead = 192;
  using Entries = std::list<Entry>;

  bool OfferedBefore(size_t hash);
  void Drop(Entries::iterator entry);

  std::atomic<uint64_t> generation_{0};
  std::atomic<int64_t> found_{0};
  mutable std::mutex mutex_;  // of all below
  Entries entries_;           // the one used last first
  std::unordered_map<std::string_view, Entries::iterator> by_request_;
  size_t bytes_ = 0;
  std::array<size_t, 1024> offered_{};  // hashes, each in its place
};

// Whether the bytes of a request of Precompute say all there is to its answer: no tensor lies elsewhere and no region is
// asked for.
bool SaysAll(const v1::PrecomputeRequest& request);

// An answer's bytes without its times; empty when they are no answer or more than kMaxAnswerBytes.
std::string WithoutTimes(const grpc::ByteBuffer& answer);

// These bytes as an answer that took the times given.
grpc::ByteBuffer WithTimes(const std::string& answer, const StageTimes& stages);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_ANSWER_MEMO_H_
