// A spec from a scheme's name and key=value pairs.
#include <set>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

#include "client/cli/spec_arg.h"

namespace phasor::cli {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;

std::string ShortEnumName(const google::protobuf::EnumValueDescriptor& value) {
  // PAIRING_HALF_SPLIT of enum Pairing → half_split
  std::string prefix;
  for (const char c : value.type()->name()) {
    if (absl::ascii_isupper(c) && !prefix.empty()) prefix += '_';
    prefix += absl::ascii_toupper(c);
  }
  return absl::AsciiStrToLower(value.name().substr(prefix.size() + 1));
}

absl::Status BadValue(const FieldDescriptor& field, const std::string& given, const std::string& allowed) {
  return UsageError(absl::StrCat(field.name(), ": given '", given, "'; allowed: ", allowed));
}

absl::Status SetEnum(Message& message, const FieldDescriptor& field, const std::string& text) {
  std::vector<std::string> names;
  for (int i = 1; i < field.enum_type()->value_count(); ++i) {
    const auto* value = field.enum_type()->value(i);
    names.push_back(ShortEnumName(*value));
    if (names.back() == text) {
      message.GetReflection()->SetEnum(&message, &field, value);
      return absl::OkStatus();
    }
  }
  return BadValue(field, text, absl::StrJoin(names, ", "));
}

absl::Status SetField(Message& message, const FieldDescriptor& field, const std::string& text) {
  const auto* reflection = message.GetReflection();
  double number = 0;
  int64_t integer = 0;
  bool flag = false;
  if (field.is_repeated()) {
    for (const absl::string_view part : absl::StrSplit(text, ',')) {
      if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
        if (!absl::SimpleAtoi(part, &integer)) return BadValue(field, text, "whole numbers separated by commas");
        reflection->AddInt64(&message, &field, integer);
        continue;
      }
      if (!absl::SimpleAtod(part, &number)) return BadValue(field, text, "numbers separated by commas");
      reflection->AddDouble(&message, &field, number);
    }
    return absl::OkStatus();
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_DOUBLE:
      if (!absl::SimpleAtod(text, &number)) return BadValue(field, text, "a number");
      reflection->SetDouble(&message, &field, number);
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_INT64:
      if (!absl::SimpleAtoi(text, &integer)) return BadValue(field, text, "a whole number");
      reflection->SetInt64(&message, &field, integer);
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_BOOL:
      if (!absl::SimpleAtob(text, &flag)) return BadValue(field, text, "true, false");
      reflection->SetBool(&message, &field, flag);
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_ENUM:
      return SetEnum(message, field, text);
    default:
      return BadValue(field, text, "nothing: it is no plain value");
  }
}

std::string SchemeNames() {
  std::vector<std::string> names;
  const OneofDescriptor* schedules = v1::RopeSpec::descriptor()->FindOneofByName("schedule");
  for (int i = 0; i < schedules->field_count(); ++i) {
    const std::string& name = schedules->field(i)->name();
    names.push_back(name == "default_schedule" ? "rope_default" : absl::StrCat("rope_", name));
  }
  const OneofDescriptor* schemes = v1::EncodingSpec::descriptor()->FindOneofByName("scheme");
  for (int i = 0; i < schemes->field_count(); ++i) {
    if (schemes->field(i)->name() != "rope") names.push_back(schemes->field(i)->name());
  }
  return absl::StrJoin(names, ", ");
}

// The messages whose fields the pairs may name, most specific first; empty when there is no such scheme.
std::vector<Message*> SelectScheme(std::string_view name, v1::EncodingSpec& spec) {
  if (!name.starts_with("rope_")) {
    const FieldDescriptor* scheme = v1::EncodingSpec::descriptor()->FindFieldByName(std::string(name));
    if (scheme == nullptr || scheme->containing_oneof() == nullptr) return {};
    return {spec.GetReflection()->MutableMessage(&spec, scheme)};
  }
  name.remove_prefix(5);
  const std::string field_name = name == "default" ? "default_schedule" : std::string(name);
  v1::RopeSpec* rope = spec.mutable_rope();
  const FieldDescriptor* field = rope->GetDescriptor()->FindFieldByName(field_name);
  if (field == nullptr || field->containing_oneof() == nullptr || field->containing_oneof()->name() != "schedule") return {};
  return {rope->GetReflection()->MutableMessage(rope, field), rope};
}

std::string FieldNames(const std::vector<Message*>& messages) {
  std::vector<std::string> names;
  for (const Message* message : messages) {
    const Descriptor* descriptor = message->GetDescriptor();
    for (int i = 0; i < descriptor->field_count(); ++i) {
      if (descriptor->field(i)->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE)
        names.push_back(descriptor->field(i)->name());
    }
  }
  return absl::StrJoin(names, ", ");
}

}  // namespace

absl::StatusOr<v1::EncodingSpec> SpecFromPairs(const std::vector<std::string>& tokens) {
  v1::EncodingSpec spec;
  const std::vector<Message*> messages = SelectScheme(tokens.front(), spec);
  if (messages.empty()) {
    return UsageError(absl::StrCat("SPEC: given '", tokens.front(), "'; allowed: a file, JSON, or one of ", SchemeNames()));
  }
  std::set<std::string> keys;
  for (size_t i = 1; i < tokens.size(); ++i) {
    const size_t equals = tokens[i].find('=');
    if (equals == std::string::npos) return UsageError(absl::StrCat("SPEC: given '", tokens[i], "'; allowed: key=value"));
    const std::string key = tokens[i].substr(0, equals);
    if (!keys.insert(key).second)
      return UsageError(absl::StrCat(tokens.front(), ": given key '", key, "' twice; allowed: once"));
    bool found = false;
    for (Message* message : messages) {
      const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(key);
      if (field == nullptr || field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) continue;
      if (absl::Status status = SetField(*message, *field, tokens[i].substr(equals + 1)); !status.ok()) return status;
      found = true;
      break;
    }
    if (!found) return UsageError(absl::StrCat(tokens.front(), ": given key '", key, "'; allowed: ", FieldNames(messages)));
  }
  return spec;
}

bool IsTable(const v1::EncodingSpec& spec) {
  switch (spec.scheme_case()) {
    case v1::EncodingSpec::kRope:
    case v1::EncodingSpec::kSinusoidal:
    case v1::EncodingSpec::kTimestep:
    case v1::EncodingSpec::kGaussianFourier:
    case v1::EncodingSpec::kLearned:
    case v1::EncodingSpec::kGridSinusoidal:
    case v1::EncodingSpec::kDistilled:
    case v1::EncodingSpec::kPope:
    case v1::EncodingSpec::kFope:
      return true;
    default:
      return false;
  }
}

}  // namespace phasor::cli
