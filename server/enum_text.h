// Enums of the contract in error messages.
#ifndef PHASOR_SERVER_ENUM_TEXT_H_
#define PHASOR_SERVER_ENUM_TEXT_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"

namespace phasor::server {

// "PAIRING_HALF_SPLIT (1), PAIRING_INTERLEAVED (2)": every value but the unset one.
inline std::string AllowedValues(const google::protobuf::EnumDescriptor* type) {
  std::string text;
  for (int i = 0; i < type->value_count(); ++i) {
    if (type->value(i)->number() == 0) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", type->value(i)->name(), " (", type->value(i)->number(), ")");
  }
  return text;
}

}  // namespace phasor::server

#endif  // PHASOR_SERVER_ENUM_TEXT_H_
