#include "server/knowledge/spec_fields.h"

#include <map>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "google/protobuf/message.h"
#include "phasor/v1/encoding.pb.h"

#include "server/spec_parser.h"

namespace phasor::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Path → value as JSON, in the order of the message.
using Leaves = std::vector<std::pair<std::string, std::string>>;

std::string Number(double value) {
  for (int digits = 6; digits < 17; ++digits) {
    std::string text = absl::StrFormat("%.*g", digits, value);
    double back = 0;
    if (absl::SimpleAtod(text, &back) && back == value) return text;
  }
  return absl::StrFormat("%.17g", value);
}

// A field that is no message; `index` < 0: not repeated.
std::string ValueOf(const Message& message, const FieldDescriptor& field, int index) {
  const auto& r = *message.GetReflection();
  const bool one = index < 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return Number(one ? r.GetDouble(message, &field) : r.GetRepeatedDouble(message, &field, index));
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat(one ? r.GetInt64(message, &field) : r.GetRepeatedInt64(message, &field, index));
    case FieldDescriptor::CPPTYPE_BOOL:
      return r.GetBool(message, &field) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return absl::StrCat("\"", r.GetEnum(message, &field)->name(), "\"");
    case FieldDescriptor::CPPTYPE_STRING: {
      const std::string text = one ? r.GetString(message, &field) : r.GetRepeatedString(message, &field, index);
      return absl::StrCat(
          "\"", field.type() == FieldDescriptor::TYPE_BYTES ? absl::BytesToHexString(text) : absl::CEscape(text), "\"");
    }
    default:
      return "?";
  }
}

void Collect(const Message& message, const std::string& path, Leaves* leaves) {
  std::vector<const FieldDescriptor*> fields;
  const auto& reflection = *message.GetReflection();
  reflection.ListFields(message, &fields);
  if (fields.empty() && !path.empty()) leaves->emplace_back(path, "{}");
  for (const FieldDescriptor* field : fields) {
    const std::string name = path.empty() ? field->name() : absl::StrCat(path, ".", field->name());
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const std::string place = field->is_repeated() ? absl::StrCat(name, "[", i, "]") : name;
      if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
        leaves->emplace_back(place, ValueOf(message, *field, field->is_repeated() ? i : -1));
        continue;
      }
      Collect(
          field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i) : reflection.GetMessage(message, field),
          place, leaves);
    }
  }
}

Leaves LeavesOf(const EncodingSpec& spec) {
  v1::EncodingSpec message;
  SpecToProto(spec, &message);
  Leaves leaves;
  Collect(message, "", &leaves);
  return leaves;
}

}  // namespace

std::vector<FieldDifference> DifferentFields(const EncodingSpec& a, const EncodingSpec& b, size_t limit) {
  const Leaves of_a = LeavesOf(a), of_b = LeavesOf(b);
  std::map<std::string, std::string> left(of_b.begin(), of_b.end());
  std::vector<FieldDifference> differences;
  for (const auto& [path, value] : of_a) {
    const auto found = left.find(path);
    const std::string other = found == left.end() ? "" : found->second;
    if (found != left.end()) left.erase(found);
    if (value != other) differences.push_back({path, value, other});
  }
  for (const auto& [path, value] : of_b) {
    if (left.contains(path)) differences.push_back({path, "", value});
  }
  if (differences.size() > limit) differences.resize(limit);
  return differences;
}

}  // namespace phasor::server
