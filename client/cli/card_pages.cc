#include "client/cli/card_pages.h"

#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "client/cli/card_html.h"
#include "client/cli/card_pictures.h"
#include "client/cli/progress.h"

namespace phasor::cli {
namespace {

absl::Status WriteFile(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  return file ? absl::OkStatus() : absl::UnavailableError(absl::StrCat(path.string(), ": cannot be written"));
}

absl::StatusOr<PictureCard> MakeCard(client::Client& client, const CardSizeArgs& size, const std::string& name) {
  v1::GetSchemeRequest request;
  request.set_name(name);
  request.set_positions(size.positions);
  request.set_width(size.width);
  request.set_heads(size.heads);
  auto card = client.GetScheme(request);
  if (!card.ok()) return card.status();
  const PictureNumbers numbers = PictureOf(client, *card);
  PictureCard made{*std::move(card), Svg(numbers), numbers.caption, ""};
  made.plot = PlotOf(client, made.card);
  return made;
}

}  // namespace

absl::Status WriteCardPages(Tool& tool, const CardSizeArgs& size, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return absl::UnavailableError(absl::StrCat(folder, ": ", error.message()));
  absl::StatusOr<client::Client*> client = tool.Connect();
  if (!client.ok()) return client.status();
  const auto schemes = (*client)->ListSchemes();
  if (!schemes.ok()) return schemes.status();

  std::vector<PictureCard> cards;
  {
    ProgressLine line(tool.progress, "cards");
    for (const v1::SchemeSummary& scheme : schemes->schemes()) {
      line.Show(static_cast<double>(cards.size()) / schemes->schemes_size(), scheme.name());
      auto card = MakeCard(**client, size, scheme.name());
      if (!card.ok()) return card.status();
      cards.push_back(*std::move(card));
    }
    line.Show(1, "written");
  }
  const std::filesystem::path root(folder);
  for (const PictureCard& card : cards) {
    absl::Status status = WriteFile(root / absl::StrCat(card.card.scheme().name(), ".html"), CardPage(card, cards));
    if (!status.ok()) return status;
  }
  absl::Status status = WriteFile(root / "index.html", IndexPage(cards));
  if (status.ok()) status = WriteFile(root / "poster.html", PosterPage(cards));
  if (!status.ok()) return status;
  tool.Say(absl::StrCat(cards.size(), " cards, an index and a poster in ", folder));
  return absl::OkStatus();
}

}  // namespace phasor::cli
