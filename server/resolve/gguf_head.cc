#include "server/resolve/gguf_head.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "kernels/encodings/encoding.h"
#include "server/text.h"

namespace phasor::server {
namespace {

static_assert(std::endian::native == std::endian::little, "values are read in place");

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 20;
// What the shortest entries take, so that a count can be held against the bytes that are there.
constexpr uint64_t kShortestEntry = 8 + 1 + 4 + 1;
constexpr uint64_t kShortestTensor = 8 + 1 + 4 + 4 + 8;

constexpr std::string_view kTypeNames[] = {"uint8", "int8",   "uint16", "int16",  "uint32", "int32",  "float32",
                                           "bool",  "string", "array",  "uint64", "int64",  "float64"};
constexpr size_t kTypeSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
constexpr uint32_t kTypes = 13;

}  // namespace

std::string GgufTypeName(GgufType type) { return std::string(kTypeNames[static_cast<uint32_t>(type)]); }

size_t GgufSizeOf(GgufType type) { return kTypeSizes[static_cast<uint32_t>(type)]; }

std::string GgufPrintable(std::string_view text) {
  constexpr size_t kShown = 80;
  return absl::StrCat(absl::CHexEscape(ToAbsl(text.substr(0, kShown))), text.size() > kShown ? "…" : "");
}

// Reads front to back; after the first failure every read gives zeros and changes nothing.
class GgufParser {
 public:
  GgufParser(std::string_view bytes, bool* truncated) : bytes_(bytes), truncated_(truncated) {
    if (truncated_) *truncated_ = false;
  }

  absl::StatusOr<GgufHead> Parse();

 private:
  bool ok() const { return status_.ok(); }
  uint64_t left() const { return bytes_.size() - at_; }

  void Fail(std::string_view given, std::string_view allowed);
  bool Need(uint64_t size);  // fails, as truncated, when fewer bytes are left

