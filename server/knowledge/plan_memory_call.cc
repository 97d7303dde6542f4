#include <string>
#include <utility>
#include <vector>

#include "server/grpc_status.h"
#include "server/knowledge/calls.h"
#include "server/knowledge/held_forms.h"
#include "server/knowledge/memory_plan.h"
#include "server/knowledge/wire_side.h"
#include "server/spec_parser.h"
#include "server/table_cache.h"
#include "server/text.h"

namespace phasor::server {
namespace {

static_assert(kTileRowsHeld == kTileRows, "what the planner says of the cache is what the cache keeps");

constexpr int64_t kMostSequences = int64_t{1} << 20;

absl::StatusOr<Load> ReadLoad(const v1::PlanMemoryRequest& request) {
  Load load;
  if (request.key_length() == 0) return InvalidField("key_length", "nothing", Cat("1 … ", kMaxSequenceLength));
  if (auto s = CheckRange("key_length", request.key_length(), 1, kMaxSequenceLength); !s.ok()) return s;
  load.keys = load.queries = request.key_length();
  if (request.query_length() != 0) {
    if (auto s = CheckRange("query_length", request.query_length(), 1, kMaxSequenceLength); !s.ok()) return s;
    load.queries = request.query_length();
  }
  if (request.batch() != 0) {
    if (auto s = CheckRange("batch", request.batch(), 1, kMostSequences); !s.ok()) return s;
    load.batch = request.batch();
  }
  const v1::Dtype dtype = request.dtype() == v1::DTYPE_UNSPECIFIED ? v1::DTYPE_F32 : request.dtype();
  if (dtype < v1::DTYPE_F64 || dtype > v1::DTYPE_BF16) {
    const std::string& name = v1::Dtype_Name(dtype);
    return InvalidField("dtype", name.empty() ? Cat(static_cast<int>(dtype)) : name,
                        "DTYPE_F64, DTYPE_F32, DTYPE_F16, DTYPE_BF16");
  }
  load.element_bytes = SizeOf(static_cast<DType>(dtype));
  return load;
}

}  // namespace

absl::StatusOr<v1::PlanMemoryResponse> PlanMemory(const KnowledgeContext& context, const v1::PlanMemoryRequest& request) {
  const auto load = ReadLoad(request);
  if (!load.ok()) return load.status();
  if (!request.has_source()) return InvalidField("source", "nothing", "a spec or the text of a config.json");
  auto sides = ReadLayers(request.source(), "source", context.limits);
  if (!sides.ok()) return sides.status();
  std::vector<PlannedLayer> layers;
  for (SideLayer& side : *sides) {
    layers.push_back(
        {std::move(side.layer_type), std::move(side.spec), side.layers, side.lacks_weights, side.weight_elements});
  }
  const MemoryPlan plan = PlanMemoryUse(layers, *load);
  v1::PlanMemoryResponse response;
  for (const MemoryUse& use : plan.uses) {
    v1::MemoryUse* out = response.add_uses();
    out->set_layer_type(use.layer_type);
    out->set_what(use.what);
    out->set_form(use.form);
    out->set_bytes(use.bytes);
    out->set_cached_bytes(use.cached_bytes);
    out->set_device_bytes(use.device_bytes);
    out->set_operations(use.operations);
    out->set_advised(use.advised);
    out->set_note(use.note);
  }
  response.set_advice(plan.advice);
  return response;
}

}  // namespace phasor::server
