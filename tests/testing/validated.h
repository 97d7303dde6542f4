// Validated requests without a wire, for tests of the engine.
#ifndef PHASOR_TESTS_TESTING_VALIDATED_H_
#define PHASOR_TESTS_TESTING_VALIDATED_H_

#include <cstdint>
#include <utility>

#include "server/request.h"

namespace phasor::server {

// The caller promises what the parser would have checked.
struct ValidatedAccess {
  template <typename T>
  static Validated<T> Make(Batch<T> items, bool validate_only, int64_t charged_bytes) {
    Validated<T> request;
    request.items_ = std::move(items);
    request.validate_only_ = validate_only;
    request.charged_bytes_ = charged_bytes;
    return request;
  }
};

}  // namespace phasor::server

#endif  // PHASOR_TESTS_TESTING_VALIDATED_H_
