#include "proto/raw/slice_cursor.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace phasor::raw {
namespace {

// The generated parser refuses lengths this close to 2 GiB.
constexpr uint64_t kMaxLength = std::numeric_limits<int32_t>::max() - 16;

}  // namespace

SliceCursor::SliceCursor(std::shared_ptr<const Slices> slices) : slices_(std::move(slices)) {
  for (const grpc::Slice& slice : *slices_) size_ += slice.size();
}

bool SliceCursor::ReadByte(size_t end, uint8_t* byte) {
  if (position_ >= end) return false;
  while (offset_ == (*slices_)[index_].size()) {
    ++index_;
    offset_ = 0;
  }
  *byte = (*slices_)[index_].begin()[offset_++];
  ++position_;
  return true;
}

bool SliceCursor::ReadTag(size_t end, uint32_t* tag) {
  *tag = 0;
  for (int shift = 0; shift < 35; shift += 7) {
    uint8_t byte;
    if (!ReadByte(end, &byte)) return false;
    *tag |= static_cast<uint32_t>(uint64_t{byte & 0x7fu} << shift);
    if (byte < 0x80) return true;
  }
  return false;
}

bool SliceCursor::ReadLength(size_t end, size_t* length) {
  uint64_t value = 0;
  for (int shift = 0; shift < 35; shift += 7) {
    uint8_t byte;
    if (!ReadByte(end, &byte)) return false;
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) {
      *length = value;
      return value <= kMaxLength && value <= end - position_;
    }
  }
  return false;
}

bool SliceCursor::CopyVarint(size_t end, std::string* out) {
  for (int i = 0; i < 10; ++i) {
    uint8_t byte;
    if (!ReadByte(end, &byte)) return false;
    out->push_back(static_cast<char>(byte));
    if (byte < 0x80) return true;
  }
  return false;
}

template <typename F>
void SliceCursor::ForEachStretch(size_t n, F f) {
  position_ += n;
  while (n > 0) {
    const grpc::Slice& slice = (*slices_)[index_];
    const size_t size = std::min(n, slice.size() - offset_);
    if (size == 0) {
      ++index_;
      offset_ = 0;
      continue;
    }
    f(slice.begin() + offset_, size);
    offset_ += size;
    n -= size;
  }
}

bool SliceCursor::CopyBytes(size_t n, size_t end, std::string* out) {
  if (n > end - position_) return false;
  ForEachStretch(n, [&](const uint8_t* data, size_t size) { out->append(reinterpret_cast<const char*>(data), size); });
  return true;
}

bool SliceCursor::TakePieces(size_t n, size_t end, Payloads* out) {
  if (n > end - position_) return false;
  ForEachStretch(n, [&](const uint8_t* data, size_t size) {
    out->AddPiece({slices_, reinterpret_cast<const std::byte*>(data), size});
  });
  return true;
}

}  // namespace phasor::raw
