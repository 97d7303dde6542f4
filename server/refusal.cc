#include "server/refusal.h"

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace phasor::server {
namespace {

constexpr char kPayloadUrl[] = "phasor.v1/refusal";

}  // namespace

absl::Status MakeRefusal(Refusal reason, std::string_view message) {
  absl::Status status = absl::UnavailableError(absl::string_view(message.data(), message.size()));
  const char code = static_cast<char>('0' + static_cast<int>(reason));
  status.SetPayload(kPayloadUrl, absl::Cord(absl::string_view(&code, 1)));
  return status;
}

std::optional<Refusal> RefusalOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayloadUrl);
  if (!payload.has_value() || payload->size() != 1) return std::nullopt;
  return static_cast<Refusal>((*payload)[0] - '0');
}

}  // namespace phasor::server
