#include "server/refusal.h"

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace phasor::server {
namespace {

constexpr char kPayloadUrl[] = "phasor.v1/refusal";
constexpr char kQuotaUrl[] = "phasor.v1/quota";

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

absl::Status MakeRefusal(Refusal reason, std::string_view message) {
  absl::Status status = absl::UnavailableError(Absl(message));
  const char code = static_cast<char>('0' + static_cast<int>(reason));
  status.SetPayload(kPayloadUrl, absl::Cord(absl::string_view(&code, 1)));
  return status;
}

std::optional<Refusal> RefusalOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayloadUrl);
  if (!payload.has_value() || payload->size() != 1) return std::nullopt;
  return static_cast<Refusal>((*payload)[0] - '0');
}

absl::Status MakeQuotaRefusal(std::string_view subject, std::string_view message) {
  absl::Status status = absl::ResourceExhaustedError(Absl(message));
  status.SetPayload(kQuotaUrl, absl::Cord(Absl(subject)));
  return status;
}

std::optional<std::string> QuotaSubjectOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kQuotaUrl);
  return payload.has_value() ? std::optional<std::string>(std::string(*payload)) : std::nullopt;
}

}  // namespace phasor::server
