// Which part of a bias over a window of an image, or of a learned function of positions, is asked for.
#ifndef PHASOR_SERVER_WINDOW_LAYOUT_H_
#define PHASOR_SERVER_WINDOW_LAYOUT_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "phasor/v1/position_service.pb.h"

#include "kernels/program/masking.h"
#include "kernels/program/window_bias.h"
#include "server/bias_parser.h"
#include "server/work.h"

namespace phasor::server {

// Positions of batch row b are [b·stride, b·stride + count) of the list; stride 0: one row for all.
struct PlaceRows {
  std::vector<int64_t> places;
  int64_t stride = 0;
};

struct WindowLayout {
  BiasRequest request;
  DType dtype = DType::kF32;
  bool indices = false;
  int64_t batch = 0;           // of the answer; 0: no batch axis
  bool rows_differ = false;    // batch rows have values of their own, before masks
  int64_t first_distance = 0;  // of the vector form
  PlaceRows queries, keys;     // empty: a window of tokens, or the vector form
  bool masked = false;
  Masking masking;
  std::optional<WorkInput> additive;
  std::string masking_key;

  // Whether positions go up by 1 on both sides, of every batch row.
  bool Consecutive() const;

  int64_t batch_rows() const { return std::max<int64_t>(batch, 1); }
  // Rows of one head: the row form has that of the last query.
  int64_t rows() const { return request.form == BiasForm::kRow ? 1 : request.queries; }
};

// Errors are relative to the item. The answer's size has been held to the limits before anything is expanded.
absl::StatusOr<WindowLayout> ParseWindowLayout(const v1::PrecomputeItem& message, const std::string& scheme,
                                               const BiasTraits& traits, ParseContext& context);

// The answer's array.
absl::StatusOr<WorkArray> ArrayOf(const WindowLayout& layout, const Limits& limits);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_WINDOW_LAYOUT_H_
