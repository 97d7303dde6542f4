// Statuses that go to several threads.
#ifndef PHASOR_SERVER_UNSHARED_H_
#define PHASOR_SERVER_UNSHARED_H_

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace phasor::server {

// An equal status that shares no memory with the original. Copies of a Status count references inside Abseil's library,
// where ThreadSanitizer cannot follow when the library is not instrumented; whoever hands one error to several threads
// hands each its own.
inline absl::Status Unshared(const absl::Status& status) {
  absl::Status copy(status.code(), status.message());
  status.ForEachPayload([&copy](absl::string_view url, const absl::Cord& payload) { copy.SetPayload(url, payload); });
  return copy;
}

}  // namespace phasor::server

#endif  // PHASOR_SERVER_UNSHARED_H_
