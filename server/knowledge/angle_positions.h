// The position of every row, read back from the values.
#ifndef PHASOR_SERVER_KNOWLEDGE_ANGLE_POSITIONS_H_
#define PHASOR_SERVER_KNOWLEDGE_ANGLE_POSITIONS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "server/knowledge/angle_start.h"
#include "server/knowledge/diagnosis.h"

namespace phasor::server {

inline constexpr int64_t kNoPosition = -1;

// Positions per row, kNoPosition where none fits; `start` is tried first for row 0. Empty: too many rows fit nothing.
std::vector<int64_t> DecodePositions(const PairTable& table, const KnownTurns& turns, std::optional<int64_t> start);

// A position that is tried for a row beside its neighbour's successor fits within this, root mean square.
double RowTolerance(DType dtype);

// What the positions of the table's rows say: rounded to 16 bits, restarting, standing still, leaping. Nothing where they go
// up by one, nor where rows are near one position and yet differ, as those of a table that is almost 0 are.
void JudgePositions(const PairTable& table, const std::vector<int64_t>& positions, Diagnosis& diagnosis);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_ANGLE_POSITIONS_H_
