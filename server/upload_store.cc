#include "server/upload_store.h"

#include <openssl/evp.h>

#include <array>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace phasor::server {
namespace internal {

// Who holds how much. Outlives the store: contents may.
class UploadLedger {
 public:
  UploadLedger(int64_t total, int64_t per_peer) : total_limit_(total), peer_limit_(per_peer) {}

  absl::Status Take(const std::string& peer, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = by_peer_.find(peer);
    const int64_t of_peer = found == by_peer_.end() ? 0 : found->second;
    if (bytes > peer_limit_ - of_peer) {
      return absl::ResourceExhaustedError(absl::StrCat("uploads of this peer hold ", of_peer, " of ", peer_limit_,
                                                       " bytes (--upload-peer-bytes); this one needs ", bytes));
    }
    if (bytes > total_limit_ - total_) {
      return absl::ResourceExhaustedError(
          absl::StrCat("uploads hold ", total_, " of ", total_limit_, " bytes (--upload-bytes); this one needs ", bytes));
    }
    total_ += bytes;
    by_peer_[peer] += bytes;
    return absl::OkStatus();
  }

  void Return(const std::string& peer, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    total_ -= bytes;
    const auto found = by_peer_.find(peer);
    found->second -= bytes;
    if (found->second == 0) by_peer_.erase(found);
  }

  int64_t total() const {
    const std::lock_guard lock(mutex_);
    return total_;
  }

 private:
  const int64_t total_limit_, peer_limit_;
  mutable std::mutex mutex_;
  int64_t total_ = 0;
  std::unordered_map<std::string, int64_t> by_peer_;
};

// Bytes taken from the ledger, given back at the end.
class UploadRoom {
 public:
  UploadRoom(std::shared_ptr<UploadLedger> ledger, std::string peer, int64_t bytes)
      : ledger_(std::move(ledger)), peer_(std::move(peer)), bytes_(bytes) {}
  ~UploadRoom() { ledger_->Return(peer_, bytes_); }
  UploadRoom(const UploadRoom&) = delete;
  UploadRoom& operator=(const UploadRoom&) = delete;

 private:
  const std::shared_ptr<UploadLedger> ledger_;
  const std::string peer_;
  const int64_t bytes_;
};

}  // namespace internal

namespace {

constexpr std::align_val_t kAlignment{64};

// Null when the system has no memory. Held together with its room.
std::shared_ptr<std::byte> NewBytes(int64_t size, std::shared_ptr<internal::UploadRoom> room) {
  void* memory = ::operator new(static_cast<size_t>(size), kAlignment, std::nothrow);
  if (memory == nullptr) return nullptr;
  return {static_cast<std::byte*>(memory),
          [room = std::move(room)](std::byte* data) { ::operator delete(data, kAlignment); }};
}

std::string Hex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

}  // namespace

// SHA-256 of bytes as they come.
class Upload::Hash {
 public:
  Hash() : context_(EVP_MD_CTX_new()) { EVP_DigestInit_ex(context_, EVP_sha256(), nullptr); }
  ~Hash() { EVP_MD_CTX_free(context_); }
  Hash(const Hash&) = delete;
  Hash& operator=(const Hash&) = delete;

  void Update(const std::byte* data, int64_t bytes) { EVP_DigestUpdate(context_, data, static_cast<size_t>(bytes)); }
  std::string Finish() {
    std::array<unsigned char, 32> digest{};
    EVP_DigestFinal_ex(context_, digest.data(), nullptr);
    return {reinterpret_cast<const char*>(digest.data()), digest.size()};
  }

 private:
  EVP_MD_CTX* const context_;
};

Upload::Upload(UploadStore* store, std::shared_ptr<internal::UploadRoom> room, std::shared_ptr<std::byte> data, int64_t size)
    : store_(store), room_(std::move(room)), data_(std::move(data)), size_(size), hash_(std::make_unique<Hash>()) {}

Upload::~Upload() = default;

void Upload::Append(const std::byte* data, int64_t bytes) {
  std::memcpy(data_.get() + received_, data, static_cast<size_t>(bytes));
  hash_->Update(data, bytes);
  received_ += bytes;
}

