// Which positions rows stand at, where the frequencies are known.
#ifndef PHASOR_SERVER_KNOWLEDGE_ANGLE_START_H_
#define PHASOR_SERVER_KNOWLEDGE_ANGLE_START_H_

#include <cstdint>
#include <span>
#include <vector>

#include "server/knowledge/angle_layout.h"

namespace phasor::server {

inline constexpr int64_t kPositionLimit = int64_t{1} << 17;  // positions that are searched, of the first row

// Frequencies, radians per position, one per pair; `use[i]`: pair i counts.
struct KnownTurns {
  std::vector<double> frequency;
  std::vector<bool> use;
  double amplitude = 1;
};

// Root mean square deviation of a row from what the position makes, over the pairs that count.
double RowError(const PairTable& table, const KnownTurns& turns, int64_t row, int64_t position);

// Positions of `rows[0]` that fit best when the others go up with their row, best first, at most six. Positions from
// `lowest` to `highest`.
std::vector<int64_t> ScanPositions(const PairTable& table, const KnownTurns& turns, std::span<const int64_t> rows,
                                   int64_t lowest, int64_t highest);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_ANGLE_START_H_
