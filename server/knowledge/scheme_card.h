// GetScheme: a scheme's card as a message.
#ifndef PHASOR_SERVER_KNOWLEDGE_SCHEME_CARD_H_
#define PHASOR_SERVER_KNOWLEDGE_SCHEME_CARD_H_

#include "absl/status/statusor.h"
#include "phasor/v1/catalog_service.pb.h"

#include "kernels/encodings/encoding.h"

namespace phasor::server {

// The scheme in short.
void SummarizeScheme(const Scheme& scheme, v1::SchemeSummary* out);

// The card of the scheme that the request names. Errors: NOT_FOUND with the names there are; INVALID_ARGUMENT for a size out
// of range.
absl::StatusOr<v1::GetSchemeResponse> MakeSchemeCard(const v1::GetSchemeRequest& request);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_SCHEME_CARD_H_
