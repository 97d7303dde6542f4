// The raw codec held against generated code: the same bytes are accepted, and mean the same message.
#ifndef PHASOR_TESTS_PROTO_CODEC_CHECK_H_
#define PHASOR_TESTS_PROTO_CODEC_CHECK_H_

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>

#include "google/protobuf/message.h"
#include "grpcpp/support/byte_buffer.h"

#include "proto/raw/payloads.h"
#include "proto/raw/schema.h"

namespace phasor::raw {

// The four messages that carry payloads.
struct Kind {
  const Node* schema;
  std::unique_ptr<google::protobuf::Message> (*make)();
};
inline constexpr int kKinds = 4;
Kind KindOf(int index);

// `bytes` cut into slices of at most `longest` bytes, at places that `random` chooses; some slices may be empty.
grpc::ByteBuffer Split(std::string_view bytes, size_t longest, std::mt19937_64& random);

// All bytes of a buffer.
std::string Flatten(const grpc::ByteBuffer& buffer);
std::string Flatten(std::span<const Piece> pieces);

// Puts payloads in place of their tokens, everywhere in `message`.
void InsertPayloads(const Payloads& payloads, google::protobuf::Message* message);
// The inverse: moves every Tensor.data into `payloads`.
void ExtractPayloads(google::protobuf::Message* message, Payloads* payloads);

// Fills fields at random: each is left out, or set to ordinary and extreme values; repeated ones have up to four entries.
void FillAtRandom(google::protobuf::Message* message, std::mt19937_64& random, int depth = 0);

// The whole check on one input. Empty when it holds, otherwise what differs:
// Cut and the generated parser both refuse, or both accept and give equal messages, and Join gives bytes that both read as
// that message again.
std::string Difference(const Kind& kind, std::string_view bytes, size_t longest_slice, std::mt19937_64& random);

}  // namespace phasor::raw

#endif  // PHASOR_TESTS_PROTO_CODEC_CHECK_H_
