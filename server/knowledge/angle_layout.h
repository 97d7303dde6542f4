// The columns of an unknown table of angles, set out as pairs of cosine and sine.
#ifndef PHASOR_SERVER_KNOWLEDGE_ANGLE_LAYOUT_H_
#define PHASOR_SERVER_KNOWLEDGE_ANGLE_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "server/knowledge/input_table.h"

namespace phasor::server {

enum class ColumnOrder : uint8_t {
  kHalfWidth,              // of cos or sin: one column per pair
  kDuplicated,             // the columns of all pairs, twice
  kInterleavedDuplicated,  // every column twice, side by side
  kHalves,                 // all of one kind, then all of the other
  kAlternating,            // sine, cosine, sine … or the other way round
};

struct Arrangement {
  InputContent content = InputContent::kUnknown;
  ColumnOrder order = ColumnOrder::kHalfWidth;
  bool sin_first = false;     // kHalves, kAlternating
  bool zero_column = false;   // the last column is zeros and belongs to no pair
  bool lacks_column = false;  // one column of the last pair is missing (odd width)
};

// Row-major [rows, pairs]; `cos` or `sin` is empty where the table has none.
struct PairTable {
  Arrangement arrangement;
  DType dtype = DType::kF32;
  DType rounded_to = DType::kF32;  // f32 where the values of an f64 table are all float32 numbers, else dtype
  int64_t rows = 0, pairs = 0, columns = 0;
  std::vector<double> cos{}, sin{};
  double radius_error = 0;  // of cos² + sin², the typical deviation from its median; 0 with one of them

  bool has_both() const { return !cos.empty() && !sin.empty(); }
  double cos_at(int64_t row, int64_t pair) const { return cos[static_cast<size_t>(row * pairs + pair)]; }
  double sin_at(int64_t row, int64_t pair) const { return sin[static_cast<size_t>(row * pairs + pair)]; }
};

// "half width", "duplicated", "sines, then cosines" …
std::string LayoutText(const Arrangement& arrangement);

// What the table may be by its shape and its content, likeliest first; at most four. Empty: fewer than two rows or no column
// that could be part of a pair. Where both kinds are present, directions are not settled: a sine may stand for a cosine.
std::vector<PairTable> ReadPairs(const InputTable& table);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_ANGLE_LAYOUT_H_
