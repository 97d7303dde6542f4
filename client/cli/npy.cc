#include "client/cli/npy.h"

#include <charconv>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "client/cli/text.h"

namespace phasor::cli {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

constexpr std::pair<std::string_view, DType> kDescriptors[] = {{"<f8", DType::kF64}, {"<f4", DType::kF32},
                                                               {"<f2", DType::kF16}, {"<i4", DType::kI32},
                                                               {"<i8", DType::kI64}, {"|b1", DType::kBool}};

// The text after "'key':" in a header's dictionary, blanks skipped.
std::optional<std::string_view> ValueOf(std::string_view header, std::string_view key) {
  for (const char quote : {'\'', '"'}) {
    const std::string quoted = absl::StrCat(std::string(1, quote), View(key), std::string(1, quote));
    const size_t at = header.find(quoted);
    if (at == std::string_view::npos) continue;
    std::string_view rest = header.substr(at + quoted.size());
    const size_t value = rest.find_first_not_of(" :");
    if (value == std::string_view::npos) return std::nullopt;
    return rest.substr(value);
  }
  return std::nullopt;
}

absl::Status NotNpy(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("not a .npy array that can be read: ", why));
}

absl::StatusOr<std::vector<int64_t>> ParseShape(std::string_view text) {
  if (text.empty() || text[0] != '(') return NotNpy("its shape is no tuple");
  text.remove_prefix(1);
  std::vector<int64_t> shape;
  while (true) {
    while (!text.empty() && (text[0] == ' ' || text[0] == ',')) text.remove_prefix(1);
    if (text.empty()) return NotNpy("its shape does not end");
    if (text[0] == ')') return shape;
    int64_t extent = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
    if (error != std::errc() || extent < 0 || shape.size() == 32) return NotNpy("its shape has a bad extent");
    shape.push_back(extent);
    text.remove_prefix(end - text.data());
  }
}

// Magic, version and dictionary, padded so that the data begin at a multiple of 64.
std::string Header(std::string_view descriptor, std::string_view shape) {
  std::string header =
      absl::StrCat("{'descr': '", View(descriptor), "', 'fortran_order': False, 'shape': (", View(shape), "), }");
  const size_t unpadded = kMagic.size() + 4 + header.size() + 1;
  header.append((64 - unpadded % 64) % 64, ' ');
  header.push_back('\n');
  std::string out(kMagic);
  out += {'\1', '\0', static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
  return out + header;
}

}  // namespace

std::string NpyBytes(std::string_view text) { return Header(absl::StrCat("|S", text.size()), "") + std::string(text); }

absl::StatusOr<std::string> NpyHeader(const ArrayInfo& info) {
  std::string_view descriptor;
  for (const auto& [text, dtype] : kDescriptors) {
    if (dtype == info.dtype) descriptor = text;
  }
  if (descriptor.empty()) {
    return absl::InvalidArgumentError("numpy has no bf16: write to a .safetensors file, or choose --dtype f32 or f16");
  }
  std::string shape = absl::StrJoin(info.shape, ", ");
  if (info.shape.size() == 1) shape += ",";
  return Header(descriptor, shape);
}

absl::StatusOr<NpyParsed> ParseNpyHeader(std::string_view bytes) {
  if (bytes.size() < 12 || !bytes.starts_with(kMagic)) return NotNpy("it does not start with numpy's magic");
  const int major = bytes[6];
  if (major < 1 || major > 3) return NotNpy(absl::StrCat("format version ", major, "; allowed: 1 to 3"));
  const size_t prefix = major == 1 ? 10 : 12;
  size_t length = 0;
  for (size_t i = 8; i < prefix; ++i) length |= size_t{static_cast<unsigned char>(bytes[i])} << (8 * (i - 8));
  if (length > bytes.size() - prefix) return NotNpy("its header runs past the end");
  const std::string_view header = bytes.substr(prefix, length);

  NpyParsed parsed;
  parsed.header_bytes = prefix + length;
  const auto descriptor = ValueOf(header, "descr"), order = ValueOf(header, "fortran_order"),
             shape = ValueOf(header, "shape");
  if (!descriptor || !order || !shape) return NotNpy("its header lacks descr, fortran_order or shape");
  if (!order->starts_with("False")) return NotNpy("it is Fortran-ordered; allowed: C order (numpy.ascontiguousarray)");
  bool known = false;
  for (const auto& [text, dtype] : kDescriptors) {
    if (descriptor->size() > text.size() + 1 && descriptor->substr(1).starts_with(text)) {
      parsed.info.dtype = dtype;
      known = true;
    }
  }
  if (!known) {
    return NotNpy(absl::StrCat("element type ", View(descriptor->substr(0, descriptor->find_first_of("'\"", 1) + 1)),
                               "; allowed: <f8 <f4 <f2 <i4 <i8 |b1"));
  }
  auto extents = ParseShape(*shape);
  if (!extents.ok()) return extents.status();
  parsed.info.shape = *std::move(extents);
  return parsed;
}

}  // namespace phasor::cli
