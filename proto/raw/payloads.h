// Payloads beside their messages. A message in memory holds a short token where the wire has megabytes; the bytes stay where
// they are (received slices, cache tiles, a caller's array) and are kept alive by reference.
#ifndef PHASOR_PROTO_RAW_PAYLOADS_H_
#define PHASOR_PROTO_RAW_PAYLOADS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace phasor::raw {

// `size` bytes at `data`, valid while `owner` lives. A null owner: the bytes outlive every use (gRPC may hold a slice for a
// while after the call that sent it is over).
struct Piece {
  std::shared_ptr<const void> owner;
  const std::byte* data = nullptr;
  size_t size = 0;
};

// The payloads of one message, each a list of consecutive pieces, found by the token that stands in the message's `bytes`
// field. Tokens mean something only together with the Payloads that made them.
class Payloads {
 public:
  // Adds a payload and returns the token for the field. An empty payload has a token too: the field is set, and empty.
  std::string Add(std::span<const Piece> pieces);

  // The pieces behind a token, none of them empty. Nothing when it is no token of this object.
  std::optional<std::span<const Piece>> Find(std::string_view token) const;

  // Length of the payload behind a token; nothing when it is no token of this object.
  std::optional<int64_t> SizeOf(std::string_view token) const;

  // Payloads added, whether or not a message still refers to them.
  size_t count() const { return ends_.size(); }
  // Their length, all together.
  int64_t total_bytes() const { return total_bytes_; }

  // For who adds piece by piece: AddPiece as often as needed, then Close, which returns the token.
  void AddPiece(Piece piece);
  std::string Close();

 private:
  std::vector<Piece> pieces_;
  std::vector<size_t> ends_;  // payload k is pieces_[ends_[k − 1], ends_[k])
  int64_t total_bytes_ = 0;
};

}  // namespace phasor::raw

#endif  // PHASOR_PROTO_RAW_PAYLOADS_H_
