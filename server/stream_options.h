// How streams are served.
#ifndef PHASOR_SERVER_STREAM_OPTIONS_H_
#define PHASOR_SERVER_STREAM_OPTIONS_H_

#include <chrono>
#include <cstdint>

namespace phasor::server {

// Payload of a message that a caller may ask for.
inline constexpr int64_t kLeastChunkBytes = int64_t{64} << 10;
inline constexpr int64_t kMostChunkBytes = int64_t{4} << 20;

struct StreamOptions {
  int64_t chunk_bytes = int64_t{1} << 20;   // of a message, where the caller does not say
  int64_t window = 4;                       // chunks made and not sent, of one stream
  std::chrono::milliseconds pause{30'000};  // a peer that neither sends nor takes a message for so long is cut off
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_STREAM_OPTIONS_H_
