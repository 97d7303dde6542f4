// Cards as pages that need nothing else: one file each, styles inside, light or dark as the reader's system is.
#ifndef PHASOR_CLIENT_CLI_CARD_HTML_H_
#define PHASOR_CLIENT_CLI_CARD_HTML_H_

#include <string>
#include <string_view>
#include <vector>

#include "phasor/v1/catalog_service.pb.h"

namespace phasor::cli {

// A card with what was drawn for it.
struct PictureCard {
  v1::GetSchemeResponse card;
  std::string svg;      // small; may be empty
  std::string caption;  // of it
  std::string plot;     // the server's own picture; may be empty
};

// & < > " ' replaced.
std::string Escaped(std::string_view text);

// "Rotary", "Absolute", "Biases on scores" or "Terms of scores".
std::string_view GroupOf(const v1::GetSchemeResponse& card);

// SCHEME.html. Related schemes that are not in `all` are named without a link.
std::string CardPage(const PictureCard& card, const std::vector<PictureCard>& all);
// index.html
std::string IndexPage(const std::vector<PictureCard>& all);
// poster.html
std::string PosterPage(const std::vector<PictureCard>& all);

}  // namespace phasor::cli

#endif  // PHASOR_CLIENT_CLI_CARD_HTML_H_
