#include "kernels/reference/reference_backend.h"

#include "kernels/reference/tasks.h"

namespace phasor {
namespace {

class ReferenceBackend final : public Backend {
 public:
  std::string_view name() const override { return "reference"; }
  std::string description() const override { return "320-bit arithmetic, one element at a time"; }

  absl::Status Run(const Task& task, RowRange rows, const CancelFlag* cancel) const override {
    return std::visit(
        [&](const auto& t) -> absl::Status {
          for (int64_t row = rows.begin; row < rows.end; ++row) {
            if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return absl::CancelledError("cancelled");
            absl::Status status = reference::RunRow(t, row);
            if (!status.ok()) return status;
          }
          return absl::OkStatus();
        },
        task);
  }
};

}  // namespace

std::unique_ptr<Backend> MakeReferenceBackend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace phasor
