// A scheme's card for a terminal.
#ifndef PHASOR_CLIENT_CLI_CARD_TEXT_H_
#define PHASOR_CLIENT_CLI_CARD_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "phasor/v1/catalog_service.pb.h"

namespace phasor::cli {

// The size that costs are computed for; 0: the server's default.
struct CardSizeArgs {
  int64_t positions = 0, width = 0, heads = 0;
};

// `text` cut at blanks into lines of at most `columns` characters (code points), each after `indent` blanks; the first one
// begins with `lead` in place of as many of them. A word longer than a line stands alone.
std::string Wrapped(std::string_view text, size_t indent, std::string_view lead = "", size_t columns = 100);

// Characters of UTF-8, as a terminal counts most of them.
size_t CharactersOf(std::string_view text);

// "1.07 G": three digits and a decimal prefix.
std::string FormatCount(double count);

// Sections, wrapped to 100 columns.
std::string CardText(const v1::GetSchemeResponse& card);

}  // namespace phasor::cli

#endif  // PHASOR_CLIENT_CLI_CARD_TEXT_H_
