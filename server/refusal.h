// Why a call was turned away: rides on the status, so that the transport can count it and choose its retry hint.
#ifndef PHASOR_SERVER_REFUSAL_H_
#define PHASOR_SERVER_REFUSAL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace phasor::server {

enum class Refusal : uint8_t { kDraining, kQueueFull, kInflightBytes };

// UNAVAILABLE with the reason.
absl::Status MakeRefusal(Refusal reason, std::string_view message);

// The reason that a status of MakeRefusal carries.
std::optional<Refusal> RefusalOf(const absl::Status& status);

// RESOURCE_EXHAUSTED: a quota of `subject` is in the way. Callers see QUOTA_EXCEEDED (grpc_status.h), of whatever call.
absl::Status MakeQuotaRefusal(std::string_view subject, std::string_view message);

// The subject that a status of MakeQuotaRefusal carries.
std::optional<std::string> QuotaSubjectOf(const absl::Status& status);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_REFUSAL_H_