  template <typename T>
  T Read() {
    T value{};
    if (!Need(sizeof(T))) return value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  std::string_view Take(uint64_t size);
  // A length and as many bytes.
  std::string_view String(uint64_t low, uint64_t high, std::string_view what);
  GgufType Type();
  GgufValue Value();
  void Array(GgufValue& value, int depth);

  void Start(uint64_t& entries, uint64_t& tensors);
  void Entries(uint64_t count);
  void Tensors(uint64_t count);
  uint64_t Alignment();
  // Sorts indices by name; fails when a name is there twice.
  template <typename Item, typename NameOf>
  std::vector<uint32_t> Sorted(const std::vector<Item>& items, NameOf name_of, std::string_view what);

  std::string_view bytes_;
  bool* truncated_;
  size_t at_ = 0;
  std::string_view subject_;  // the key or name that is being read; empty: none yet
  absl::Status status_;
  GgufHead head_;
};

void GgufParser::Fail(std::string_view given, std::string_view allowed) {
  if (!ok()) return;
  status_ = MakeSpecError(subject_.empty() ? "header" : GgufPrintable(subject_), Cat(given, " at byte ", at_), allowed);
}

bool GgufParser::Need(uint64_t size) {
  if (!ok()) return false;
  if (size <= left()) return true;
  if (truncated_) *truncated_ = true;
  Fail(Cat(left(), " bytes more"), Cat(size, " bytes or more: the head of the file is cut short"));
  return false;
}

std::string_view GgufParser::Take(uint64_t size) {
  if (!Need(size)) return {};
  const std::string_view taken = bytes_.substr(at_, size);
  at_ += size;
  return taken;
}

std::string_view GgufParser::String(uint64_t low, uint64_t high, std::string_view what) {
  const uint64_t length = Read<uint64_t>();
  if (ok() && (length < low || length > high)) {
    Fail(Cat(what, " of ", length, " bytes"), Cat("at least ", low, ", at most ", high));
  }
  return Take(length);
}

GgufType GgufParser::Type() {
  const uint32_t type = Read<uint32_t>();
  if (ok() && type >= kTypes) Fail(Cat("value type ", type), "0 … 12");
  return ok() ? static_cast<GgufType>(type) : GgufType::kUint8;
}

void GgufParser::Array(GgufValue& value, int depth) {
  if (depth > kMaxGgufNesting) return Fail("arrays nested deeper", Cat("at most ", kMaxGgufNesting, " levels"));
  value.element = Type();
  value.count = Read<uint64_t>();
  const size_t start = at_;
  if (const size_t size = GgufSizeOf(value.element); size != 0) {
    // Compared by division: the count may be anything.
    if (ok() && value.count > left() / size) Need(left() + 1);
    if (ok()) Take(value.count * size);
  } else {
    // Every element takes at least 8 bytes, so the loop ends with the input.
    for (uint64_t i = 0; i < value.count && ok(); ++i) {
      if (value.element == GgufType::kString) {
        String(0, UINT64_MAX, "a string");
      } else {
        GgufValue inner;
        Array(inner, depth + 1);
      }
    }
  }
  if (ok()) value.bytes = bytes_.substr(start, at_ - start);
}

GgufValue GgufParser::Value() {
  GgufValue value;
  value.type = Type();
  if (value.type == GgufType::kString) {
    value.bytes = String(0, UINT64_MAX, "a string");
  } else if (value.type == GgufType::kArray) {
    Array(value, 1);
  } else {
    value.bytes = Take(GgufSizeOf(value.type));
    if (ok() && value.type == GgufType::kBool && static_cast<uint8_t>(value.bytes[0]) > 1) {
      Fail(Cat("a bool of value ", static_cast<uint8_t>(value.bytes[0])), "0, 1");
    }
  }
  return value;
}

void GgufParser::Start(uint64_t& entries, uint64_t& tensors) {
  const uint32_t magic = Read<uint32_t>();
  if (ok() && magic != kMagic) Fail("other first bytes", "\"GGUF\"");
  head_.version = Read<uint32_t>();
  if (ok() && head_.version != 2 && head_.version != 3) {
    const bool swapped = (head_.version & 0xffff) == 0 && head_.version != 0;
    Fail(swapped ? std::string("a big-endian file") : Cat("version ", head_.version), "version 2 or 3, little-endian");
  }
  tensors = Read<uint64_t>();
  entries = Read<uint64_t>();
  if (ok() && tensors > kMaxGgufTensors) Fail(Cat(tensors, " tensors"), Cat("at most ", kMaxGgufTensors));
  if (ok() && entries > kMaxGgufEntries) Fail(Cat(entries, " keys"), Cat("at most ", kMaxGgufEntries));
}

void GgufParser::Entries(uint64_t count) {
  head_.entries.reserve(std::min(count, left() / kShortestEntry));
  for (uint64_t i = 0; i < count && ok(); ++i) {
    const size_t start = at_;
    GgufEntry entry;
    subject_ = {};
    entry.key = String(1, kMaxGgufKeyBytes, "a key");
    subject_ = entry.key;
    entry.value = Value();
    if (!ok()) return;
    entry.raw = bytes_.substr(start, at_ - start);
    head_.entries.push_back(entry);
  }
  subject_ = {};
}

void GgufParser::Tensors(uint64_t count) {
  head_.tensors.reserve(std::min(count, left() / kShortestTensor));
  for (uint64_t i = 0; i < count && ok(); ++i) {
    const size_t start = at_;
    GgufTensorInfo tensor;
    subject_ = {};
    tensor.name = String(1, kMaxGgufNameBytes, "a tensor name");
    subject_ = tensor.name;
    const uint32_t rank = Read<uint32_t>();
    if (ok() && rank > tensor.dims.size()) Fail(Cat(rank, " dimensions"), Cat("at most ", tensor.dims.size()));
    for (uint32_t d = 0; d < rank && ok(); ++d) {
      tensor.dims[d] = Read<uint64_t>();
      if (tensor.dims[d] != 0 && tensor.elements > INT64_MAX / tensor.dims[d]) Fail("more elements", "fewer than 2^63");
      tensor.elements *= tensor.dims[d];
    }
    tensor.type = Read<uint32_t>();
    tensor.offset = Read<uint64_t>();
    if (!ok()) return;
    tensor.raw = bytes_.substr(start, at_ - start);
    head_.tensors.push_back(tensor);
  }
  subject_ = {};
}

uint64_t GgufParser::Alignment() {
  const GgufEntry* entry = head_.Find("general.alignment");
  if (entry == nullptr) return kDefaultAlignment;
  uint32_t alignment = 0;
  if (entry->value.type == GgufType::kUint32) std::memcpy(&alignment, entry->value.bytes.data(), sizeof(alignment));
  if (!std::has_single_bit(alignment) || alignment > kMaxAlignment) {
    subject_ = entry->key;
    Fail(entry->value.type == GgufType::kUint32 ? Cat(alignment) : GgufTypeName(entry->value.type),
         Cat("a uint32 that is a power of two, at most ", kMaxAlignment));
    return kDefaultAlignment;
  }
  return alignment;
}

template <typename Item, typename NameOf>
std::vector<uint32_t> GgufParser::Sorted(const std::vector<Item>& items, NameOf name_of, std::string_view what) {
  std::vector<uint32_t> order(items.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return name_of(items[a]) < name_of(items[b]); });
  for (size_t i = 1; i < order.size() && ok(); ++i) {
    if (name_of(items[order[i]]) != name_of(items[order[i - 1]])) continue;
    subject_ = name_of(items[order[i]]);
    Fail(Cat("the ", what, " twice"), "once");
  }
  return order;
}

absl::StatusOr<GgufHead> GgufParser::Parse() {
  uint64_t entries = 0;
  uint64_t tensors = 0;
  Start(entries, tensors);
  if (ok()) Entries(entries);
  if (ok()) Tensors(tensors);
  head_.size = at_;
  if (ok()) head_.by_key_ = Sorted(head_.entries, [](const GgufEntry& e) { return e.key; }, "key");
  if (ok()) head_.by_name_ = Sorted(head_.tensors, [](const GgufTensorInfo& t) { return t.name; }, "tensor");
  if (ok()) {
    const uint64_t alignment = Alignment();
    head_.data_offset = (head_.size + alignment - 1) / alignment * alignment;
  }
  if (!ok()) return status_;
  return std::move(head_);
}

const GgufEntry* GgufHead::Find(std::string_view key) const {
  const auto at = std::lower_bound(by_key_.begin(), by_key_.end(), key,
                                   [&](uint32_t i, std::string_view wanted) { return entries[i].key < wanted; });
  return at != by_key_.end() && entries[*at].key == key ? &entries[*at] : nullptr;
}

const GgufTensorInfo* GgufHead::FindTensor(std::string_view name) const {
  const auto at = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                   [&](uint32_t i, std::string_view wanted) { return tensors[i].name < wanted; });
  return at != by_name_.end() && tensors[*at].name == name ? &tensors[*at] : nullptr;
}

absl::StatusOr<GgufHead> ParseGgufHead(std::string_view bytes, bool* truncated) {
  return GgufParser(bytes, truncated).Parse();
}

std::string RewriteGgufHead(const GgufHead& head, bool (*keep_entry)(const GgufEntry&),
                            bool (*keep_tensor)(const GgufTensorInfo&)) {
  std::string entries;
  std::string tensors;
  uint64_t entry_count = 0;
  uint64_t tensor_count = 0;
  for (const GgufEntry& entry : head.entries) {
    if (!keep_entry(entry)) continue;
    entries += entry.raw;
    ++entry_count;
  }
  for (const GgufTensorInfo& tensor : head.tensors) {
    if (!keep_tensor(tensor)) continue;
    tensors += tensor.raw;
    ++tensor_count;
  }
  std::string out(2 * sizeof(uint32_t) + 2 * sizeof(uint64_t), '\0');
  std::memcpy(out.data(), &kMagic, 4);
  std::memcpy(out.data() + 4, &head.version, 4);
  std::memcpy(out.data() + 8, &tensor_count, 8);
  std::memcpy(out.data() + 16, &entry_count, 8);
  return out + entries + tensors;
}

}  // namespace phasor::server
