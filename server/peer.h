// Who a caller is, as far as the network tells.
#ifndef PHASOR_SERVER_PEER_H_
#define PHASOR_SERVER_PEER_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace phasor::server {

// gRPC's name of a peer ("ipv4:192.0.2.1:50000") without the port, which tells connections of one host apart.
std::string HostOfPeer(std::string_view peer);

// Never 0. Calls of one host have one key, but on this host, where many programs share the address, those of one connection.
uint64_t PeerKey(std::string_view peer);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_PEER_H_
