// The program's sendmsg: how much goes at once, and that nothing is lost, doubled or mixed up.
#include "server/bounded_sends.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace phasor::server {
namespace {

class BoundedSendsTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends_), 0); }
  void TearDown() override {
    for (const int end : ends_) close(end);
  }

  // Everything, however it is cut, as a caller does that goes on after each part. The largest part.
  size_t SendAll(std::vector<iovec> pieces) {
    size_t largest = 0;
    size_t first = 0;
    while (first < pieces.size()) {
      msghdr message{};
      message.msg_iov = pieces.data() + first;
      message.msg_iovlen = std::min<size_t>(pieces.size() - first, 1024);
      const ssize_t sent = sendmsg(ends_[0], &message, MSG_NOSIGNAL);
      if (sent <= 0) break;
      largest = std::max(largest, static_cast<size_t>(sent));
      size_t left = static_cast<size_t>(sent);
      while (first < pieces.size() && left >= pieces[first].iov_len) left -= pieces[first++].iov_len;
      if (left > 0) pieces[first] = {static_cast<char*>(pieces[first].iov_base) + left, pieces[first].iov_len - left};
    }
    return largest;
  }

  std::string Receive(size_t size) {
    std::string got(size, '\0');
    size_t at = 0;
    while (at < size) {
      const ssize_t step = read(ends_[1], got.data() + at, size - at);
      if (step <= 0) break;
      at += static_cast<size_t>(step);
    }
    return got;
  }

  int ends_[2] = {-1, -1};
};

TEST_F(BoundedSendsTest, AllArrivesInPartsThatAreBounded) {
  std::mt19937 random(1);
  std::string bytes(size_t{24} << 20, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  // One piece; pieces of frames; thousands of small ones; sizes by chance.
  for (const size_t most : {bytes.size(), size_t{16} << 10, size_t{100}, size_t{1} << 19, kMostAtOnce, kMostAtOnce + 1}) {
    std::vector<iovec> pieces;
    for (size_t at = 0; at < bytes.size();) {
      size_t size = most == size_t{1} << 19 ? random() % most : most;
      size = std::min(size, bytes.size() - at);
      pieces.push_back({bytes.data() + at, size});
      at += size;
    }
    std::string got;
    std::thread reader([&] { got = Receive(bytes.size()); });
    const size_t largest = SendAll(pieces);
    reader.join();
    EXPECT_EQ(got == bytes, true) << most;
    EXPECT_LE(largest, kMostAtOnce) << most;
    EXPECT_GT(largest, std::min(most, size_t{4096})) << most;
  }
}

TEST_F(BoundedSendsTest, WhatFitsGoesInOneCall) {
  std::string head = "head", body(kMostAtOnce - 4, 'b');
  std::vector<iovec> pieces = {{head.data(), head.size()}, {nullptr, 0}, {body.data(), body.size()}};
  std::string got;
  std::thread reader([&] { got = Receive(kMostAtOnce); });
  EXPECT_EQ(SendAll(pieces), kMostAtOnce);
  reader.join();
  EXPECT_EQ(got, head + body);
}

TEST_F(BoundedSendsTest, ErrorsAreTheKernels) {
  char byte = 0;
  iovec piece{&byte, 1};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  EXPECT_EQ(sendmsg(-1, &message, 0), -1);
  EXPECT_EQ(errno, EBADF);
  fcntl(ends_[0], F_SETFL, O_NONBLOCK);
  std::string much(kMostAtOnce, 'x');
  piece = {much.data(), much.size()};
  while (sendmsg(ends_[0], &message, 0) > 0) {
  }
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(BoundedSendsTest, DescriptorsGoOnce) {
  std::string much(3 * kMostAtOnce, 'x');
  iovec piece{much.data(), much.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &ends_[0], sizeof(int));
  std::string got;
  std::thread reader([&] { got = Receive(much.size()); });
  EXPECT_EQ(sendmsg(ends_[0], &message, 0), static_cast<ssize_t>(much.size()));
  reader.join();
  EXPECT_EQ(got, much);
}

}  // namespace
}  // namespace phasor::server
