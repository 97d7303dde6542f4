// Resizing learned tables.
#include "server/grpc_status.h"
#include "server/work_parsers.h"

namespace phasor::server {

ParsedWork ParseResizeWork(const v1::ApplyItem&, ParseContext&) { return NotServed("resize", "resizing tables"); }

}  // namespace phasor::server
