#include "server/resolve/json_reader.h"

#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "kernels/encodings/spec_check.h"
#include "server/resolve/json_numbers.h"

namespace phasor::server {
namespace {

using rapidjson::Value;

constexpr size_t kMaxQuoted = 48;         // characters of the file that a message repeats
constexpr int kMaxDuplicateWarnings = 8;  // per object

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

std::string_view StringOf(const Value& value) { return {value.GetString(), value.GetStringLength()}; }

std::string Quoted(std::string_view text) {
  const bool cut = text.size() > kMaxQuoted;
  return absl::StrCat("\"", absl::CHexEscape(View(text.substr(0, kMaxQuoted))), cut ? "…\"" : "\"");
}

std::string NumberText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return FormatNumber(value);
}

// What a message says about a value of the wrong type.
std::string Describe(const Value& value) {
  if (value.IsString()) return absl::StrCat("the string ", Quoted(StringOf(value)));
  if (value.IsBool()) return value.GetBool() ? "true" : "false";
  if (value.IsInt64()) return absl::StrCat(value.GetInt64());
  if (value.IsUint64()) return absl::StrCat(value.GetUint64());
  if (value.IsNumber()) return NumberText(value.GetDouble());
  if (value.IsArray()) return absl::StrCat("a list of ", value.Size());
  if (value.IsObject()) return "an object";
  return "null";
}

// Passes events on to the document and stops at the depth limit.
class DepthLimited {
 public:
  explicit DepthLimited(rapidjson::Document& out) : out_(out) {}

  bool Null() { return out_.Null(); }
  bool Bool(bool value) { return out_.Bool(value); }
  bool Int(int value) { return out_.Int(value); }
  bool Uint(unsigned value) { return out_.Uint(value); }
  bool Int64(int64_t value) { return out_.Int64(value); }
  bool Uint64(uint64_t value) { return out_.Uint64(value); }
  bool Double(double value) { return out_.Double(value); }
  bool RawNumber(const char* text, rapidjson::SizeType size, bool copy) { return out_.RawNumber(text, size, copy); }
  bool String(const char* text, rapidjson::SizeType size, bool copy) { return out_.String(text, size, copy); }
  bool Key(const char* text, rapidjson::SizeType size, bool copy) { return out_.Key(text, size, copy); }
  bool StartObject() { return Enter() && out_.StartObject(); }
  bool EndObject(rapidjson::SizeType count) { return --depth_, out_.EndObject(count); }
  bool StartArray() { return Enter() && out_.StartArray(); }
  bool EndArray(rapidjson::SizeType count) { return --depth_, out_.EndArray(count); }

 private:
  bool Enter() { return ++depth_ <= kMaxConfigDepth; }

  rapidjson::Document& out_;
  int depth_ = 0;
};

absl::Status ParseError(std::string_view text, const rapidjson::ParseResult& result) {
  if (result.Code() == rapidjson::kParseErrorTermination) {
    return MakeSpecError("", absl::StrCat("nesting deeper than ", kMaxConfigDepth, " at byte ", result.Offset()),
                         absl::StrCat("at most ", kMaxConfigDepth, " levels"));
  }
  const size_t offset = std::min(result.Offset(), text.size());
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t line_start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return MakeSpecError("",
                       absl::StrCat("text that is not JSON: line ", line, ", column ", offset - line_start + 1, ", byte ",
                                    offset, ": ", rapidjson::GetParseError_En(result.Code())),
                       "the text of a config.json (bare NaN and Infinity are accepted)");
}

std::optional<int64_t> WholeNumber(const Value& value) {
  if (value.IsInt64()) return value.GetInt64();
  if (!value.IsDouble()) return std::nullopt;
  const double number = value.GetDouble();
  if (!(std::fabs(number) < 9.0e15) || number != std::floor(number)) return std::nullopt;
  return static_cast<int64_t>(number);
}

}  // namespace

void Problems::Fail(std::string_view path, std::string_view given, std::string_view allowed) {
  if (status_.ok()) status_ = MakeSpecError(path, given, allowed);
}

void Problems::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

void Problems::Warn(std::string_view path, std::string message) {
  warnings_.push_back({std::string(path), std::move(message)});
}

JsonObject::JsonObject(const Value& value, std::string path, Problems* problems)
    : JsonObject(value, std::move(path), problems, std::make_shared<ReadValues>()) {}

