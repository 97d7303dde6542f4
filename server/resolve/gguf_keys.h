// Typed reading of a GGUF file's metadata: every getter knows its key, and the first wrong type or range is remembered with
// it, as json_reader.h does for configurations.
#ifndef PHASOR_SERVER_RESOLVE_GGUF_KEYS_H_
#define PHASOR_SERVER_RESOLVE_GGUF_KEYS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/resolve/gguf_head.h"
#include "server/resolve/json_reader.h"

namespace phasor::server {

// The shortest decimal that reads back as the same float32: "0.1", "1e+06".
std::string FormatFloat(double value);

// The keys of one architecture. A cheap view: head and Problems must outlive it. Names are without the architecture's
// prefix: "rope.freq_base" is llama.rope.freq_base. Integers of any width and sign are one type, floats of either width too.
class GgufKeys {
 public:
  GgufKeys(const GgufHead& head, std::string architecture, Problems* problems)
      : head_(head), architecture_(std::move(architecture)), problems_(problems) {}

  const std::string& architecture() const { return architecture_; }
  const GgufHead& head() const { return head_; }
  Problems& problems() const { return *problems_; }

  std::string PathOf(std::string_view key) const;  // "llama.rope.freq_base"
  bool Has(std::string_view key) const;
  bool IsList(std::string_view key) const;
  std::string_view FirstOf(std::initializer_list<std::string_view> keys) const;  // the first that is there; empty: none

  // A finite number; integers count. Errors: any other type, NaN and infinities.
  std::optional<double> Number(std::string_view key) const;
  // A whole number in low … high. Errors: any other type or value, floats too.
  std::optional<int64_t> Integer(std::string_view key, int64_t low, int64_t high) const;
  std::optional<bool> Bool(std::string_view key) const;
  std::optional<std::string> String(std::string_view key) const;  // at most 64 bytes
  // A list of whole numbers, or one number for all `count` entries. Bools count as 0 and 1. Errors: a list shorter than
  // `count`, entries out of range. Longer lists are cut.
  std::optional<std::vector<int64_t>> PerLayer(std::string_view key, int64_t count, int64_t low, int64_t high) const;
  // A list of whole numbers of any length up to `longest`.
  std::optional<std::vector<int64_t>> Integers(std::string_view key, size_t longest, int64_t low, int64_t high) const;

 private:
  const GgufEntry* Find(std::string_view key) const;
  void WrongType(std::string_view key, const GgufValue& value, std::string_view allowed) const;

  const GgufHead& head_;
  std::string architecture_;
  Problems* problems_;
};

// A string value of a key with its full name, at most `longest` bytes; nullopt when it is not there.
std::optional<std::string> GgufString(const GgufHead& head, std::string_view key, size_t longest, Problems& problems);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RESOLVE_GGUF_KEYS_H_
