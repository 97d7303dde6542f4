#include "server/additive_check.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"

#include "server/grpc_status.h"

namespace phasor::server {
namespace {

// The bits of one type whose exponent is all ones: NaN, or an infinity.
template <typename Bits>
struct Special {
  Bits exponent, negative_infinity;

  bool Refused(Bits bits) const { return (bits & exponent) == exponent && bits != negative_infinity; }
};

// Goes through the elements in their order; the first one that is refused is kept.
template <typename Bits>
class Scanner {
 public:
  explicit Scanner(Special<Bits> special) : special_(special) {}

  void Scan(std::string_view part) {
    if (held_ != 0) {  // the element that the part before began
      const size_t more = std::min(sizeof(Bits) - held_, part.size());
      std::memcpy(begun_.data() + held_, part.data(), more);
      part.remove_prefix(more);
      held_ += more;
      if (held_ < sizeof(Bits)) return;
      held_ = 0;
      Block(begun_.data(), 1);
    }
    constexpr size_t kBlock = 4096;  // elements: short enough to be looked through again
    for (; part.size() >= sizeof(Bits) && found_ < 0;) {
      const size_t count = std::min(part.size() / sizeof(Bits), kBlock);
      Block(part.data(), count);
      part.remove_prefix(count * sizeof(Bits));
    }
    if (found_ >= 0) return;
    held_ = part.size();
    std::memcpy(begun_.data(), part.data(), held_);
  }

  int64_t found() const { return found_; }  // −1: none
  bool found_infinity() const { return infinity_; }

 private:
  static Bits At(const char* from, size_t i) {
    Bits bits;
    std::memcpy(&bits, from + i * sizeof(Bits), sizeof(Bits));
    return bits;
  }

  void Block(const char* from, size_t count) {
    bool any = false;
    for (size_t i = 0; i < count; ++i) any |= special_.Refused(At(from, i));
    for (size_t i = 0; any && found_ < 0; ++i) {
      if (!special_.Refused(At(from, i))) continue;
      found_ = seen_ + static_cast<int64_t>(i);
      infinity_ = At(from, i) == special_.exponent;
    }
    seen_ += static_cast<int64_t>(count);
  }

  Special<Bits> special_;
  std::array<char, sizeof(Bits)> begun_{};
  size_t held_ = 0;
  int64_t seen_ = 0, found_ = -1;
  bool infinity_ = false;
};

std::string PlaceText(const std::vector<int64_t>& shape, int64_t element) {
  std::string place;
  for (size_t axis = shape.size(); axis-- > 0;) {
    place = absl::StrCat(element % shape[axis], place.empty() ? "" : ", ", place);
    element /= shape[axis];
  }
  return absl::StrCat("[", place, "]");
}

template <typename Bits>
absl::Status Check(const ParsedTensor& tensor, const std::vector<std::string_view>& parts, std::string_view path,
                   Special<Bits> special) {
  Scanner<Bits> scanner(special);
  for (const std::string_view part : parts) {
    scanner.Scan(part);
    if (scanner.found() < 0) continue;
    return InvalidField(std::string(path) + PlaceText(tensor.shape, scanner.found()),
                        scanner.found_infinity() ? "inf" : "NaN", "a finite number, or -inf, which masks");
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string_view> PartsInOrder(const ParsedTensor& tensor, std::string* storage) {
  std::vector<std::string_view> parts;
  for (const raw::Piece& piece : tensor.pieces) parts.emplace_back(reinterpret_cast<const char*>(piece.data), piece.size);
  if (tensor.dense || tensor.elements == 0) return parts;
  for (const std::string_view part : parts) storage->append(part);
  parts.clear();
  const int64_t size = SizeOf(tensor.dtype), keys = tensor.shape.back();
  const size_t axes = tensor.shape.size() - 1;  // but the keys'
  std::vector<int64_t> index(axes, 0);
  for (int64_t row = 0; row < tensor.elements / keys; ++row) {
    int64_t at = 0;
    for (size_t axis = 0; axis < axes; ++axis) at += index[axis] * tensor.strides[axis];
    parts.push_back(std::string_view(*storage).substr(static_cast<size_t>(at * size), static_cast<size_t>(keys * size)));
    for (size_t axis = axes; axis-- > 0;) {
      if (++index[axis] < tensor.shape[axis]) break;
      index[axis] = 0;
    }
  }
  return parts;
}

absl::Status CheckAdditive(const ParsedTensor& tensor, const std::vector<std::string_view>& parts, std::string_view path) {
  switch (tensor.dtype) {
    case DType::kF64:
      return Check<uint64_t>(tensor, parts, path, {0x7FF0000000000000, 0xFFF0000000000000});
    case DType::kF32:
      return Check<uint32_t>(tensor, parts, path, {0x7F800000, 0xFF800000});
    case DType::kF16:
      return Check<uint16_t>(tensor, parts, path, {0x7C00, 0xFC00});
    case DType::kBF16:
      return Check<uint16_t>(tensor, parts, path, {0x7F80, 0xFF80});
    default:
      return InvalidField(path, "another type", "F64, F32, F16 or BF16");
  }
}

}  // namespace phasor::server
