// What the pictures of plot_subject.h have in common: their words, and the entries that they are made of.
#ifndef PHASOR_SERVER_KNOWLEDGE_PLOT_PARTS_H_
#define PHASOR_SERVER_KNOWLEDGE_PLOT_PARTS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "kernels/backend.h"
#include "server/knowledge/plot_subject.h"

namespace phasor::server {

std::string ShortNumber(double value);
// "alibi, 8 heads".
std::string NameWithWidth(const Side& side);
// The caller's, or "Table: alibi, 8 heads".
std::string TitleOf(const PlotSettings& settings, std::string_view what, const Side& side);
// "0 to 4095".
std::string WindowText(const RowWindow& window);
// Vertical lines at the lengths.
std::vector<Mark> MarksOf(const PlotSettings& settings);

// CANCELLED when the caller has gone.
absl::Status CheckCancel(const PlotSettings& settings);
// EntriesOf in f64, made in blocks of rows between which a cancellation is seen.
absl::StatusOr<Entries> EntriesInBlocks(const Backend& backend, const Side& side, const RowWindow& window,
                                        const PlotSettings& settings);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_PLOT_PARTS_H_
