// Typed reading of a configuration: every getter knows its key's path, and the first wrong type or range is remembered
// with it, so that readers of models list what they want line by line and ask for the status once.
#ifndef PHASOR_SERVER_RESOLVE_JSON_READER_H_
#define PHASOR_SERVER_RESOLVE_JSON_READER_H_

#include <rapidjson/document.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "kernels/encodings/encoding.h"

namespace phasor::server {

inline constexpr int kMaxConfigDepth = 64;
inline constexpr size_t kMaxConfigBytes = size_t{16} << 20;

// The first error of one reading, and the warnings about the file as a whole. Not thread-safe.
class Problems {
 public:
  // Keeps the first violation only. INVALID_ARGUMENT with a SpecError payload.
  void Fail(std::string_view path, std::string_view given, std::string_view allowed);
  void Fail(absl::Status status);
  void Warn(std::string_view path, std::string message);

  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }
  const std::vector<Note>& warnings() const { return warnings_; }
  std::vector<Note> TakeWarnings() { return std::move(warnings_); }

 private:
  absl::Status status_;
  std::vector<Note> warnings_;
};

// One object of a configuration. A cheap view: the document and the Problems must outlive it. Absent and null read the
// same way (nullopt), as every library does, except through IsNull. Of duplicate keys the last counts, as in Python, with a
// warning.
class JsonObject {
 public:
  // `value` is an object. `path` is empty for the file itself.
  JsonObject(const rapidjson::Value& value, std::string path, Problems* problems);

  bool Has(std::string_view key) const;     // there and not null
  bool IsNull(std::string_view key) const;  // there and null
  bool IsTrue(std::string_view key) const { return Bool(key).value_or(false); }
  bool IsEmpty() const { return members_->empty(); }
  std::vector<std::string> Keys() const;  // each once, in the order of the values that count
  std::string PathOf(std::string_view key) const;
  const std::string& path() const { return path_; }  // empty for the file itself

  // The first key of the list that is there and not null; empty when none is.
  std::string_view FirstOf(std::initializer_list<std::string_view> keys) const;

  // The same object, whose errors and warnings go elsewhere.
  JsonObject Reporting(Problems* problems) const;

  // Whether the value at `key` was asked for by its type (Number … Objects below) through this view or any other of the same
  // document; whether it is there, null or of some type does not count as reading it.
  bool WasRead(std::string_view key) const;
  // What a message says about the value: 7, "text", a list of 3; empty: there is none.
  std::string ValueText(std::string_view key) const;
  // Whether both have the same value there: none, or a number, text or flag; lists and objects are not compared.
  bool SameValue(std::string_view key, const JsonObject& other) const;

  // A number that is finite. Errors: any other type, NaN and infinities.
  std::optional<double> Number(std::string_view key) const;
  // A whole number (32.0 counts) in low … high.
  std::optional<int64_t> Integer(std::string_view key, int64_t low, int64_t high) const;
  std::optional<bool> Bool(std::string_view key) const;
  std::optional<std::string> String(std::string_view key) const;
  std::optional<JsonObject> Object(std::string_view key) const;
  // Lists whose entries all have the type.
  std::optional<std::vector<double>> Numbers(std::string_view key) const;
  std::optional<std::vector<int64_t>> Integers(std::string_view key, int64_t low, int64_t high) const;
  std::optional<std::vector<std::string>> Strings(std::string_view key) const;
  std::optional<std::vector<JsonObject>> Objects(std::string_view key, size_t most) const;  // at most so many

  // The same for values of which only one type matters: any other type reads as absent.
  bool IsObject(std::string_view key) const;
  bool IsNumber(std::string_view key) const;
  bool IsList(std::string_view key) const;
  int64_t ListSize(std::string_view key) const;  // entries of a list, else 0

 private:
  using ReadValues = std::unordered_set<const rapidjson::Value*>;

  JsonObject(const rapidjson::Value& value, std::string path, Problems* problems, std::shared_ptr<ReadValues> read);
  const rapidjson::Value* Find(std::string_view key) const;
  const rapidjson::Value* Take(std::string_view key) const;  // Find, and remembers that it was read
  template <typename T, typename Read>
  std::optional<std::vector<T>> List(std::string_view key, std::string_view allowed, Read read) const;
  void WrongType(const std::string& path, const rapidjson::Value& value, std::string_view allowed) const;

  std::string path_;
  Problems* problems_;
  const rapidjson::Value* value_;
  std::shared_ptr<const std::unordered_map<std::string_view, const rapidjson::Value*>> members_;
  std::shared_ptr<ReadValues> read_;  // of the whole document
};

// Parses JSON text: bare NaN and Infinity are accepted, a byte order mark is skipped, UTF-8 is checked. Errors:
// INVALID_ARGUMENT with line, column and byte offset; nesting deeper than kMaxConfigDepth; more than kMaxConfigBytes; a
// root that is no object. Takes at most about 32 bytes of memory per byte of text.
absl::Status ParseConfig(std::string_view text, rapidjson::Document& document);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RESOLVE_JSON_READER_H_
