// Rotations beyond the plain one.
#include "server/grpc_status.h"
#include "server/work_parsers.h"

namespace phasor::server {

ParsedWork ParseRotateWork(const v1::ApplyItem& message, ParseContext&) {
  if (message.has_shift()) return NotServed("shift", "shifts");
  if (message.has_rerotate()) return NotServed("rerotate", "rotations from schedule to schedule");
  if (message.has_table()) return NotServed("table", "uploaded tables");
  if (message.rotate().backward()) return NotServed("rotate.backward", "gradients");
  if (message.rotate().has_query_scale()) return NotServed("rotate.query_scale", "query scales");
  if (message.spec().rope().has_xpos()) return NotServed("spec.rope.xpos", "xPos");
  if (message.spec().rope().has_axes()) return NotServed("spec.rope.axes", "several axes");
  return nullptr;
}

}  // namespace phasor::server
