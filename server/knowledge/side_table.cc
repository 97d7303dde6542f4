// Somebody's table as a side.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "server/knowledge/side.h"

namespace phasor::server {
namespace {

std::string ShapeOf(const InputTensor& tensor) { return absl::StrCat("[", absl::StrJoin(tensor.shape, ", "), "]"); }

absl::Status BadShape(const InputTensor& tensor, std::string_view allowed) {
  return MakeSpecError("table.tensors[0].shape", ShapeOf(tensor), allowed);
}

absl::Status CheckFinite(const std::vector<double>& values, size_t index) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    return MakeSpecError(absl::StrCat("table.tensors[", index, "].data"), absl::StrCat(values[i], " as element ", i),
                         "finite numbers (Diagnose says more of others)");
  }
  return absl::OkStatus();
}

// [rows, columns], or [rows, heads, pairs] beside a side of several heads; one axis is one row.
absl::StatusOr<Grid> RowsOf(const InputTensor& tensor, const Side* other = nullptr) {
  if (tensor.shape.size() == 3 && other != nullptr && other->heads > 1) {
    return Grid{tensor.shape[0], tensor.shape[1] * tensor.shape[2], tensor.values};
  }
  if (tensor.shape.size() > 2) return BadShape(tensor, "[rows, columns]");
  const int64_t columns = tensor.shape.back();
  const int64_t rows = tensor.shape.size() == 2 ? tensor.shape.front() : 1;
  return Grid{rows, columns, tensor.values};
}

Grid Columns(const Grid& grid, int64_t first, int64_t step, int64_t count) {
  Grid out{grid.rows, count, std::vector<double>(static_cast<size_t>(grid.rows * count))};
  for (int64_t row = 0; row < grid.rows; ++row) {
    for (int64_t i = 0; i < count; ++i) out.at(row, i) = grid.at(row, first + i * step);
  }
  return out;
}

// Whether columns a_i = first_a + i·step and b_i = first_b + i·step, i < count, are equal in every row.
bool Alike(const Grid& grid, int64_t first_b, int64_t step, int64_t count) {
  for (int64_t row = 0; row < grid.rows; ++row) {
    for (int64_t i = 0; i < count; ++i) {
      if (grid.at(row, i * step) != grid.at(row, first_b + i * step)) return false;
    }
  }
  return true;
}

// Columns that stand twice, [c_0 … c_{n−1}, c_0 … c_{n−1}] or [c_0, c_0, c_1, c_1 …], are kept once; that says the pairing.
void FoldDuplicates(Side* side, const Side* other) {
  Entries& e = side->given;
  const int64_t columns = e.columns(), n = columns / 2;
  if (columns % 2 != 0 || (other != nullptr && other->columns == columns)) return;
  const auto both = [&](int64_t first_b, int64_t step) {
    return Alike(e.first, first_b, step, e.first.rows > 0 ? n : 0) &&
           Alike(e.second, first_b, step, e.second.rows > 0 ? n : 0);
  };
  int64_t step = 0;
  if (both(n, 1)) {
    step = 1;
    side->pairing = Pairing::kHalfSplit;
  } else if (both(1, 2)) {
    step = 2;
    side->pairing = Pairing::kInterleaved;
  } else {
    return;
  }
  if (e.first.rows > 0) e.first = Columns(e.first, 0, step, n);
  if (e.second.rows > 0) e.second = Columns(e.second, 0, step, n);
}

// A table of PoPE: beside a spec that tells queries from keys, one for the channels of both.
void SpreadPolar(Side* side, const Side& other) {
  side->family = Family::kPolar;
  if (2 * side->given.columns() * other.heads != other.columns) return;
  for (Grid* grid : {&side->given.first, &side->given.second}) {
    Grid both{grid->rows, 2 * grid->columns, std::vector<double>(2 * grid->values.size())};
    for (int64_t row = 0; row < grid->rows; ++row) {
      for (int64_t i = 0; i < both.columns; ++i) both.at(row, i) = grid->at(row, i % grid->columns);
    }
    if (grid->rows > 0) *grid = std::move(both);
  }
}

