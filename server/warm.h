// Tables that the operator wants in the cache before the first call.
#ifndef PHASOR_SERVER_WARM_H_
#define PHASOR_SERVER_WARM_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

#include "kernels/core/dtype.h"
#include "server/request.h"

namespace phasor::server {

struct WarmTable {
  std::string label;  // for logs
  TableSource source;
  DType dtype = DType::kF32;
  int64_t rows = 0;
};

// Reads one --warm value:
//   [dtype=f32,][positions=N,][length=N,][layer_type=T,]SOURCE
// SOURCE is the path of a config.json, or an EncodingSpec as proto3 JSON ("{…}"). dtype: f64, f32, f16, bf16 (default f32).
// positions: rows from 0 on; default: the model's maximum. length: for schedules that depend on it. layer_type: default all
// that have a table; biases need no warming and are left out.
// Errors: INVALID_ARGUMENT that says what is allowed, NOT_FOUND for a file that cannot be read.
absl::StatusOr<std::vector<WarmTable>> ReadWarmValue(std::string_view value, int64_t max_positions);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_WARM_H_
