#include "server/admission.h"

#include <atomic>

#include "absl/strings/str_cat.h"

#include "server/refusal.h"

namespace phasor::server {

struct Admission::State {
  explicit State(int64_t max) : max_bytes(max) {}
  const int64_t max_bytes;
  std::atomic<int64_t> used{0};
};

Admission::Admission(int64_t max_bytes) : state_(std::make_shared<State>(max_bytes)) {}

absl::StatusOr<std::shared_ptr<const void>> Admission::Charge(int64_t bytes) {
  int64_t used = state_->used.load(std::memory_order_relaxed);
  do {
    if (used != 0 && bytes > state_->max_bytes - used) {
      return MakeRefusal(Refusal::kInflightBytes, absl::StrCat("the server has ", used, " of ", state_->max_bytes,
                                                               " bytes in flight; this call needs ", bytes));
    }
  } while (!state_->used.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));

  struct Handle {
    std::shared_ptr<State> state;
    int64_t bytes;
    Handle(std::shared_ptr<State> s, int64_t n) : state(std::move(s)), bytes(n) {}
    ~Handle() { state->used.fetch_sub(bytes, std::memory_order_relaxed); }
  };
  return std::make_shared<const Handle>(state_, bytes);
}

int64_t Admission::used_bytes() const { return state_->used.load(std::memory_order_relaxed); }

}  // namespace phasor::server