JsonObject::JsonObject(const Value& value, std::string path, Problems* problems, std::shared_ptr<ReadValues> read)
    : path_(std::move(path)), problems_(problems), value_(&value), read_(std::move(read)) {
  auto members = std::make_shared<std::unordered_map<std::string_view, const Value*>>();
  int duplicates = 0;
  for (const auto& member : value.GetObject()) {
    const auto [place, fresh] = members->insert_or_assign(StringOf(member.name), &member.value);
    if (!fresh && ++duplicates <= kMaxDuplicateWarnings) {
      problems->Warn(PathOf(place->first.substr(0, kMaxQuoted)), "given more than once: the last one counts");
    }
  }
  members_ = std::move(members);
}

const Value* JsonObject::Find(std::string_view key) const {
  const auto found = members_->find(key);
  return found == members_->end() || found->second->IsNull() ? nullptr : found->second;
}

const Value* JsonObject::Take(std::string_view key) const {
  const Value* value = Find(key);
  if (value) read_->insert(value);
  return value;
}

bool JsonObject::WasRead(std::string_view key) const { return read_->contains(Find(key)); }

std::string JsonObject::ValueText(std::string_view key) const {
  const Value* value = Find(key);
  if (!value) return "";
  return value->IsString() ? Quoted(StringOf(*value)) : Describe(*value);
}

bool JsonObject::SameValue(std::string_view key, const JsonObject& other) const {
  const Value* mine = Find(key);
  const Value* theirs = other.Find(key);
  if (mine == nullptr || theirs == nullptr) return mine == theirs;
  const auto compound = [](const Value* value) { return value->IsObject() || value->IsArray(); };
  return !compound(mine) && !compound(theirs) && *mine == *theirs;
}

bool JsonObject::Has(std::string_view key) const { return Find(key) != nullptr; }

bool JsonObject::IsNull(std::string_view key) const { return members_->contains(key) && !Has(key); }

std::vector<std::string> JsonObject::Keys() const {
  std::vector<std::string> keys;
  for (const auto& member : value_->GetObject()) {
    if (members_->at(StringOf(member.name)) == &member.value) keys.emplace_back(StringOf(member.name));
  }
  return keys;
}

JsonObject JsonObject::Reporting(Problems* problems) const {
  JsonObject other = *this;
  other.problems_ = problems;
  return other;
}

std::string JsonObject::PathOf(std::string_view key) const {
  return path_.empty() ? std::string(key) : absl::StrCat(path_, ".", View(key));
}

std::string_view JsonObject::FirstOf(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys) {
    if (Has(key)) return key;
  }
  return {};
}

void JsonObject::WrongType(const std::string& path, const Value& value, std::string_view allowed) const {
  problems_->Fail(path, Describe(value), allowed);
}

std::optional<double> JsonObject::Number(std::string_view key) const {
  const Value* value = Take(key);
  if (!value) return std::nullopt;
  if (value->IsNumber() && std::isfinite(value->GetDouble())) return value->GetDouble();
  WrongType(PathOf(key), *value, "a finite number");
  return std::nullopt;
}

std::optional<int64_t> JsonObject::Integer(std::string_view key, int64_t low, int64_t high) const {
  const Value* value = Take(key);
  if (!value) return std::nullopt;
  const std::optional<int64_t> number = WholeNumber(*value);
  if (number && *number >= low && *number <= high) return number;
  WrongType(PathOf(key), *value, absl::StrCat("a whole number, ", low, " … ", high));
  return std::nullopt;
}

std::optional<bool> JsonObject::Bool(std::string_view key) const {
  const Value* value = Take(key);
  if (!value) return std::nullopt;
  if (value->IsBool()) return value->GetBool();
  WrongType(PathOf(key), *value, "true or false");
  return std::nullopt;
}

std::optional<std::string> JsonObject::String(std::string_view key) const {
  const Value* value = Take(key);
  if (!value) return std::nullopt;
  if (value->IsString()) return std::string(StringOf(*value));
  WrongType(PathOf(key), *value, "a string");
  return std::nullopt;
}

std::optional<JsonObject> JsonObject::Object(std::string_view key) const {
  const Value* value = Take(key);
  if (!value) return std::nullopt;
  if (value->IsObject()) return JsonObject(*value, PathOf(key), problems_, read_);
  WrongType(PathOf(key), *value, "an object or null");
  return std::nullopt;
}

