// The budget of bytes in flight.
#ifndef PHASOR_SERVER_ADMISSION_H_
#define PHASOR_SERVER_ADMISSION_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

namespace phasor::server {

// Thread-safe. Handles may outlive it.
class Admission {
 public:
  explicit Admission(int64_t max_bytes);

  // Charges `bytes` ≥ 0 until the last copy of the handle dies. UNAVAILABLE (Refusal::kInflightBytes) when they do not fit,
  // unless nothing is charged now: a single call within the limits is always served.
  absl::StatusOr<std::shared_ptr<const void>> Charge(int64_t bytes);

  int64_t used_bytes() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_ADMISSION_H_
