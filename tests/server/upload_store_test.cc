#include "server/upload_store.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/fingerprint.h"

namespace phasor::server {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

std::span<const std::byte> BytesOf(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// Appends `text` in pieces of `piece` bytes and finishes.
absl::StatusOr<std::shared_ptr<const UploadContent>> Send(UploadStore& store, const std::string& peer,
                                                          const std::string& text, const std::string& expected = "",
                                                          size_t piece = 7) {
  auto upload = store.Begin(peer, static_cast<int64_t>(text.size()));
  if (!upload.ok()) return upload.status();
  for (size_t at = 0; at < text.size(); at += piece) {
    const auto bytes = BytesOf(text).subspan(at, std::min(piece, text.size() - at));
    (*upload)->Append(bytes.data(), static_cast<int64_t>(bytes.size()));
  }
  EXPECT_EQ((*upload)->received(), (*upload)->size());
  return (*upload)->Finish(expected);
}

TEST(UploadStoreTest, ContentIsFoundByItsHash) {
  UploadStore store({});
  const std::string text(100000, 'x');
  const auto sent = Send(store, "a", text, Sha256(text), 4093);
  ASSERT_TRUE(sent.ok()) << sent.status();
  EXPECT_EQ((*sent)->sha256, Sha256(text));
  EXPECT_EQ(reinterpret_cast<uintptr_t>((*sent)->data.get()) % 64, 0u);
  const auto found = store.Find(Sha256(text));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found, *sent);  // the very same bytes
  EXPECT_EQ(std::memcmp(found->data.get(), text.data(), text.size()), 0);
  EXPECT_EQ(store.Find(Sha256("y")), nullptr);
  EXPECT_EQ(store.Find(""), nullptr);
  const UploadStore::Stats stats = store.stats();
  EXPECT_EQ(stats.bytes, 100000);
  EXPECT_EQ(stats.objects, 1);
  EXPECT_EQ(stats.stored, 1);
  EXPECT_EQ(stats.found, 1);
  EXPECT_EQ(stats.missed, 2);
}

// The published test vector.
TEST(UploadStoreTest, HashesAsTheStandardSays) {
  UploadStore store({});
  const auto sent = Send(store, "a", "abc", "", 1);
  ASSERT_TRUE(sent.ok());
  std::string hex;
  for (const char c : (*sent)->sha256) {
    hex += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
    hex += "0123456789abcdef"[static_cast<unsigned char>(c) & 15];
  }
  EXPECT_EQ(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(UploadStoreTest, AnotherHashThanAnnouncedStoresNothing) {
  UploadStore store({});
  const auto sent = Send(store, "a", "content", Sha256("other content"));
  EXPECT_EQ(sent.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store.stats().objects, 0);
  EXPECT_EQ(store.stats().bytes, 0);
  EXPECT_EQ(store.Find(Sha256("content")), nullptr);
}

TEST(UploadStoreTest, SameContentIsStoredOnce) {
  UploadStore store({});
  const auto first = Send(store, "a", "content");
  const auto second = Send(store, "b", "content");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ((*first)->data, (*second)->data);
  EXPECT_EQ(store.stats().bytes, 7);
  EXPECT_EQ(store.stats().objects, 1);
}

TEST(UploadStoreTest, QuotasPerPeerAndInAll) {
  UploadStore store({.total_bytes = 250, .peer_bytes = 100});
  ASSERT_TRUE(Send(store, "a", std::string(60, 'a')).ok());
  const auto over = Send(store, "a", std::string(41, 'b'));
  EXPECT_EQ(over.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(over.status().message()), HasSubstr("60 of 100"));
  ASSERT_TRUE(Send(store, "a", std::string(40, 'c')).ok());
  ASSERT_TRUE(Send(store, "b", std::string(100, 'd')).ok());
  const auto full = Send(store, "c", std::string(51, 'e'));
  EXPECT_EQ(full.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.status().message()), HasSubstr("200 of 250"));
  EXPECT_EQ(store.stats().refused, 2);
  // Content on its way counts, and counts no more when it is given up.
  {
    const auto pending = store.Begin("c", 50);
    ASSERT_TRUE(pending.ok());
    EXPECT_FALSE(store.Begin("d", 1).ok());
    EXPECT_EQ(store.stats().bytes, 250);
  }
  EXPECT_TRUE(store.Begin("d", 50).ok());
  EXPECT_EQ(store.stats().bytes, 200);
  // What was there before a refusal is there afterwards.
  EXPECT_NE(store.Find(Sha256(std::string(60, 'a'))), nullptr);
}

TEST(UploadStoreTest, SizesThatNoMachineHasAreRefused) {
  UploadStore store({.total_bytes = INT64_MAX, .peer_bytes = INT64_MAX});
  EXPECT_EQ(store.Begin("a", int64_t{1} << 62).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(store.stats().bytes, 0);
}

TEST(UploadStoreTest, ExpiresAfterItsLastUse) {
  UploadStore store({.ttl = milliseconds(400)});
  ASSERT_TRUE(Send(store, "a", "used").ok());
  ASSERT_TRUE(Send(store, "a", "not used").ok());
  const auto start = std::chrono::steady_clock::now();
  bool on_time = true;  // else this machine was asleep, and nothing can be said
  auto last = start;
  while (std::chrono::steady_clock::now() - start < milliseconds(900)) {
    const auto found = store.Find(Sha256("used"));
    const auto now = std::chrono::steady_clock::now();
    on_time = on_time && now - last < milliseconds(300);
    last = now;
    EXPECT_TRUE(!on_time || found != nullptr);
    std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_EQ(store.Find(Sha256("not used")), nullptr);
  // It goes by itself, without anybody asking for it.
  for (int i = 0; i < 1000 && store.stats().objects > 0; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(store.stats().objects, 0);
  EXPECT_EQ(store.stats().bytes, 0);
  EXPECT_EQ(store.stats().expired, 2);
}

TEST(UploadStoreTest, ContentInUseOutlivesItsPlaceAndTheStore) {
  std::shared_ptr<const UploadContent> held;
  {
    UploadStore store({.total_bytes = 10, .peer_bytes = 10, .ttl = milliseconds(1)});
    const auto sent = Send(store, "a", "0123456789");
    ASSERT_TRUE(sent.ok());
    held = *sent;
    for (int i = 0; i < 1000 && store.stats().objects > 0; ++i) std::this_thread::sleep_for(milliseconds(10));
    EXPECT_EQ(store.Find(held->sha256), nullptr);
    // Its room is not free before its last user is gone: memory stays bounded.
    EXPECT_EQ(store.stats().bytes, 10);
    EXPECT_FALSE(store.Begin("a", 1).ok());
    EXPECT_FALSE(store.Begin("b", 1).ok());
  }
  EXPECT_EQ(std::memcmp(held->data.get(), "0123456789", 10), 0);
}

TEST(UploadStoreTest, RoomComesBackWithTheLastUser) {
  UploadStore store({.total_bytes = 10, .peer_bytes = 10, .ttl = milliseconds(1)});
  auto sent = Send(store, "a", "0123456789");
  ASSERT_TRUE(sent.ok());
  for (int i = 0; i < 1000 && store.stats().objects > 0; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_FALSE(store.Begin("a", 1).ok());
  sent->reset();
  for (int i = 0; i < 1000 && store.stats().bytes > 0; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_TRUE(store.Begin("a", 10).ok());
}

TEST(UploadStoreTest, ManyThreads) {
  UploadStore store({.total_bytes = 5000, .peer_bytes = 3000, .ttl = milliseconds(2)});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&store, t] {
      for (int i = 0; i < 300; ++i) {
        const std::string text(static_cast<size_t>(1 + (t * 7 + i) % 40 * 25), static_cast<char>('a' + i % 5));
        const auto sent = Send(store, t % 2 == 0 ? "a" : "b", text, "", 100);
        if (sent.ok()) {
          EXPECT_EQ(std::memcmp((*sent)->data.get(), text.data(), text.size()), 0);
        }
        if (const auto found = store.Find(Sha256(text))) {
          EXPECT_EQ(found->size, static_cast<int64_t>(text.size()));
        }
        EXPECT_LE(store.stats().bytes, 5000);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 1000 && store.stats().bytes > 0; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(store.stats().bytes, 0);
}

}  // namespace
}  // namespace phasor::server
