// A table that somebody has, as numbers.
#ifndef PHASOR_SERVER_KNOWLEDGE_INPUT_TABLE_H_
#define PHASOR_SERVER_KNOWLEDGE_INPUT_TABLE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/core/dtype.h"

namespace phasor::server {

// What the numbers are; numbered as TableContent of the wire.
enum class InputContent : uint8_t {
  kUnknown = 0,
  kCos = 1,
  kSin = 2,
  kCosAndSin = 3,
  kCosSin = 4,
  kSinusoidal = 5,
  kBias = 6,
  kBiasVector = 7,
  kInvFreq = 8,
  kSlopes = 9,
};

struct InputTensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // 1 to 3 axes, leading ones of extent 1 dropped
  std::vector<double> values;  // row-major, widened; may be NaN or infinite
};

struct InputTable {
  InputContent content = InputContent::kUnknown;
  std::vector<InputTensor> tensors;  // one, or two of one shape and type (kCosAndSin)
  std::optional<int64_t> first_position;
};

inline constexpr int64_t kMaxInputElements = int64_t{1} << 22;  // of one tensor

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_INPUT_TABLE_H_
