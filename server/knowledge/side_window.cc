// Somebody's bias over a window of an image as a side.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "server/knowledge/learned_numbers.h"
#include "server/knowledge/side.h"

namespace phasor::server {
namespace {

// [heads, tokens, tokens] or [tokens, tokens] by row of the window's table; tokens with one offset must agree.
absl::StatusOr<Grid> RowsOfMatrix(const InputTensor& tensor, const TokenWindow& window) {
  const int64_t heads = tensor.shape.size() == 3 ? tensor.shape[0] : 1, tokens = window.tokens();
  const auto at = [&](int64_t head, int64_t query, int64_t key) {
    return tensor.values[static_cast<size_t>((head * tokens + query) * tokens + key)];
  };
  Grid rows{window.table_rows(), heads, std::vector<double>(static_cast<size_t>(window.table_rows() * heads))};
  for (int64_t row = 0; row < rows.rows; ++row) {
    const TokenPair pair = PairOfRow(window, row);
    for (int64_t head = 0; head < heads; ++head) rows.at(row, head) = at(head, pair.query, pair.key);
  }
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t query = 0; query < tokens; ++query) {
      for (int64_t key = 0; key < tokens; ++key) {
        const int64_t row = window.row_of(query, key);
        if (at(head, query, key) == rows.at(row, head)) continue;
        const TokenPair first = PairOfRow(window, row);
        return MakeSpecError("table.tensors[0].data",
                             absl::StrCat("head ", head, ", query ", query, ", key ", key, " differs from query ",
                                          first.query, ", key ", first.key, " at the same offset"),
                             "a bias that depends on the offset in the window alone");
      }
    }
  }
  return rows;
}

}  // namespace

absl::StatusOr<Side> SideOfWindowTensor(const InputTensor& tensor, const TokenWindow& window) {
  const std::vector<int64_t>& shape = tensor.shape;
  const int64_t tokens = window.tokens();
  Side side;
  side.family = Family::kWindow;
  side.window = window;
  side.table_type = tensor.dtype;
  if (shape.size() >= 2 && shape.back() == tokens && shape[shape.size() - 2] == tokens) {
    auto rows = RowsOfMatrix(tensor, window);
    if (!rows.ok()) return rows.status();
    side.given.first = *std::move(rows);
  } else if (shape.size() <= 2 && shape[0] == window.table_rows()) {
    side.given.first = {shape[0], shape.size() == 2 ? shape[1] : 1, tensor.values};
  } else {
    return MakeSpecError("table.tensors[0].shape", absl::StrCat("[", absl::StrJoin(shape, ", "), "]"),
                         absl::StrCat("[", window.table_rows(), ", heads], the rows of the window's table, or [heads, ",
                                      tokens, ", ", tokens, "]"));
  }
  side.columns = side.given.columns();
  side.rows = side.given.rows();
  return side;
}

}  // namespace phasor::server
