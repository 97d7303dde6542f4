#include "server/knowledge/plot_parts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace phasor::server {
namespace {

void Append(const Grid& from, Grid* to) {
  to->rows += from.rows;
  to->columns = from.columns;
  to->values.insert(to->values.end(), from.values.begin(), from.values.end());
}

}  // namespace

std::string ShortNumber(double value) { return absl::StrFormat("%.4g", value); }

std::string NameWithWidth(const Side& side) {
  const std::string_view name = side.from_spec ? SchemeOf(side.spec->spec).name : "table";
  return absl::StrCat(std::string(name), ", ", side.columns, " ", std::string(ColumnName(side.family)),
                      side.columns == 1 ? "" : "s");
}

std::string TitleOf(const PlotSettings& settings, std::string_view what, const Side& side) {
  return settings.title.empty() ? absl::StrCat(std::string(what), ": ", NameWithWidth(side)) : settings.title;
}

std::string WindowText(const RowWindow& window) {
  return absl::StrCat(window.first, " to ", window.first + window.count - 1);
}

std::vector<Mark> MarksOf(const PlotSettings& settings) {
  std::vector<Mark> marks;
  if (settings.trained_length > 0) {
    marks.push_back(
        {static_cast<double>(settings.trained_length), absl::StrCat("trained length ", settings.trained_length)});
  }
  if (settings.wanted_length > 0) {
    marks.push_back({static_cast<double>(settings.wanted_length), absl::StrCat("wanted length ", settings.wanted_length)});
  }
  return marks;
}

absl::Status CheckCancel(const PlotSettings& settings) {
  return settings.cancel != nullptr && settings.cancel->load() ? absl::CancelledError("the caller has gone")
                                                               : absl::OkStatus();
}

absl::StatusOr<Entries> EntriesInBlocks(const Backend& backend, const Side& side, const RowWindow& window,
                                        const PlotSettings& settings) {
  constexpr int64_t kBlock = int64_t{1} << 17;  // entries
  Side pinned;                                  // rows of a bias by query are those of one query, whatever the block
  if (side.by_query && !side.query) {
    pinned = side;
    pinned.query = window.first + window.count - 1;
  }
  const Side& of_query = pinned.query ? pinned : side;
  const int64_t rows = std::max<int64_t>(1, kBlock / std::max<int64_t>(1, side.columns));
  Entries all;
  for (int64_t done = 0; done < window.count; done += rows) {
    if (absl::Status status = CheckCancel(settings); !status.ok()) return status;
    const auto block = EntriesOf(backend, of_query, window.first + done, std::min(rows, window.count - done), DType::kF64);
    if (!block.ok()) return block.status();
    Append(block->first, &all.first);
    Append(block->second, &all.second);
  }
  return all;
}

}  // namespace phasor::server
