#include "server/placement.h"

#include <array>
#include <optional>
#include <variant>

#include "server/engine_core.h"

namespace phasor::server {
namespace {

constexpr int64_t kLine = 64;

int64_t SharedBytes(const std::optional<Array>& array) {
  return array && array->region != nullptr ? TotalSize(array->data) : 0;
}

bool HasTwoArrays(const PrecomputeItem& item) {
  const auto* table = std::get_if<TableRequest>(&item.window);
  return table != nullptr && (table->form == TableForm::kHalf || table->form == TableForm::kDuplicated ||
                              table->form == TableForm::kInterleavedDuplicated);
}

}  // namespace

Placement PlacementOf(const PrecomputeItem& item) {
  Placement placement;
  const auto add = [&](int64_t size) {
    placement.offsets.push_back(AlignUp(placement.bytes, kLine));
    placement.sizes.push_back(size);
    placement.bytes = placement.offsets.back() + size;
  };
  if (item.work != nullptr) {
    for (const WorkArray& array : item.work->outputs) {
      if (array.slot != Slot::kInvFreq) add(array.bytes);
    }
    return placement;
  }
  const int64_t arrays = HasTwoArrays(item) ? 2 : 1;
  for (int64_t i = 0; i < arrays; ++i) add((item.payload_bytes - item.inv_freq_bytes) / arrays);
  return placement;
}

void SetPlaced(const Placement& placement, const std::shared_ptr<const Region>& region, int64_t begin,
               PrecomputeResult* result) {
  size_t next = 0;
  for (std::optional<Array>* array : {&result->cos, &result->sin, &result->table, &result->bias}) {
    if (!array->has_value()) continue;
    const int64_t size = placement.sizes[next];
    const std::byte* data = region->data() + begin + placement.offsets[next];
    if (size > 0) (*array)->data = {Bytes{region, data, size}};
    (*array)->region = region;
    ++next;
  }
}

int64_t SharedBytes(const PrecomputeResult& result) {
  return SharedBytes(result.cos) + SharedBytes(result.sin) + SharedBytes(result.table) + SharedBytes(result.bias);
}

int64_t SharedBytes(const ApplyResult& result) {
  int64_t bytes = 0;
  for (const Array& array : result.tensors) {
    if (array.region != nullptr || array.allocation != nullptr) bytes += TotalSize(array.data);
  }
  return bytes;
}

int64_t SharedBytes(const ScoresResult&) { return 0; }

}  // namespace phasor::server
