// Text between the standard library and Abseil, whose string_view is a type of its own in some distributions' packages.
#ifndef PHASOR_SERVER_TEXT_H_
#define PHASOR_SERVER_TEXT_H_

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace phasor::server {

inline absl::string_view ToAbsl(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view ToStd(absl::string_view text) { return {text.data(), text.size()}; }

namespace internal {
template <typename T>
const T& CatArgument(const T& value) {
  return value;
}
inline absl::string_view CatArgument(const std::string_view& text) { return ToAbsl(text); }
}  // namespace internal

// absl::StrCat and absl::StrAppend that take std::string_view.
template <typename... Arguments>
std::string Cat(const Arguments&... arguments) {
  return absl::StrCat(internal::CatArgument(arguments)...);
}
template <typename... Arguments>
void Append(std::string* out, const Arguments&... arguments) {
  absl::StrAppend(out, internal::CatArgument(arguments)...);
}

}  // namespace phasor::server

#endif  // PHASOR_SERVER_TEXT_H_
