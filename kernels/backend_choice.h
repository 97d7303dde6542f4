// Which backend a server gets, and why not another.
#ifndef PHASOR_KERNELS_BACKEND_CHOICE_H_
#define PHASOR_KERNELS_BACKEND_CHOICE_H_

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

#include "kernels/backend.h"

namespace phasor {

// A backend that can be asked for.
struct BackendEntry {
  std::string_view name;
  absl::StatusOr<std::unique_ptr<Backend>> (*make)(const BackendOptions& options);
  absl::Status (*probe)();  // quick: whether it might run here; the message says why not
};

struct BackendChoice {
  std::unique_ptr<Backend> backend;
  // As of ListBackends, but that one which could not be made is not usable, whatever its probe said.
  std::vector<BackendInfo> list;
};

// "auto": the first of the entries that can be made; whatever is wrong with a device, a server starts. By its name: that
// one, or why not (FAILED_PRECONDITION; INVALID_ARGUMENT of its own, for options that are wrong).
absl::StatusOr<BackendChoice> ChooseBackend(std::string_view name, const BackendOptions& options = {});
// The same of other entries.
absl::StatusOr<BackendChoice> ChooseBackend(std::span<const BackendEntry> entries, std::string_view name,
                                            const BackendOptions& options);

}  // namespace phasor

#endif  // PHASOR_KERNELS_BACKEND_CHOICE_H_
