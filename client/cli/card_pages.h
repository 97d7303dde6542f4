// phasor card --all: every card as a page, an index and a poster.
#ifndef PHASOR_CLIENT_CLI_CARD_PAGES_H_
#define PHASOR_CLIENT_CLI_CARD_PAGES_H_

#include <string>

#include "absl/status/status.h"

#include "client/cli/card_text.h"
#include "client/cli/tool.h"

namespace phasor::cli {

// Writes index.html, poster.html and SCHEME.html for every scheme into `folder`, which is made where it is missing. Files of
// these names are replaced.
absl::Status WriteCardPages(Tool& tool, const CardSizeArgs& size, const std::string& folder);

}  // namespace phasor::cli

#endif  // PHASOR_CLIENT_CLI_CARD_PAGES_H_
