// Table windows that no tile of the cache serves.
#include "server/grpc_status.h"
#include "server/work_parsers.h"

namespace phasor::server {

ParsedWork ParseTableWork(const v1::PrecomputeItem&, const TableSource&, ParseContext&) { return nullptr; }

}  // namespace phasor::server