absl::Status ReadRotation(const InputTable& table, Side* side, const Side* other) {
  auto first = RowsOf(table.tensors[0], other);
  if (!first.ok()) return first.status();
  side->family = Family::kRotation;
  if (table.content == InputContent::kCosSin) {
    if (first->columns % 2 != 0) return BadShape(table.tensors[0], "[rows, columns], columns even: cosines, then sines");
    const int64_t n = first->columns / 2;
    side->given = {Columns(*first, 0, 1, n), Columns(*first, n, 1, n)};
    if (other != nullptr && other->family == Family::kPolar) SpreadPolar(side, *other);
    return absl::OkStatus();
  }
  if (table.content == InputContent::kSin) {
    side->given.second = *std::move(first);
  } else {
    side->given.first = *std::move(first);
  }
  if (table.tensors.size() == 2) side->given.second = *RowsOf(table.tensors[1], other);
  if (other != nullptr && other->family == Family::kPolar) {
    SpreadPolar(side, *other);
  } else {
    FoldDuplicates(side, other);
    if (other != nullptr && side->given.columns() == other->columns) side->heads = other->heads;
  }
  return absl::OkStatus();
}

// [heads, distances], ascending. The last entry is distance 0, or the first −first_position; entries beyond 0 are left out.
absl::Status ReadVector(const InputTable& table, Side* side) {
  const InputTensor& tensor = table.tensors[0];
  if (tensor.shape.size() > 2) return BadShape(tensor, "[heads, distances] or [distances]");
  const int64_t heads = tensor.shape.size() == 2 ? tensor.shape.front() : 1;
  const int64_t distances = tensor.shape.back();
  const int64_t farthest = table.first_position.value_or(distances - 1);
  const int64_t kept = std::min(distances, farthest + 1);
  Grid rows{kept, heads, std::vector<double>(static_cast<size_t>(kept * heads))};
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t d = 0; d < kept; ++d) rows.at(d, h) = tensor.values[static_cast<size_t>(h * distances + kept - 1 - d)];
  }
  side->given.first = std::move(rows);
  side->first_row = farthest + 1 - kept;
  return absl::OkStatus();
}

// [heads, queries, keys]: row d of the answer is distance −d, read from the last query; earlier queries must agree, unless
// the other side depends on the query too.
absl::Status ReadMatrix(const InputTensor& tensor, const Side* other, Side* side) {
  if (tensor.shape.size() < 2) return BadShape(tensor, "[heads, queries, keys] or [queries, keys]");
  const int64_t heads = tensor.shape.size() == 3 ? tensor.shape[0] : 1;
  const int64_t keys = tensor.shape.back(), queries = tensor.shape[tensor.shape.size() - 2];
  if (queries > keys) return BadShape(tensor, "at least as many keys as queries: the last query stands at the last key");
  side->by_query = other != nullptr && other->by_query;
  if (side->by_query) {
    side->query = keys - 1;
    side->matrix = tensor;
  }
  Grid rows{keys, heads, std::vector<double>(static_cast<size_t>(keys * heads))};
  const auto at = [&](int64_t h, int64_t q, int64_t k) {
    return tensor.values[static_cast<size_t>((h * queries + q) * keys + k)];
  };
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t d = 0; d < keys; ++d) rows.at(d, h) = at(h, queries - 1, keys - 1 - d);
    for (int64_t q = 0; q < queries && !side->by_query; ++q) {
      for (int64_t k = 0; k <= keys - queries + q; ++k) {
        if (at(h, q, k) == rows.at(keys - queries + q - k, h)) continue;
        return MakeSpecError(
            "table.tensors[0].data",
            absl::StrCat("head ", h, ", query ", q, ", key ", k, " differs from the last query at the same distance"),
            "a bias that depends on the distance alone");
      }
    }
  }
  side->given.first = std::move(rows);
  return absl::OkStatus();
}

