// In what two encodings differ, and what that does.
#ifndef PHASOR_SERVER_KNOWLEDGE_COMPARE_H_
#define PHASOR_SERVER_KNOWLEDGE_COMPARE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "kernels/backend.h"
#include "server/knowledge/side.h"

namespace phasor::server {

inline constexpr int64_t kMaxComparedRows = 65536;
inline constexpr int64_t kMaxComparedEntries = int64_t{1} << 22;  // rows × columns
inline constexpr int64_t kMaxColumnsShown = 4096;
inline constexpr double kMaxComparedProducts = 0x1p27;  // of a learned function or mixture

// Rows to look at. `count` within the limits above.
struct RowWindow {
  int64_t first = 0;
  int64_t count = 0;
};

struct DifferenceAt {
  int64_t index = 0;
  double max = 0, rms = 0;
};

struct FirstDifference {
  DType dtype = DType::kF32;
  std::optional<int64_t> position;
  double share = 0;
};

struct ScoreEffect {
  int64_t samples = 0;
  double max_change = 0, rms_change = 0, rms_score = 0;
  std::vector<DifferenceAt> by_distance;
};

// How b is made from a; numbers that say nothing are 0.
struct Transformation {
  std::string kind = "none";
  std::string how;
  std::vector<int64_t> permutation;
  int64_t shift = 0;
  double scale = 0;
  double position_factor = 0;
  bool constant_per_head = false;  // of biases: b − a is one number per head, which the softmax removes
};

struct Comparison {
  bool same_spec = false, same_bits = false;
  // Distances of biases are ≤ 0.
  double max_difference = 0, rms_difference = 0;
  int64_t max_position = 0, max_column = 0;
  std::vector<DifferenceAt> by_position, by_column;
  std::vector<FirstDifference> first_differences;
  std::optional<double> max_ulps;
  std::optional<ScoreEffect> scores;
  Transformation transformation;
  // Biases of two specs: largest difference at distances 1 … 256, after the query; fewer where there are very many heads.
  double future_difference = 0;
  // Biases that depend on the query: largest difference for other queries than the last one, after scaling and reordering as
  // `transformation` says.
  double other_queries_difference = 0;
  std::string verdict;
};

// OK when a and b are of one family and width (and MatchSides was called). Errors: a SpecError without a field, about b.
absl::Status CheckComparable(const Side& a, const Side& b);

// The window that both have: `count` where it is given (> 0), else kDefaultRows or what the sides and the limits allow.
// Errors: a SpecError for "first_position" or "count".
inline constexpr int64_t kDefaultRows = 4096;
absl::StatusOr<RowWindow> ChooseWindow(const Side& a, const Side* b, std::optional<int64_t> first, int64_t count,
                                       int64_t default_count);

// Of comparable sides. Errors: of EntriesOf; CANCELLED.
absl::StatusOr<Comparison> Compare(const Backend& backend, const Side& a, const Side& b, const RowWindow& window,
                                   uint64_t seed, const CancelFlag* cancel);

// Indices 0 … count − 1, at most `limit` (≥ 8) of them: the first quarter dense, then ever wider, always with the last.
std::vector<int64_t> SpacedOut(int64_t count, int64_t limit);

// What Compare is made of.

// Whether every bit of every result is equal: one plan, placed alike. False where a side is no spec.
bool SameBits(const Side& a, const Side& b);
// Of rotations and biases; `ea` and `eb` are the f64 entries of the window.
std::optional<ScoreEffect> EffectOnScores(const Side& a, const Side& b, const Entries& ea, const Entries& eb,
                                          const RowWindow& window, uint64_t seed);
Transformation FindTransformation(const Side& a, const Side& b, const Entries& ea, const Entries& eb, bool same_bits);
// Of biases: 0 where it does not apply. Errors: of making them.
absl::StatusOr<double> FutureDifference(const Backend& backend, const Side& a, const Side& b);
absl::StatusOr<double> OtherQueriesDifference(const Backend& backend, const Side& a, const Side& b, const RowWindow& window,
                                              const Transformation& found);
// A bias that is the other at shifted distances, over the whole window, or up to one number per head.
absl::StatusOr<std::optional<Transformation>> FindBiasTransformation(const Backend& backend, const Side& a, const Side& b,
                                                                     const Entries& ea, const Entries& eb,
                                                                     const RowWindow& window);
// One or two sentences.
std::string Verdict(const Side& a, const Side& b, const RowWindow& window, const Comparison& comparison);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_COMPARE_H_
