// Content that callers sent once (UploadTensor) and name by its SHA-256 afterwards.
#ifndef PHASOR_SERVER_UPLOAD_STORE_H_
#define PHASOR_SERVER_UPLOAD_STORE_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace phasor::server {

namespace internal {
class UploadLedger;
class UploadRoom;
}  // namespace internal

struct UploadOptions {
  int64_t total_bytes = int64_t{2} << 30;  // of all content together
  int64_t peer_bytes = int64_t{1} << 30;   // of the content that one peer sent
  std::chrono::milliseconds ttl{std::chrono::hours(1)};
};

// Immutable bytes; `data` is aligned to 64 and not null. Held by everyone who uses them: they outlive their place in the
// store, and the store. Their room is free again when the last holder lets go.
struct UploadContent {
  std::string sha256;  // 32 bytes
  int64_t size = 0;    // ≥ 1
  std::shared_ptr<const std::byte> data;
};

class UploadStore;

// Content on its way. Memory for all of it is there from the start, but pages that nothing was written to cost nothing.
// Destroyed before Finish, it gives its room back. Used by one thread at a time.
class Upload {
 public:
  ~Upload();
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  int64_t size() const { return size_; }
  int64_t received() const { return received_; }

  // The next bytes. `bytes` ≤ size − received.
  void Append(const std::byte* data, int64_t bytes);

  // Puts the content into the store; all of it must have been appended. Content that is there already is not stored twice.
  // Error: INVALID_ARGUMENT, message = the content's SHA-256 in hex, when `expected` (32 bytes, or empty: not compared) is
  // another one. Once.
  absl::StatusOr<std::shared_ptr<const UploadContent>> Finish(std::string_view expected);

 private:
  friend class UploadStore;
  class Hash;
  Upload(UploadStore* store, std::shared_ptr<internal::UploadRoom> room, std::shared_ptr<std::byte> data, int64_t size);

  UploadStore* const store_;
  std::shared_ptr<internal::UploadRoom> room_;
  std::shared_ptr<std::byte> data_;
  const int64_t size_;
  int64_t received_ = 0;
  std::unique_ptr<Hash> hash_;
};

// Thread-safe. Content is kept for the time to live after its last use, and a promise is kept: nothing leaves earlier to
// make room. Who would exceed a quota is refused. Uploads must not outlive the store.
class UploadStore {
 public:
  explicit UploadStore(const UploadOptions& options);
  ~UploadStore();
  UploadStore(const UploadStore&) = delete;
  UploadStore& operator=(const UploadStore&) = delete;

  // The content with this hash, or null. Counts as a use.
  std::shared_ptr<const UploadContent> Find(std::string_view sha256);

  // Room for `size` ≥ 1 bytes of `peer`. RESOURCE_EXHAUSTED when a quota is in the way, or the system has no memory; the
  // message says which.
  absl::StatusOr<std::unique_ptr<Upload>> Begin(const std::string& peer, int64_t size);

  struct Stats {
    int64_t bytes = 0;    // that count against the quota: stored, on their way, and expired but still in use
    int64_t objects = 0;  // stored
    int64_t stored = 0, expired = 0, refused = 0, found = 0, missed = 0;  // since start
  };
  Stats stats() const;
  const UploadOptions& options() const { return options_; }

 private:
  friend class Upload;
  using Clock = std::chrono::steady_clock;
  struct Node {
    std::shared_ptr<const UploadContent> content;
    Clock::time_point last_use;
  };
  using Nodes = std::list<Node>;

  std::shared_ptr<const UploadContent> Add(std::shared_ptr<const UploadContent> content);
  std::shared_ptr<const UploadContent> Touch(std::string_view sha256);  // with the lock held
  void Expire();                                                        // the thread's loop

  const UploadOptions options_;
  const std::shared_ptr<internal::UploadLedger> ledger_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  Nodes nodes_;  // the most recently used first
  std::unordered_map<std::string, Nodes::iterator> by_hash_;
  Stats stats_;  // bytes and objects are filled in when asked for
  std::thread thread_;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_UPLOAD_STORE_H_
