#include "server/resolve/gguf_keys.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "server/text.h"

namespace phasor::server {
namespace {

constexpr size_t kMaxStringBytes = 64;

template <typename T>
T ReadAs(std::string_view bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

// A number of any integer type; what does not fit int64 is its largest value.
std::optional<int64_t> AsInteger(GgufType type, std::string_view bytes) {
  switch (type) {
    case GgufType::kUint8:
      return ReadAs<uint8_t>(bytes);
    case GgufType::kInt8:
      return ReadAs<int8_t>(bytes);
    case GgufType::kUint16:
      return ReadAs<uint16_t>(bytes);
    case GgufType::kInt16:
      return ReadAs<int16_t>(bytes);
    case GgufType::kUint32:
      return ReadAs<uint32_t>(bytes);
    case GgufType::kInt32:
      return ReadAs<int32_t>(bytes);
    case GgufType::kInt64:
      return ReadAs<int64_t>(bytes);
    case GgufType::kUint64: {
      const uint64_t value = ReadAs<uint64_t>(bytes);
      return value > INT64_MAX ? INT64_MAX : static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

// The same number as the file has it.
std::string IntegerText(GgufType type, std::string_view bytes) {
  if (type == GgufType::kUint64) return Cat(ReadAs<uint64_t>(bytes));
  return Cat(AsInteger(type, bytes).value_or(0));
}

std::optional<double> AsNumber(GgufType type, std::string_view bytes) {
  if (type == GgufType::kFloat32) return ReadAs<float>(bytes);
  if (type == GgufType::kFloat64) return ReadAs<double>(bytes);
  const auto integer = AsInteger(type, bytes);
  return integer ? std::optional<double>(static_cast<double>(*integer)) : std::nullopt;
}

std::string NumberText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return FormatFloat(value);
}

std::string Between(int64_t low, int64_t high) { return Cat("a whole number, ", low, " … ", high); }

}  // namespace

std::string FormatFloat(double value) {
  char text[32];
  const auto end = std::to_chars(std::begin(text), std::end(text), static_cast<float>(value)).ptr;
  return std::string(text, end);
}

std::string GgufKeys::PathOf(std::string_view key) const { return Cat(architecture_, ".", key); }

const GgufEntry* GgufKeys::Find(std::string_view key) const { return head_.Find(PathOf(key)); }

bool GgufKeys::Has(std::string_view key) const { return Find(key) != nullptr; }

bool GgufKeys::IsList(std::string_view key) const {
  const GgufEntry* entry = Find(key);
  return entry != nullptr && entry->value.type == GgufType::kArray;
}

std::string_view GgufKeys::FirstOf(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys) {
    if (Has(key)) return key;
  }
  return {};
}

void GgufKeys::WrongType(std::string_view key, const GgufValue& value, std::string_view allowed) const {
  problems_->Fail(PathOf(key),
                  value.type == GgufType::kArray
                      ? Cat("a list of ", value.count, " values of type ", GgufTypeName(value.element))
                      : Cat("a value of type ", GgufTypeName(value.type)),
                  allowed);
}

std::optional<double> GgufKeys::Number(std::string_view key) const {
  const GgufEntry* entry = Find(key);
  if (entry == nullptr) return std::nullopt;
  const auto number = AsNumber(entry->value.type, entry->value.bytes);
  if (!number) {
    WrongType(key, entry->value, "a finite number");
  } else if (!std::isfinite(*number)) {
    problems_->Fail(PathOf(key), NumberText(*number), "a finite number");
    return std::nullopt;
  }
  return number;
}

std::optional<int64_t> GgufKeys::Integer(std::string_view key, int64_t low, int64_t high) const {
  const GgufEntry* entry = Find(key);
  if (entry == nullptr) return std::nullopt;
  const auto number = AsInteger(entry->value.type, entry->value.bytes);
  if (!number) {
    WrongType(key, entry->value, Between(low, high));
  } else if (*number < low || *number > high) {
    problems_->Fail(PathOf(key), IntegerText(entry->value.type, entry->value.bytes), Between(low, high));
    return std::nullopt;
  }
  return number;
}

std::optional<bool> GgufKeys::Bool(std::string_view key) const {
  const GgufEntry* entry = Find(key);
  if (entry == nullptr) return std::nullopt;
  if (entry->value.type == GgufType::kBool) return entry->value.bytes[0] != 0;
  WrongType(key, entry->value, "a bool");
  return std::nullopt;
}

std::optional<std::string> GgufKeys::String(std::string_view key) const {
  return GgufString(head_, PathOf(key), kMaxStringBytes, *problems_);
}

std::optional<std::vector<int64_t>> GgufKeys::Integers(std::string_view key, size_t longest, int64_t low,
                                                       int64_t high) const {
  const GgufEntry* entry = Find(key);
  if (entry == nullptr) return std::nullopt;
  const GgufValue& value = entry->value;
  const bool whole = value.element == GgufType::kBool || AsInteger(value.element, std::string(8, '\0')).has_value();
  if (value.type != GgufType::kArray || !whole) {
    WrongType(key, value, "a list of whole numbers");
    return std::nullopt;
  }
  if (value.count > longest) {
    problems_->Fail(PathOf(key), Cat(value.count, " entries"), Cat("at most ", longest));
    return std::nullopt;
  }
  const size_t size = GgufSizeOf(value.element);
  std::vector<int64_t> numbers;
  for (uint64_t i = 0; i < value.count; ++i) {
    const std::string_view bytes = value.bytes.substr(i * size, size);
    const int64_t number = value.element == GgufType::kBool ? int64_t{bytes[0] != 0} : *AsInteger(value.element, bytes);
    if (number < low || number > high) {
      const bool flag = value.element == GgufType::kBool;
      problems_->Fail(Cat(PathOf(key), "[", i, "]"), flag ? Cat(number) : IntegerText(value.element, bytes),
                      Between(low, high));
      return std::nullopt;
    }
    numbers.push_back(number);
  }
  return numbers;
}

std::optional<std::vector<int64_t>> GgufKeys::PerLayer(std::string_view key, int64_t count, int64_t low,
                                                       int64_t high) const {
  if (!Has(key)) return std::nullopt;
  if (!IsList(key)) {
    const auto one = Integer(key, low, high);
    if (!one) return std::nullopt;
    return std::vector<int64_t>(static_cast<size_t>(count), *one);
  }
  constexpr size_t kLongest = 65536;
  auto numbers = Integers(key, kLongest, low, high);
  if (numbers && numbers->size() < static_cast<size_t>(count)) {
    problems_->Fail(PathOf(key), Cat(numbers->size(), " entries"), Cat("one for each of ", count, " layers"));
    return std::nullopt;
  }
  if (numbers) numbers->resize(static_cast<size_t>(count));
  return numbers;
}

std::optional<std::string> GgufString(const GgufHead& head, std::string_view key, size_t longest, Problems& problems) {
  const GgufEntry* entry = head.Find(key);
  if (entry == nullptr) return std::nullopt;
  if (entry->value.type != GgufType::kString) {
    problems.Fail(key, Cat("a value of type ", GgufTypeName(entry->value.type)), "a string");
    return std::nullopt;
  }
  if (entry->value.bytes.size() > longest) {
    problems.Fail(key, Cat("a string of ", entry->value.bytes.size(), " bytes"), Cat("at most ", longest, " bytes"));
    return std::nullopt;
  }
  return std::string(entry->value.bytes);
}

}  // namespace phasor::server
