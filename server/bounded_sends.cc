// sendmsg, in place of the C library's: sends at most kMostAtOnce bytes of a stream at a time.
//
// gRPC gives the kernel all that HTTP/2's flow control lets go, in one call: up to 31 MB were seen, which take 20 ms. A
// kernel that does not preempt itself (the default of many servers) runs nothing else on that processor until the call is
// over, and a small call of another client waits. Between the parts of a send that is cut it runs who waits. A caller must
// expect part of a stream to be sent in any case, and gRPC goes on with the rest at once.
//
// Part of programs, not of a library: it is for the whole process, gRPC's shared libraries included.
#include "server/bounded_sends.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace phasor::server {
namespace {

ssize_t Send(int socket, const msghdr* message, int flags) { return syscall(SYS_sendmsg, socket, message, flags); }

}  // namespace
}  // namespace phasor::server

extern "C" __attribute__((visibility("default"))) ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  using phasor::server::kMostAtOnce;
  using phasor::server::Send;
  constexpr size_t kMostParts = 64;
  size_t left = kMostAtOnce;
  size_t parts = 0;
  while (parts < message->msg_iovlen && message->msg_iov[parts].iov_len <= left) left -= message->msg_iov[parts++].iov_len;
  if (parts == message->msg_iovlen) return Send(socket, message, flags);
  // Datagrams never are so large. What comes with a message (descriptors, times) is not to be sent twice.
  if (message->msg_controllen > 0) return Send(socket, message, flags);
  msghdr first = *message;
  if (parts > 0 && (left < kMostAtOnce / 2 || parts >= kMostParts)) {
    first.msg_iovlen = parts;
    return Send(socket, &first, flags);
  }
  std::array<iovec, kMostParts> some;
  for (size_t i = 0; i < parts; ++i) some[i] = message->msg_iov[i];
  some[parts] = {message->msg_iov[parts].iov_base, left};
  first.msg_iov = some.data();
  first.msg_iovlen = parts + 1;
  return Send(socket, &first, flags);
}
