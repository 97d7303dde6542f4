// What to draw, from sides to charts.
#ifndef PHASOR_SERVER_KNOWLEDGE_PLOT_SUBJECT_H_
#define PHASOR_SERVER_KNOWLEDGE_PLOT_SUBJECT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

#include "kernels/backend.h"
#include "server/knowledge/compare.h"
#include "server/knowledge/plot.h"
#include "server/knowledge/side.h"

namespace phasor::server {

struct PlotSettings {
  std::string title;  // empty: made from the subject
  double width = kDefaultPlotWidth;
  int64_t trained_length = 0, wanted_length = 0;  // 0: not marked
  const CancelFlag* cancel = nullptr;             // looked at between pieces of work
};

// Heads of a bias beyond which a picture of two differences is of kMaxCells of them.
inline constexpr int64_t kMaxHeadsCompared = 4096;

// Of more heads than a picture can show, evenly spaced ones are made and drawn; axis and description say how many of how
// many. All errors are those of EntriesOf, CANCELLED, or a SpecError without a field that says which subjects the picture
// takes.

// Positions by columns; of rotations the cosines, then the sines; of biases distances by up to kMaxCells heads.
absl::StatusOr<Picture> PlotTable(const Backend& backend, const Side& side, const RowWindow& window,
                                  const PlotSettings& settings);
// Dot products of rows, of up to kMaxCells evenly spaced positions.
absl::StatusOr<Picture> PlotSimilarity(const Backend& backend, const Side& side, const RowWindow& window,
                                       const PlotSettings& settings);
// Of encodings with frequencies.
absl::StatusOr<Picture> PlotWavelengths(const Side& side, const PlotSettings& settings);
// Of rotations the mean over pairs of A²·cos(distance·inv_freq), which is the score of equal queries and keys; else the
// bias.
absl::StatusOr<Picture> PlotDecay(const Backend& backend, const Side& side, const RowWindow& window,
                                  const PlotSettings& settings);
// A curve per head, of up to kMaxCurves evenly spaced ones.
absl::StatusOr<Picture> PlotBias(const Backend& backend, const Side& side, const RowWindow& window,
                                 const PlotSettings& settings);
// Largest difference and root mean square by position, of comparable sides.
absl::StatusOr<Picture> PlotDifference(const Backend& backend, const Side& a, const Side& b, const RowWindow& window,
                                       const PlotSettings& settings);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_PLOT_SUBJECT_H_