template <typename T, typename Read>
std::optional<std::vector<T>> JsonObject::List(std::string_view key, std::string_view allowed, Read read) const {
  const Value* value = Take(key);
  if (!value) return std::nullopt;
  if (!value->IsArray()) {
    WrongType(PathOf(key), *value, absl::StrCat("a list: each entry ", View(allowed)));
    return std::nullopt;
  }
  std::vector<T> list;
  list.reserve(value->Size());
  for (const Value& entry : value->GetArray()) {
    std::optional<T> item = read(entry);
    if (!item) {
      WrongType(absl::StrCat(PathOf(key), "[", list.size(), "]"), entry, allowed);
      return std::nullopt;
    }
    list.push_back(*std::move(item));
  }
  return list;
}

std::optional<std::vector<double>> JsonObject::Numbers(std::string_view key) const {
  return List<double>(key, "a finite number", [](const Value& entry) -> std::optional<double> {
    if (!entry.IsNumber() || !std::isfinite(entry.GetDouble())) return std::nullopt;
    return entry.GetDouble();
  });
}

std::optional<std::vector<int64_t>> JsonObject::Integers(std::string_view key, int64_t low, int64_t high) const {
  return List<int64_t>(key, absl::StrCat("a whole number, ", low, " … ", high),
                       [&](const Value& entry) -> std::optional<int64_t> {
                         const std::optional<int64_t> number = WholeNumber(entry);
                         if (!number || *number < low || *number > high) return std::nullopt;
                         return number;
                       });
}

std::optional<std::vector<std::string>> JsonObject::Strings(std::string_view key) const {
  return List<std::string>(key, "a string", [](const Value& entry) -> std::optional<std::string> {
    if (!entry.IsString()) return std::nullopt;
    return std::string(StringOf(entry));
  });
}

std::optional<std::vector<JsonObject>> JsonObject::Objects(std::string_view key, size_t most) const {
  const Value* value = Take(key);
  if (!value) return std::nullopt;
  if (!value->IsArray() || value->Size() > most) {
    WrongType(PathOf(key), *value, absl::StrCat("a list of at most ", most, " objects"));
    return std::nullopt;
  }
  std::vector<JsonObject> list;
  for (const Value& entry : value->GetArray()) {
    const std::string path = absl::StrCat(PathOf(key), "[", list.size(), "]");
    if (!entry.IsObject()) {
      WrongType(path, entry, "an object");
      return std::nullopt;
    }
    list.push_back(JsonObject(entry, path, problems_, read_));
  }
  return list;
}

bool JsonObject::IsObject(std::string_view key) const { return Has(key) && Find(key)->IsObject(); }
bool JsonObject::IsNumber(std::string_view key) const { return Has(key) && Find(key)->IsNumber(); }
bool JsonObject::IsList(std::string_view key) const { return Has(key) && Find(key)->IsArray(); }
int64_t JsonObject::ListSize(std::string_view key) const { return IsList(key) ? Find(key)->Size() : 0; }

absl::Status ParseConfig(std::string_view text, rapidjson::Document& document) {
  if (text.size() > kMaxConfigBytes) {
    return MakeSpecError("", absl::StrCat(text.size(), " bytes"), absl::StrCat("at most ", kMaxConfigBytes, " bytes"));
  }
  const std::string tamed = WithShortNumbers(text);
  std::string_view body = tamed;
  if (body.substr(0, 3) == "\xEF\xBB\xBF") body.remove_prefix(3);
  // RapidJSON takes a zero byte for the end of the text.
  if (const size_t zero = body.find('\0'); zero != std::string_view::npos) {
    return ParseError(body, rapidjson::ParseResult(rapidjson::kParseErrorValueInvalid, zero));
  }
  constexpr unsigned kFlags =
      rapidjson::kParseNanAndInfFlag | rapidjson::kParseFullPrecisionFlag | rapidjson::kParseValidateEncodingFlag;
  rapidjson::Reader reader;
  rapidjson::ParseResult result;
  const auto parse = [&](rapidjson::Document& out) {
    rapidjson::MemoryStream bytes(body.data(), body.size());
    rapidjson::EncodedInputStream<rapidjson::UTF8<>, rapidjson::MemoryStream> stream(bytes);
    DepthLimited handler(out);
    result = reader.Parse<kFlags>(stream, handler);
    return !result.IsError();
  };
  document.Populate(parse);
  if (result.IsError()) return ParseError(body, result);
  if (!document.IsObject()) return MakeSpecError("", Describe(document), "a JSON object");
  return absl::OkStatus();
}

}  // namespace phasor::server
