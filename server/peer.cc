#include "server/peer.h"

#include <functional>

namespace phasor::server {

std::string HostOfPeer(std::string_view peer) {
  const bool has_port = peer.starts_with("ipv4:") || peer.starts_with("ipv6:");
  return std::string(peer.substr(0, has_port ? peer.rfind(':') : peer.size()));
}

uint64_t PeerKey(std::string_view peer) {
  // gRPC 1.51 escapes the brackets of IPv6 addresses, later ones may not.
  const bool is_here = peer.starts_with("ipv4:127.") || peer.starts_with("ipv6:[::1]") || peer.starts_with("ipv6:%5B::1%5D");
  const uint64_t key = std::hash<std::string_view>()(is_here ? peer : std::string_view(HostOfPeer(peer)));
  return key == 0 ? 1 : key;
}

}  // namespace phasor::server
