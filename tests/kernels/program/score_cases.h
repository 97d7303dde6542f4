// Score cases of tests/golden/scores/scores.txt, and what runs one.
#ifndef PHASOR_TESTS_KERNELS_PROGRAM_SCORE_CASES_H_
#define PHASOR_TESTS_KERNELS_PROGRAM_SCORE_CASES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "kernels/backend.h"
#include "kernels/program/scores.h"

namespace phasor {

struct ScoreCase {
  std::string name;
  std::string term;  // "none", or a scheme
  int64_t batch = 0, heads = 0, key_heads = 0, queries = 0, keys = 0, dim = 0;
  std::map<std::string, int64_t> options;
  std::map<std::string, WeightRef> weights;
  std::vector<double> q, k;                             // [batch, tokens, heads, dim]
  std::vector<int64_t> query_positions, key_positions;  // empty: the usual ones
  std::vector<std::optional<double>> expect;
  double tolerance = 0;

  int64_t option(const std::string& key, int64_t fallback) const {
    const auto it = options.find(key);
    return it == options.end() ? fallback : it->second;
  }
  WeightRef weight(const std::string& key) const {
    const auto it = weights.find(key);
    return it == weights.end() ? WeightRef() : it->second;
  }
};

// DeBERTa's rows of distances −reach … reach.
struct DebertaRows {
  int64_t buckets = 0, furthest = 0, reach = 0;
  std::vector<int64_t> rows;
};

struct ScoreCases {
  std::vector<ScoreCase> cases;
  std::vector<DebertaRows> deberta_rows;
};
ScoreCases ReadScoreCases(const std::string& path);

// The term of a case, canonical.
EncodingSpec TermOf(const ScoreCase& c);
// The settings of a case, all tensors f64.
ScoreSettings SettingsOf(const ScoreCase& c);

// Scores (and values, where there are any) as bytes. q and k are of settings.tensor_dtype, [batch, tokens, heads, dim].
struct ScoreResult {
  std::vector<std::byte> scores, values;
};
absl::StatusOr<ScoreResult> RunScores(const Backend& backend, const ScoreSettings& settings, std::vector<std::byte> q,
                                      std::vector<std::byte> k);

std::vector<std::byte> BytesOf(const std::vector<double>& numbers, DType dtype);
std::vector<double> NumbersOf(const std::vector<std::byte>& bytes, DType dtype);

}  // namespace phasor

#endif  // PHASOR_TESTS_KERNELS_PROGRAM_SCORE_CASES_H_
