#include "server/peer.h"

#include "gtest/gtest.h"

namespace phasor::server {
namespace {

TEST(PeerTest, AHostIsAPeerWithoutItsPort) {
  EXPECT_EQ(HostOfPeer("ipv4:192.0.2.1:50000"), "ipv4:192.0.2.1");
  EXPECT_EQ(HostOfPeer("ipv6:%5B2001:db8::1%5D:50000"), "ipv6:%5B2001:db8::1%5D");
  EXPECT_EQ(HostOfPeer("unix:/run/phasor.sock"), "unix:/run/phasor.sock");
  EXPECT_EQ(HostOfPeer(""), "");
}

TEST(PeerTest, ConnectionsOfAHostShareAKeyButOnThisOne) {
  EXPECT_EQ(PeerKey("ipv4:192.0.2.1:50000"), PeerKey("ipv4:192.0.2.1:50001"));
  EXPECT_NE(PeerKey("ipv4:192.0.2.1:50000"), PeerKey("ipv4:192.0.2.2:50000"));
  EXPECT_NE(PeerKey("ipv4:127.0.0.1:50000"), PeerKey("ipv4:127.0.0.1:50001"));
  EXPECT_NE(PeerKey("ipv6:%5B::1%5D:50000"), PeerKey("ipv6:%5B::1%5D:50001"));
  EXPECT_NE(PeerKey(""), 0u);
}

}  // namespace
}  // namespace phasor::server
