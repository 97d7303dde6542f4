#include "server/knowledge/angle_positions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"

#include "server/knowledge/angle_faults.h"
#include "server/knowledge/numbers.h"

namespace phasor::server {
namespace {

constexpr int kMostScans = 12;

// The first start whose rounded positions are these; none: no start does.
std::optional<int64_t> StartOfRounded(const std::vector<int64_t>& positions, DType dtype) {
  const auto first = static_cast<double>(positions[0]);
  const auto reach = static_cast<int64_t>(UlpOf(dtype, std::max(first, 1.0)));
  for (int64_t distance = 0; distance <= 2 * reach; ++distance) {
    // 0, 1, −1, 2, −2 …
    const int64_t start = positions[0] + (distance % 2 != 0 ? (distance + 1) / 2 : -distance / 2);
    if (start < 0) continue;
    bool all = true, any = false;
    for (size_t row = 0; row < positions.size() && all; ++row) {
      const auto exact = static_cast<double>(start + static_cast<int64_t>(row));
      all = RoundTo(dtype, exact) == static_cast<double>(positions[row]);
      any = any || exact != static_cast<double>(positions[row]);
    }
    if (all && any) return start;
  }
  return std::nullopt;
}

bool JudgeRounding(const std::vector<int64_t>& positions, Diagnosis& diagnosis) {
  const std::set<int64_t> distinct(positions.begin(), positions.end());
  for (const auto& [dtype, name, text] :
       {std::tuple{DType::kBF16, "positions_in_bf16", "bf16"}, std::tuple{DType::kF16, "positions_in_f16", "f16"}}) {
    const std::optional<int64_t> start = StartOfRounded(positions, dtype);
    if (!start) continue;
    int64_t first = 0;
    while (positions[static_cast<size_t>(first)] == *start + first) ++first;
    AddFault(diagnosis, name,
             absl::StrCat(positions.size(), " rows stand at ", distinct.size(), " positions, those of ", *start,
                          " and the following rounded to ", text),
             distinct.size() > 1 ? 0.98 : 0.7, first);
    return true;
  }
  return false;
}

// Whether a row has the numbers of the row before.
bool IsRowBefore(const PairTable& table, int64_t row) {
  const auto same = [&](const std::vector<double>& values) {
    const auto begin = values.begin() + row * table.pairs;
    return values.empty() || std::equal(begin, begin + table.pairs, begin - table.pairs);
  };
  return same(table.cos) && same(table.sin);
}

}  // namespace

double RowTolerance(DType dtype) { return 0.02 + 3 * UlpOf(dtype, 0.75); }

std::vector<int64_t> DecodePositions(const PairTable& table, const KnownTurns& turns, std::optional<int64_t> start) {
  const double tolerance = RowTolerance(table.dtype);
  std::vector<int64_t> positions;
  int64_t guess = start.value_or(0), last_step = 1;
  int scans = 0;
  int64_t lost = 0;
  for (int64_t row = 0; row < table.rows; ++row) {
    const int64_t before = positions.empty() ? kNoPosition : positions.back();
    std::vector<int64_t> tries{guess};
    if (before != kNoPosition) {
      tries.insert(tries.end(), {before, before + last_step});
      for (int64_t step = 2; step <= 1024; step *= 2) tries.push_back(before + step);
      tries.insert(tries.end(), {0, 1});
    }
    int64_t found = kNoPosition;
    for (int64_t position : tries) {
      if (position < 0 || !(RowError(table, turns, row, position) <= tolerance)) continue;
      found = position;
      break;
    }
    if (found == kNoPosition && scans++ < kMostScans) {
      const std::array<int64_t, 1> rows{row};
      for (int64_t position : ScanPositions(table, turns, rows, 0, kPositionLimit + table.rows)) {
        if (RowError(table, turns, row, position) <= tolerance) {
          found = position;
          break;
        }
      }
    }
    if (found == kNoPosition && (row == 0 || ++lost > table.rows / 8)) return {};
    if (found != kNoPosition && before != kNoPosition && found > before) last_step = found - before;
    positions.push_back(found);
    guess = found == kNoPosition ? guess + 1 : found + 1;
  }
  return positions;
}

void JudgePositions(const PairTable& table, const std::vector<int64_t>& positions, Diagnosis& diagnosis) {
  if (positions.size() < 2 || std::find(positions.begin(), positions.end(), kNoPosition) != positions.end()) return;
  size_t row = 1;
  while (row < positions.size() && positions[row] == positions[row - 1] + 1) ++row;
  if (row == positions.size() || JudgeRounding(positions, diagnosis)) return;
  const int64_t before = positions[row - 1], here = positions[row];
  const auto at = static_cast<int64_t>(row);
  const std::string text = absl::StrCat("row ", at, " stands at position ", here, " after ", before);
  if (here == before) {
    if (!IsRowBefore(table, at)) return;
    AddFault(diagnosis, "rows_repeated", text, 0.95, at);
  } else {
    AddFault(diagnosis, here < before ? "positions_restart" : "positions_jump", text, 0.95, at);
  }
}

}  // namespace phasor::server
