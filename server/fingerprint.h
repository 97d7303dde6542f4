// Names for results, known before the data is made: equal for equal bits, different otherwise.
#ifndef PHASOR_SERVER_FINGERPRINT_H_
#define PHASOR_SERVER_FINGERPRINT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/core/dtype.h"
#include "kernels/encodings/plan.h"
#include "server/request.h"

namespace phasor::server {

// SHA-256 of `bytes`, 32 bytes.
std::string Sha256(std::string_view bytes);

// What a table's bits depend on beside its plan and dtype.
struct TableContent {
  const PositionSet* positions = nullptr;
  int64_t position_offset = 0;  // added to every position (sinusoids)
  // The row (position + offset) that is all zeros, when the window has it.
  std::optional<int64_t> zero_row;
  TableForm form = TableForm::kHalf;
  int64_t columns = 0;
  bool inverse = false;
  bool include_inv_freq = false;
};

// SHA-256(numerics version ‖ plan key ‖ window ‖ dtype ‖ form). Ids that are evenly spaced count as the range they are.
// `plan_key` is PlanKey(plan).
std::string TableFingerprint(std::string_view plan_key, const TableContent& content, DType dtype);
std::string BiasFingerprint(std::string_view plan_key, const BiasRequest& request, DType dtype);

// SHA-256(numerics version ‖ plan key).
std::string PlanKeyFingerprint(std::string_view plan_key);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_FINGERPRINT_H_
