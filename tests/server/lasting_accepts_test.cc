// The program's accept4: a listener survives connections that there is no descriptor for.
#include "server/lasting_accepts.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "gtest/gtest.h"

namespace phasor::server {
namespace {

class LastingAcceptsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(listen(listener_, 64), 0);
    socklen_t length = sizeof(address_);
    ASSERT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address_), &length), 0);
    getrlimit(RLIMIT_NOFILE, &limit_);
  }
  void TearDown() override {
    setrlimit(RLIMIT_NOFILE, &limit_);
    for (const int descriptor : open_) close(descriptor);
    close(listener_);
  }

  int Connect() {
    const int client = open_.emplace_back(socket(AF_INET, SOCK_STREAM, 0));
    const timeval patience{5, 0};
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    EXPECT_EQ(connect(client, reinterpret_cast<const sockaddr*>(&address_), sizeof(address_)), 0);
    return client;
  }
  int Accept() { return accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); }
  static bool IsClosed(int client) {
    char byte = 0;
    const ssize_t got = recv(client, &byte, 1, 0);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
  }
  // Leaves no descriptor.
  void TakeAll() {
    rlimit few = limit_;
    few.rlim_cur = 128;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    while (true) {
      const int taken = open("/dev/null", O_RDONLY);
      if (taken < 0) break;
      open_.push_back(taken);
    }
    ASSERT_EQ(errno, EMFILE);
  }

  int listener_ = -1;
  sockaddr_in address_{};
  rlimit limit_{};
  std::vector<int> open_;
};

TEST_F(LastingAcceptsTest, ConnectionsWithoutADescriptorAreClosedAndTheListenerGoesOn) {
  RaiseDescriptorLimit();
  const int first = Connect(), second = Connect();
  TakeAll();
  const int64_t before = RefusedConnections();
  EXPECT_EQ(Accept(), -1);
  EXPECT_EQ(errno, EAGAIN) << "all that wait are closed, and then none is left";
  EXPECT_EQ(RefusedConnections() - before, 2);
  EXPECT_TRUE(IsClosed(first));
  EXPECT_TRUE(IsClosed(second));
  setrlimit(RLIMIT_NOFILE, &limit_);
  const int third = Connect();
  open_.push_back(Accept());
  EXPECT_GE(open_.back(), 0);
  EXPECT_EQ(send(open_.back(), "x", 1, MSG_NOSIGNAL), 1);
  EXPECT_FALSE(IsClosed(third));
  // And again, with the reserve that was refilled.
  Connect();
  TakeAll();
  EXPECT_EQ(Accept(), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(RefusedConnections() - before, 3);
}

TEST_F(LastingAcceptsTest, OtherErrorsAreTheKernels) {
  EXPECT_EQ(Accept(), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(accept4(-1, nullptr, nullptr, 0), -1);
  EXPECT_EQ(errno, EBADF);
  EXPECT_EQ(accept4(STDIN_FILENO, nullptr, nullptr, 0), -1);
  EXPECT_TRUE(errno == ENOTSOCK || errno == EBADF || errno == EINVAL || errno == EOPNOTSUPP) << errno;
}

TEST_F(LastingAcceptsTest, TheLimitIsTheHardOne) {
  rlimit few = limit_;
  few.rlim_cur = 256;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  RaiseDescriptorLimit();
  rlimit now{};
  getrlimit(RLIMIT_NOFILE, &now);
  EXPECT_EQ(now.rlim_cur, limit_.rlim_max);
}

}  // namespace
}  // namespace phasor::server
