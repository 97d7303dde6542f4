// UploadTensor: pieces in, a hash out.
#ifndef PHASOR_SERVER_UPLOAD_CALL_H_
#define PHASOR_SERVER_UPLOAD_CALL_H_

#include <memory>
#include <string>

#include "server/method.h"
#include "server/services.h"

namespace phasor::server {

// Longest piece, bytes.
inline constexpr int64_t kMaxUploadPiece = int64_t{4} << 20;

// Reads one upload. `peer` as gRPC spells it; its quota is that of its host.
std::unique_ptr<MessageReader> OpenUpload(ServiceContext* context, const std::string& peer,
                                          std::shared_ptr<CallContext> call);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_UPLOAD_CALL_H_
