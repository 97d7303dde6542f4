// Small pictures of schemes, as SVG to stand inside a page: their colours are the page's (variables --ink, --faint, --cold
// and --hot), so that they are right on light and dark.
#ifndef PHASOR_CLIENT_CLI_CARD_PICTURES_H_
#define PHASOR_CLIENT_CLI_CARD_PICTURES_H_

#include <string>
#include <vector>

#include "phasor/v1/catalog_service.pb.h"

#include "client/phasor_client.h"

namespace phasor::cli {

// Numbers to draw. Infinite ones are left out.
struct PictureNumbers {
  enum class Kind { kNone, kWavelengths, kCurves, kHeatMap };
  Kind kind = Kind::kNone;
  std::vector<std::vector<double>> rows;  // wavelengths: one, positions per turn; curves: one a head; heat map: by row
  double first = 0;                       // curves: the first distance
  std::string caption;
};

// The card's example, made larger where its fields allow, by the server. Kind kNone where it makes no numbers.
PictureNumbers PictureOf(client::Client& client, const v1::GetSchemeResponse& card);

// Empty for kNone.
std::string Svg(const PictureNumbers& numbers);

// The server's own picture of the example; empty where it draws none.
std::string PlotOf(client::Client& client, const v1::GetSchemeResponse& card);

}  // namespace phasor::cli

#endif  // PHASOR_CLIENT_CLI_CARD_PICTURES_H_
