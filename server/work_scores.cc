// Attention scores.
#include "server/grpc_status.h"
#include "server/work_parsers.h"

namespace phasor::server {

ParsedWork ParseScoresWork(const v1::ScoresItem&, ParseContext&, double*) { return NotServed("q", "attention scores"); }

}  // namespace phasor::server
