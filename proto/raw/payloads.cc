#include "proto/raw/payloads.h"

#include <utility>

namespace phasor::raw {
namespace {

constexpr size_t kTokenBytes = 4;

std::string TokenOf(size_t index) {
  std::string token(kTokenBytes, '\0');
  for (size_t i = 0; i < kTokenBytes; ++i) token[i] = static_cast<char>(index >> (8 * i));
  return token;
}

std::optional<size_t> IndexOf(std::string_view token) {
  if (token.size() != kTokenBytes) return std::nullopt;
  size_t index = 0;
  for (size_t i = 0; i < kTokenBytes; ++i) index |= size_t{static_cast<unsigned char>(token[i])} << (8 * i);
  return index;
}

}  // namespace

std::string Payloads::Add(std::span<const Piece> pieces) {
  for (const Piece& piece : pieces) AddPiece(piece);
  return Close();
}

std::optional<std::span<const Piece>> Payloads::Find(std::string_view token) const {
  const std::optional<size_t> index = IndexOf(token);
  if (!index || *index >= ends_.size()) return std::nullopt;
  const size_t begin = *index == 0 ? 0 : ends_[*index - 1];
  return std::span<const Piece>(pieces_).subspan(begin, ends_[*index] - begin);
}

std::optional<int64_t> Payloads::SizeOf(std::string_view token) const {
  const auto pieces = Find(token);
  if (!pieces) return std::nullopt;
  int64_t size = 0;
  for (const Piece& piece : *pieces) size += static_cast<int64_t>(piece.size);
  return size;
}

void Payloads::AddPiece(Piece piece) {
  if (piece.size == 0) return;
  total_bytes_ += static_cast<int64_t>(piece.size);
  pieces_.push_back(std::move(piece));
}

std::string Payloads::Close() {
  ends_.push_back(pieces_.size());
  return TokenOf(ends_.size() - 1);
}

}  // namespace phasor::raw
