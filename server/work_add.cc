// Adding an encoding to tensors.
#include "server/grpc_status.h"
#include "server/work_parsers.h"

namespace phasor::server {

ParsedWork ParseAddWork(const v1::ApplyItem&, ParseContext&) { return NotServed("add", "adding encodings"); }

}  // namespace phasor::server