absl::StatusOr<std::shared_ptr<const UploadContent>> Upload::Finish(std::string_view expected) {
  auto content = std::make_shared<UploadContent>();
  content->sha256 = hash_->Finish();
  content->size = size_;
  content->data = std::move(data_);
  room_.reset();  // the bytes hold it
  if (!expected.empty() && expected != content->sha256) return absl::InvalidArgumentError(Hex(content->sha256));
  return store_->Add(std::move(content));
}

UploadStore::UploadStore(const UploadOptions& options)
    : options_(options),
      ledger_(std::make_shared<internal::UploadLedger>(options.total_bytes, options.peer_bytes)),
      thread_([this] { Expire(); }) {}

UploadStore::~UploadStore() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

std::shared_ptr<const UploadContent> UploadStore::Touch(std::string_view sha256) {
  const auto found = by_hash_.find(std::string(sha256));
  if (found == by_hash_.end()) return nullptr;
  const Clock::time_point now = Clock::now();
  // The thread that drops what has expired may be late.
  if (now - found->second->last_use >= options_.ttl) return nullptr;
  found->second->last_use = now;
  nodes_.splice(nodes_.begin(), nodes_, found->second);
  return found->second->content;
}

std::shared_ptr<const UploadContent> UploadStore::Find(std::string_view sha256) {
  const std::lock_guard lock(mutex_);
  auto content = Touch(sha256);
  ++(content != nullptr ? stats_.found : stats_.missed);
  return content;
}

absl::StatusOr<std::unique_ptr<Upload>> UploadStore::Begin(const std::string& peer, int64_t size) {
  absl::Status status = ledger_->Take(peer, size);
  std::shared_ptr<internal::UploadRoom> room;
  std::shared_ptr<std::byte> data;
  if (status.ok()) {
    room = std::make_shared<internal::UploadRoom>(ledger_, peer, size);
    data = NewBytes(size, room);
    if (data == nullptr) status = absl::ResourceExhaustedError(absl::StrCat("no memory for ", size, " bytes"));
  }
  if (!status.ok()) {
    const std::lock_guard lock(mutex_);
    ++stats_.refused;
    return status;
  }
  return std::unique_ptr<Upload>(new Upload(this, std::move(room), std::move(data), size));
}

std::shared_ptr<const UploadContent> UploadStore::Add(std::shared_ptr<const UploadContent> content) {
  std::shared_ptr<const UploadContent> replaced;  // freed without the lock
  const std::lock_guard lock(mutex_);
  ++stats_.stored;
  if (auto there = Touch(content->sha256)) return there;
  if (const auto late = by_hash_.find(content->sha256); late != by_hash_.end()) {
    replaced = std::move(late->second->content);
    nodes_.erase(late->second);
    by_hash_.erase(late);
    ++stats_.expired;
  }
  nodes_.push_front({content, Clock::now()});
  by_hash_.emplace(content->sha256, nodes_.begin());
  if (nodes_.size() == 1) wake_.notify_all();
  return content;
}

void UploadStore::Expire() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (nodes_.empty()) {
      wake_.wait(lock);
      continue;
    }
    const Clock::time_point now = Clock::now();
    const Clock::duration left = nodes_.back().last_use + options_.ttl - now;
    if (left > Clock::duration::zero()) {
      wake_.wait_for(lock, left);
      continue;
    }
    std::vector<std::shared_ptr<const UploadContent>> gone;
    while (!nodes_.empty() && now - nodes_.back().last_use >= options_.ttl) {
      by_hash_.erase(nodes_.back().content->sha256);
      gone.push_back(std::move(nodes_.back().content));
      nodes_.pop_back();
      ++stats_.expired;
    }
    // Freeing gigabytes takes a while.
    lock.unlock();
    gone.clear();
    lock.lock();
  }
}

UploadStore::Stats UploadStore::stats() const {
  Stats stats;
  {
    const std::lock_guard lock(mutex_);
    stats = stats_;
    stats.objects = static_cast<int64_t>(nodes_.size());
  }
  stats.bytes = ledger_->total();
  return stats;
}

}  // namespace phasor::server
