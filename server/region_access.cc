#include "server/region_access.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "server/device_access.h"
#include "server/grpc_status.h"
#include "server/placement.h"

namespace phasor::server {
namespace {

constexpr uint64_t kAlignment = 64;

std::string At(std::string_view path, std::string_view field) {
  std::string text(path);
  return text.append(".").append(field);
}

absl::string_view ToAbsl(std::string_view text) { return {text.data(), text.size()}; }

// A range of bytes that a call reads or writes.
struct View {
  const std::byte* begin;
  const std::byte* end;
  bool written;
  std::string path;
};

absl::Status CheckOverlaps(std::vector<View> views) {
  std::sort(views.begin(), views.end(), [](const View& a, const View& b) { return a.begin < b.begin; });
  // Of those that begin before: the one that ends last, and the same of the written ones.
  const View* last = nullptr;
  const View* last_written = nullptr;
  for (const View& view : views) {
    const View* before = view.written ? last : last_written;
    if (before != nullptr && view.begin < before->end) {
      return InvalidField(view.path, absl::StrCat("a range that overlaps that of ", before->path),
                          "ranges apart wherever one of them is written");
    }
    if (last == nullptr || view.end > last->end) last = &view;
    if (view.written && (last_written == nullptr || view.end > last_written->end)) last_written = &view;
  }
  return absl::OkStatus();
}

View ViewOf(const SharedPlace& place, std::string path) {
  return {place.data(), place.data() + place.size, true, std::move(path)};
}

// Whether tensor t, a piece of memory of its own, becomes its result where it lies.
bool WorksInPlace(const ApplyItem& item, size_t t) {
  return item.work == nullptr || item.work->outputs[t].input == static_cast<int>(t);
}

// Whether everything that touches tensor t can do so on a device.
bool WorksOnDevice(const ApplyItem& item, size_t t) {
  if (!WorksInPlace(item, t)) return false;
  if (item.work != nullptr) return item.work->WorksOnDevice(t);
  return std::holds_alternative<RopeSpec>(item.source.spec.spec);
}

absl::StatusOr<SharedPlace> ParseOnDevice(const v1::ApplyItem& message, int t, const RegionAccess* access,
                                          const ApplyItem& item) {
  const std::string path = absl::StrCat("tensors[", t, "].device");
  if (t < message.outputs_size() && !message.outputs(t).region().empty()) {
    return InvalidField(absl::StrCat("outputs[", t, "]"), absl::StrCat("a place for tensors[", t, "], which is on a device"),
                        "none: the result is where the tensor was");
  }
  if (!WorksOnDevice(item, static_cast<size_t>(t))) {
    return NotServed(path, "device memory for resizing and PoPE, whose results do not fit where the tensor is,");
  }
  return ParseDevicePlace(message.tensors(t).device(), path, access);
}

int64_t ResultBytes(const ApplyItem& item, size_t t) {
  return item.work == nullptr ? item.tensors[t].bytes : item.work->outputs[t].bytes;
}

}  // namespace

RegionAccess RegionAccessOf(RegionStore* store, std::string_view peer, DeviceStore* devices) {
  RegionAccess access;
  access.devices = devices;
  if (store != nullptr && store->on()) access.store = store;
  if (access.store == nullptr && devices == nullptr) return access;
  const absl::string_view text = ToAbsl(peer);
  for (const auto& [prefix, owner] : {std::pair("unix:", "unix"),
                                      {"unix-abstract:", "unix"},
                                      {"ipv4:127.", "loopback"},
                                      {"ipv6:[::1]:", "loopback"},
                                      {"ipv6:%5B::1%5D:", "loopback"},
                                      {"inproc", "inproc"}}) {
    if (!absl::StartsWith(text, prefix)) continue;
    access.is_local = true;
    access.owner = owner;
    break;
  }
  return access;
}

absl::Status CheckAccess(std::string_view field, const RegionAccess* access) {
  if (access == nullptr || access->store == nullptr) return SharedMemoryOff(field);
  if (!access->is_local) return NotLocal(field, "shared memory");
  return absl::OkStatus();
}

absl::StatusOr<SharedPlace> ParsePlace(const v1::SharedMemory& message, std::string_view path, PlaceUse use,
                                       const RegionAccess* access) {
  if (absl::Status status = CheckAccess(path, access); !status.ok()) return status;
  const std::string region_field = At(path, "region"), offset_field = At(path, "offset_bytes");
  const uint64_t offset = message.offset_bytes(), size = message.size_bytes();
  if (message.region().empty()) return InvalidField(region_field, "nothing", "the name of a region");
  if (offset % kAlignment != 0) {
    return InvalidField(offset_field, absl::StrCat(offset), absl::StrCat("a multiple of ", kAlignment));
  }
  SharedPlace place;
  place.region = access->store->Find(access->owner, message.region());
  if (place.region == nullptr) return RegionNotFound(region_field);
  const auto whole = static_cast<uint64_t>(place.region->size());
  if (offset >= whole) {
    return InvalidField(offset_field, absl::StrCat(offset), absl::StrCat("below ", whole, ", the size of the region"));
  }
  if (size < 1 || size > whole - offset) {
    return InvalidField(At(path, "size_bytes"), absl::StrCat(size),
                        absl::StrCat("1 … ", whole - offset, ", what the region has from offset_bytes on"));
  }
  if (use == PlaceUse::kWrite && place.region->read_only()) {
    return InvalidField(region_field, "a read-only region", "one that CreateRegion made");
  }
  place.offset = static_cast<int64_t>(offset);
  place.size = static_cast<int64_t>(size);
  return place;
}

absl::Status ParsePlacement(const v1::PrecomputeItem& message, const RegionAccess* access, PrecomputeItem* item) {
  if (message.share()) {
    if (message.has_output()) return InvalidField("share", "true with output", "one of the two");
    if (message.table().include_inv_freq()) {
      return InvalidField("share", "true with table.include_inv_freq", "one of the two: inv_freq is not shared");
    }
    if (absl::Status status = CheckAccess("share", access); !status.ok()) return status;
    item->shared = {access->store, access->owner};
    return absl::OkStatus();
  }
  if (!message.has_output()) return absl::OkStatus();
  absl::StatusOr<SharedPlace> place = ParsePlace(message.output(), "output", PlaceUse::kWrite, access);
  if (!place.ok()) return place.status();
  const int64_t bytes = PlacementOf(*item).bytes;
  if (place->size < bytes) {
    return InvalidField("output.size_bytes", absl::StrCat(place->size), absl::StrCat("at least ", bytes, " for the result"));
  }
  item->place = *std::move(place);
  item->place.size = bytes;
  return absl::OkStatus();
}

absl::Status ParsePlacement(const v1::ApplyItem& message, const RegionAccess* access, ApplyItem* item) {
  const int tensors = message.tensors_size();
  if (message.outputs_size() != 0 && message.outputs_size() != tensors) {
    return InvalidField("outputs", absl::StrCat(message.outputs_size(), " entries"),
                        absl::StrCat("none, or ", tensors, ", one per tensor"));
  }
  for (int t = 0; t < tensors; ++t) {
    const auto index = static_cast<size_t>(t);
    const v1::Tensor& tensor = message.tensors(t);
    if (tensor.has_device()) {
      absl::StatusOr<SharedPlace> on_device = ParseOnDevice(message, t, access, *item);
      if (!on_device.ok()) return on_device.status();
      item->places.resize(static_cast<size_t>(tensors));
      item->places[index] = *std::move(on_device);
      continue;
    }
    const v1::SharedMemory* place = nullptr;
    std::string path;
    if (t < message.outputs_size() && !message.outputs(t).region().empty()) {
      place = &message.outputs(t);
      path = absl::StrCat("outputs[", t, "]");
    } else if (tensor.has_shared_memory() && WorksInPlace(*item, index)) {
      place = &tensor.shared_memory();
      path = absl::StrCat("tensors[", t, "].shared_memory");
    }
    if (place == nullptr) continue;
    absl::StatusOr<SharedPlace> parsed = ParsePlace(*place, path, PlaceUse::kWrite, access);
    if (!parsed.ok()) return parsed.status();
    if (parsed->size != ResultBytes(*item, index)) {
      return InvalidField(path + ".size_bytes", absl::StrCat(parsed->size),
                          absl::StrCat(ResultBytes(*item, index), ", the bytes of the result"));
    }
    item->places.resize(static_cast<size_t>(tensors));
    item->places[index] = *std::move(parsed);
  }
  return absl::OkStatus();
}

absl::Status CheckOverlaps(const Batch<PrecomputeItem>& items) {
  std::vector<View> views;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].ok() && items[i]->place) views.push_back(ViewOf(items[i]->place, absl::StrCat("items[", i, "].output")));
  }
  return CheckOverlaps(std::move(views));
}

