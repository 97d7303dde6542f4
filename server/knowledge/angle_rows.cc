// Rows that cannot be right whatever the table is.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "server/knowledge/angle_faults.h"

namespace phasor::server {
namespace {

enum class RowKind : uint8_t { kFine, kZeros, kNotFinite };

std::vector<RowKind> KindsOf(const InputTable& table) {
  const int64_t columns = table.tensors[0].shape.back();
  const size_t rows = table.tensors[0].values.size() / static_cast<size_t>(columns);
  std::vector<RowKind> kinds(rows, RowKind::kFine);
  for (size_t row = 0; row < rows; ++row) {
    bool zeros = true, finite = true;
    for (const InputTensor& tensor : table.tensors) {
      const double* values = tensor.values.data() + row * static_cast<size_t>(columns);
      for (int64_t i = 0; i < columns; ++i) {
        zeros = zeros && values[i] == 0;
        finite = finite && std::isfinite(values[i]);
      }
    }
    if (!finite) kinds[row] = RowKind::kNotFinite;
    // Sines alone are zeros at position 0.
    const bool may_be_sines = table.content == InputContent::kSin || table.content == InputContent::kUnknown;
    if (zeros && !(row == 0 && may_be_sines && table.tensors.size() == 1)) kinds[row] = RowKind::kZeros;
  }
  return kinds;
}

Rows LongestFine(const std::vector<RowKind>& kinds) {
  Rows best;
  for (int64_t begin = 0, row = 0; row <= static_cast<int64_t>(kinds.size()); ++row) {
    if (row < static_cast<int64_t>(kinds.size()) && kinds[static_cast<size_t>(row)] == RowKind::kFine) continue;
    if (row - begin > best.end - best.begin) best = {begin, row};
    begin = row + 1;
  }
  return best;
}

}  // namespace

void AddFault(Diagnosis& diagnosis, std::string_view name, std::string symptom, double confidence,
              std::optional<int64_t> first_row) {
  for (const Fault& fault : diagnosis.faults) {
    if (fault.card->name == name) return;
  }
  for (const FaultCard& card : AngleFaultCards()) {
    if (card.name == name) diagnosis.faults.push_back({&card, std::move(symptom), confidence, first_row});
  }
}

RowHealth InspectRows(const InputTable& table) {
  RowHealth health;
  Diagnosis found;
  const std::vector<RowKind> kinds = KindsOf(table);
  const auto rows = static_cast<int64_t>(kinds.size());
  const auto not_finite = std::count(kinds.begin(), kinds.end(), RowKind::kNotFinite);
  if (not_finite > 0) {
    const int64_t first = std::find(kinds.begin(), kinds.end(), RowKind::kNotFinite) - kinds.begin();
    AddFault(found, "not_finite",
             absl::StrCat(not_finite, " of ", rows, " rows hold NaN or infinities, the first is row ", first), 1, first);
  }
  int64_t tail = 0;
  while (tail < rows && kinds[static_cast<size_t>(rows - 1 - tail)] == RowKind::kZeros) ++tail;
  if (tail > 0 && tail < rows) {
    AddFault(found, "rows_truncated", absl::StrCat("the last ", tail, " of ", rows, " rows are zeros"), 1, rows - tail);
  }
  const auto zeros = std::count(kinds.begin(), kinds.end(), RowKind::kZeros) - tail;
  if (zeros > 0) {
    const int64_t first = std::find(kinds.begin(), kinds.end(), RowKind::kZeros) - kinds.begin();
    health.observations.push_back(absl::StrCat(zeros == 1 ? "a row" : absl::StrCat(zeros, " rows"), " of zeros, from row ",
                                               first, ": a padding row of some libraries"));
  }
  health.usable = LongestFine(kinds);
  health.faults = std::move(found.faults);
  return health;
}

}  // namespace phasor::server
