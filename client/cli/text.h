// Debian's Abseil has a string_view of its own; this is the bridge to its functions.
#ifndef PHASOR_CLIENT_CLI_TEXT_H_
#define PHASOR_CLIENT_CLI_TEXT_H_

#include <string_view>

#include "absl/strings/string_view.h"

namespace phasor::cli {

inline absl::string_view View(std::string_view text) { return absl::string_view(text.data(), text.size()); }

}  // namespace phasor::cli

#endif  // PHASOR_CLIENT_CLI_TEXT_H_
