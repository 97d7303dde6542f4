// Encodings and tables of knowledge requests, read and checked.
#ifndef PHASOR_SERVER_KNOWLEDGE_WIRE_SIDE_H_
#define PHASOR_SERVER_KNOWLEDGE_WIRE_SIDE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "phasor/v1/compare.pb.h"
#include "phasor/v1/diagnose.pb.h"

#include "kernels/encodings/encoding.h"
#include "server/knowledge/input_table.h"
#include "server/limits.h"

namespace phasor::server {

// One layer type of a configuration, or a spec by itself.
struct SideLayer {
  std::string layer_type;
  CanonicalSpec spec;
  int64_t num_q_heads = 0, num_kv_heads = 0;  // 0: not said
  int64_t layers = 0;                         // how many; 0: not said
  bool lacks_weights = false;                 // its numbers are in a checkpoint
  double weight_elements = 0;                 // how many, where the configuration says their shapes; else 0
};

// All errors are INVALID_ARGUMENT at a path below `path`, or OverLimit of max_config_bytes.

// A tensor of a table: dtype, shape and data made to agree, nothing allocated beyond the data. Error for integers, no
// elements, more than kMaxInputElements, more than 3 axes.
absl::StatusOr<InputTable> ReadInputTable(const v1::TableInput& message, std::string_view path);

// Every layer type with numbers of the source, which is a spec or a configuration; `layer_type` chooses. Error for a table,
// and for a configuration of which nothing is served.
absl::StatusOr<std::vector<SideLayer>> ReadLayers(const v1::ComparedSide& message, std::string_view path,
                                                  const Limits& limits);

// The one layer of them. Error that lists the layer types where there are several.
absl::StatusOr<SideLayer> ReadLayer(const v1::ComparedSide& message, std::string_view path, const Limits& limits);

// A spec of a request with its path. Weights are in the message.
absl::StatusOr<CanonicalSpec> ReadSpec(const v1::EncodingSpec& message, std::string_view path);

// OK, or InvalidField: given, and lowest … highest.
absl::Status CheckRange(std::string_view field, int64_t given, int64_t lowest, int64_t highest);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_WIRE_SIDE_H_