// Frequencies or slopes are a spec in disguise.
absl::StatusOr<Side> FromValues(const InputTable& table) {
  const InputTensor& tensor = table.tensors[0];
  const bool frequencies = table.content == InputContent::kInvFreq;
  if (tensor.shape.size() != 1) return BadShape(tensor, frequencies ? "[pairs]" : "[heads]");
  EncodingSpec spec;
  if (frequencies) {
    RopeSpec rope;
    rope.head_dim = 2 * tensor.shape[0];
    rope.schedule = InvFreqSchedule{tensor.values};
    spec = std::move(rope);
  } else {
    AlibiSpec alibi;
    alibi.num_heads = tensor.shape[0];
    alibi.slopes = tensor.values;
    spec = std::move(alibi);
  }
  absl::Status status;
  const auto canonical = Canonicalize(spec);
  if (canonical.ok()) {
    auto side = SideOfSpec(*canonical, std::nullopt, Precision::kExact);
    if (side.ok()) {
      side->from_spec = false;
      side->pairing.reset();
      return side;
    }
    status = side.status();
  } else {
    status = canonical.status();
  }
  const auto error = SpecErrorOf(status);
  return error ? MakeSpecError("table.tensors[0].data", error->given, error->allowed) : status;
}

// What a single tensor is that nobody named, from its shape and what it is compared with.
absl::StatusOr<InputContent> GuessContent(const InputTensor& tensor, const Side* other) {
  const std::vector<int64_t>& shape = tensor.shape;
  if (other != nullptr && other->family == Family::kWindow) return InputContent::kBias;
  if (other == nullptr || other->family == Family::kTable) {
    return shape.size() == 3 ? InputContent::kBias : InputContent::kSinusoidal;
  }
  if (other->family == Family::kBias) {
    if (shape.size() == 3) return InputContent::kBias;
    if (shape.size() == 1) return other->columns == shape[0] ? InputContent::kSlopes : InputContent::kBiasVector;
    return shape[0] == other->columns ? InputContent::kBiasVector : InputContent::kBias;
  }
  if (shape.size() == 1 && shape[0] == other->columns) return InputContent::kInvFreq;
  if (shape.back() == 2 * other->columns) return InputContent::kCosSin;
  if (other->family == Family::kPolar && shape.back() * other->heads == other->columns) return InputContent::kCosSin;
  return MakeSpecError("table.content", absl::StrCat("nothing, for ", ShapeOf(tensor)),
                       "what the numbers are: COS, SIN, COS_SIN, INV_FREQ …");
}

}  // namespace

absl::StatusOr<Side> SideOfTable(const InputTable& given, const Side* other) {
  InputTable table = given;
  if (table.content == InputContent::kUnknown) {
    const auto content = GuessContent(table.tensors[0], other);
    if (!content.ok()) return content.status();
    table.content = *content;
  }
  const bool window = other != nullptr && other->family == Family::kWindow;
  if (window && (table.content == InputContent::kBias || table.content == InputContent::kSinusoidal)) {
    if (absl::Status status = CheckFinite(table.tensors[0].values, 0); !status.ok()) return status;
    return SideOfWindowTensor(table.tensors[0], *other->window);
  }
  // Keys after the query may be masked with infinities; ReadMatrix leaves them out.
  const bool matrix = table.content == InputContent::kBias;
  for (size_t i = 0; i < table.tensors.size() && !matrix; ++i) {
    if (absl::Status status = CheckFinite(table.tensors[i].values, i); !status.ok()) return status;
  }
  const DType dtype = table.tensors[0].dtype;
  if (table.content == InputContent::kInvFreq || table.content == InputContent::kSlopes) {
    return FromValues(table);
  }
  Side side;
  absl::Status status;
  side.family = Family::kBias;
  if (matrix) {
    status = ReadMatrix(table.tensors[0], other, &side);
  } else if (table.content == InputContent::kBiasVector) {
    status = ReadVector(table, &side);
  } else if (table.content == InputContent::kSinusoidal) {
    side.family = Family::kTable;
    auto rows = RowsOf(table.tensors[0]);
    status = rows.status();
    if (rows.ok()) side.given.first = *std::move(rows);
  } else {
    status = ReadRotation(table, &side, other);
  }
  if (!status.ok()) return status;
  if (matrix) {
    status = CheckFinite(side.given.first.values, 0);
    if (!status.ok()) return status;
  }
  side.table_type = dtype;
  side.columns = side.given.columns();
  side.rows = side.given.rows();
  if (side.family != Family::kBias) side.first_row = table.first_position.value_or(0);
  return side;
}

}  // namespace phasor::server
