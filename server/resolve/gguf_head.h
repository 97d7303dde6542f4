// The head of a GGUF file, versions 2 and 3, little-endian: its metadata and what it says of its tensors. Knows the
// container, not the meaning of any key but general.alignment. Source of the format: ggml's docs/gguf.md.
#ifndef PHASOR_SERVER_RESOLVE_GGUF_HEAD_H_
#define PHASOR_SERVER_RESOLVE_GGUF_HEAD_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace phasor::server {

// Type of a metadata value, by the file's own numbers.
enum class GgufType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// "uint32", "array of float32".
std::string GgufTypeName(GgufType type);

// Bytes of one value of a type with a fixed size; 0 for strings and arrays.
size_t GgufSizeOf(GgufType type);

// One metadata value: a view of the file's bytes.
struct GgufValue {
  GgufType type = GgufType::kUint8;
  GgufType element = GgufType::kUint8;  // of arrays
  uint64_t count = 1;                   // of arrays: elements
  std::string_view bytes;               // a string's text, an array's elements, or the number itself
};

struct GgufEntry {
  std::string_view key;
  GgufValue value;
  std::string_view raw;  // the whole entry as it stands in the file
};

struct GgufTensorInfo {
  std::string_view name;
  std::string_view raw;  // the whole entry as it stands in the file
  std::array<uint64_t, 4> dims = {1, 1, 1, 1};
  uint64_t elements = 1;
  uint64_t offset = 0;  // from the start of the tensor data
  uint32_t type = 0;    // ggml's number: 0 f32, 1 f16, 30 bf16, 28 f64
};

// A cheap view: the bytes that it was parsed from must outlive it.
struct GgufHead {
  uint32_t version = 0;
  std::vector<GgufEntry> entries;       // in the order of the file
  std::vector<GgufTensorInfo> tensors;  // in the order of the file
  uint64_t size = 0;                    // bytes of the head
  uint64_t data_offset = 0;             // where tensor data starts in the file: size, rounded up to the alignment

  const GgufEntry* Find(std::string_view key) const;              // null: not there
  const GgufTensorInfo* FindTensor(std::string_view name) const;  // null: not there

 private:
  friend class GgufParser;
  std::vector<uint32_t> by_key_;   // indices, sorted by key
  std::vector<uint32_t> by_name_;  // indices, sorted by tensor name
};

// Limits on one head. Lengths and counts beyond them are refused before anything is allocated for them.
inline constexpr uint64_t kMaxGgufEntries = 65536;
inline constexpr uint64_t kMaxGgufTensors = uint64_t{1} << 20;
inline constexpr uint64_t kMaxGgufKeyBytes = 65535;  // the format's own
inline constexpr uint64_t kMaxGgufNameBytes = 4096;
inline constexpr int kMaxGgufNesting = 4;  // arrays of arrays

// Parses the leading bytes of a file; what follows the head is not looked at. Takes at most about 8 bytes of memory per byte
// of the head, and linear time. Errors: INVALID_ARGUMENT with a SpecError whose field is the key or the tensor's name, or
// "header", and whose text says at which byte. When the bytes merely end too early, `truncated` (may be null) becomes true:
// more of the file may help. Thread-safe.
absl::StatusOr<GgufHead> ParseGgufHead(std::string_view bytes, bool* truncated = nullptr);

// The head again with the entries and tensors that `keep_entry` and `keep_tensor` want, byte for byte as they were. Tensor
// offsets stay those of the original file.
std::string RewriteGgufHead(const GgufHead& head, bool (*keep_entry)(const GgufEntry&),
                            bool (*keep_tensor)(const GgufTensorInfo&));

// A key or name as it may stand in a message: printable, at most 80 bytes.
std::string GgufPrintable(std::string_view text);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RESOLVE_GGUF_HEAD_H_
