// Bias windows that no tile of the cache serves.
#include "server/grpc_status.h"
#include "server/work_parsers.h"

namespace phasor::server {

ParsedWork ParseBiasWork(const v1::PrecomputeItem& message, const TableSource& source, ParseContext& context) {
  ParsedWork special = ParseWindowBiasWork(message, source, context);
  if (!special.ok() || *special != nullptr) return special;
  const v1::BiasWindow& window = message.bias();
  if (window.indices()) return NotServed("bias.indices", "index maps");
  if (window.has_query_positions()) return NotServed("bias.query_positions", "positions of queries");
  if (window.has_key_positions()) return NotServed("bias.key_positions", "positions of keys");
  if (window.has_masking()) return NotServed("bias.masking", "masks");
  return nullptr;
}

}  // namespace phasor::server