absl::Status CheckOverlaps(const Batch<ApplyItem>& items) {
  const bool any =
      std::any_of(items.begin(), items.end(), [](const auto& item) { return item.ok() && !item->places.empty(); });
  if (!any) return absl::OkStatus();
  std::vector<View> views;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].ok()) continue;
    const ApplyItem& item = *items[i];
    const size_t tensors = item.work != nullptr ? item.work->outputs.size() : item.tensors.size();
    for (size_t t = 0; t < tensors; ++t) {
      const std::string path = absl::StrCat("items[", i, "].tensors[", t, "]");
      const SharedPlace* place = t < item.places.size() && item.places[t] ? &item.places[t] : nullptr;
      const Chunks& payload = item.work != nullptr ? item.work->inputs[t].payload : item.tensors[t].payload;
      const bool is_one = payload.size() == 1;  // pieces that came over the wire lie in no region
      const bool in_place =
          is_one && place != nullptr && payload.front().data == place->data() && payload.front().size == place->size;
      if (place != nullptr) {
        views.push_back(ViewOf(*place, in_place ? path : absl::StrCat("items[", i, "].outputs[", t, "]")));
      }
      if (!is_one) continue;
      const Bytes& source = payload.front();
      if (in_place && WorksInPlace(item, t)) continue;
      views.push_back({source.data, source.data + source.size, false, path});
    }
  }
  return CheckOverlaps(std::move(views));
}

void Write(const Region& region, std::chrono::milliseconds lease, v1::SharedRegion* out) {
  out->set_region(region.name());
  out->set_path(region.path());
  out->set_size_bytes(region.size());
  out->set_lease_seconds(std::chrono::duration<double>(lease).count());
  out->set_read_only(region.read_only());
}

}  // namespace phasor::server
