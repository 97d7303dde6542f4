// The request parser on any bytes: what it accepts keeps the promises of server/request.h, what it refuses is told in full.
// Input: one byte that chooses the method (one bit) and the longest slice (the rest), then the message's bytes, in which 32
// times 'w' stands for the name of a region that can be written and 32 times 'r' for that of a read-only one. 64 times 'd'
// is the handle of an allocation on device 0.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "google/protobuf/stubs/logging.h"

#include "server/bias_parser.h"
#include "server/device_store.h"
#include "server/grpc_status.h"
#include "server/region_access.h"
#include "server/request_parser.h"
#include "tests/proto/codec_check.h"
#include "tests/server/status_details.h"

namespace phasor::server {
namespace {

// Small enough that any allocation sized by the input alone would show.
constexpr Limits kLimits = {
    .max_batch_items = 8,
    .max_tensors_per_item = 4,
    .max_item_elements = 1 << 20,
    .max_item_bytes = 1 << 22,
    .max_total_bytes = 1 << 23,
    .max_request_bytes = 1 << 20,
    .max_position = 1 << 20,
    .max_positions = 1 << 16,
    .max_heads = 64,
};

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

// Device 0 with one allocation, at an address that nobody may look at.
class OneAllocation final : public DeviceSharing {
 public:
  static constexpr int64_t kBytes = int64_t{48} << 10;
  std::vector<int> devices() const override { return {0}; }
  absl::StatusOr<DeviceMapping> Open(int device, std::string_view handle) const override {
    Require(device == 0 && handle.size() == kDeviceHandleBytes, "only what could be is asked for");
    if (handle.find_first_not_of('d') != std::string_view::npos) return absl::InvalidArgumentError("no such allocation");
    return DeviceMapping{reinterpret_cast<std::byte*>(uintptr_t{1} << 46), kBytes};
  }
  void Close(int, std::byte*) const override {}
};

// What shared memory there is.
class SharedRegions {
 public:
  SharedRegions() {
    writable_ = *store_.Create("unix", kBytes);
    read_only_ = *store_.Share("unix", "key", *store_.NewShared("unix", kBytes));
  }
  const RegionAccess& access() const { return access_; }
  std::vector<std::string> names() const { return {writable_->name(), read_only_->name()}; }
  void Name(std::string* bytes) const {
    Replace('w', writable_->name(), bytes);
    Replace('r', read_only_->name(), bytes);
  }
  bool Holds(const SharedPlace& place) const {
    if (place.allocation != nullptr) {
      return place.region == nullptr && place.offset >= 0 && place.offset % 64 == 0 && place.size >= 1 &&
             place.size <= OneAllocation::kBytes - place.offset;
    }
    return place.region == writable_ && place.offset >= 0 && place.offset % 64 == 0 && place.size >= 1 &&
           place.size <= kBytes - place.offset;
  }

 private:
  static constexpr int64_t kBytes = int64_t{64} << 10;
  static RegionOptions Options() {
    RegionOptions options;
    options.total_bytes = 2 * kBytes;
    return options;
  }
  static void Replace(char letter, const std::string& name, std::string* bytes) {
    const std::string mark(name.size(), letter);
    for (size_t at = bytes->find(mark); at != std::string::npos; at = bytes->find(mark, at + 1)) {
      bytes->replace(at, mark.size(), name);
    }
  }

  RegionStore store_{Options()};
  DeviceStore devices_{{.max_handles = 4, .lease = std::chrono::hours(1)}, std::make_shared<OneAllocation>()};
  RegionAccess access_ = RegionAccessOf(&store_, "unix:", &devices_);
  std::shared_ptr<Region> writable_, read_only_;
};
const SharedRegions& Regions() {
  static const auto* regions = new SharedRegions;
  return *regions;
}

void CheckError(const absl::Status& status) {
  const std::string reason = ErrorReason(status);
  Require(status.code() == absl::StatusCode::kInvalidArgument || status.code() == absl::StatusCode::kUnimplemented ||
              reason == "REGION_NOT_FOUND" || reason == "UPLOAD_NOT_FOUND",
          "only the request is to blame");
  for (const std::string& name : Regions().names()) {
    Require(status.message().find(name) == absl::string_view::npos, "no name of a region in an error");
  }
  const google::rpc::Status rpc = ToRpcStatus(status);
  google::rpc::Status parsed;
  Require(DetailsOf<google::rpc::ErrorInfo>(rpc).size() == 1, "one ErrorInfo");
  Require(parsed.ParseFromString(rpc.SerializeAsString()), "valid UTF-8");
  Require(rpc.ByteSizeLong() < 6144, "it fits in the trailers");
}

void CheckPositions(const PositionSet& positions) {
  Require(positions.count >= 0 && positions.count <= kLimits.max_positions * kLimits.max_tensors_per_item, "count");
  Require(positions.ids.empty() || static_cast<int64_t>(positions.ids.size()) == positions.count, "one id per row");
  int64_t largest = positions.count == 0 ? -1 : positions.at(0);
  for (int64_t row = 0; row < positions.count; ++row) {
    const int64_t position = positions.at(row);
    Require(position >= -kLimits.max_position && position <= kLimits.max_position, "position within bounds");
    largest = std::max(largest, position);
  }
  Require(positions.largest == largest, "the largest position");
}

void CheckItem(const PrecomputeItem& item, std::vector<SharedPlace>& written) {
  Require(item.payload_bytes >= 0 && item.payload_bytes <= kLimits.max_item_bytes, "bytes of an item");
  if (item.place) {
    Require(Regions().Holds(item.place), "a result's place");
    written.push_back(item.place);
  }
  if (item.work != nullptr) return;  // the window does not count
  if (const auto* table = std::get_if<TableRequest>(&item.window)) return CheckPositions(table->positions);
  const auto& bias = std::get<BiasRequest>(item.window);
  const auto num_heads = DistanceHeadsOf(item.source.spec.spec);
  Require(num_heads.has_value(), "a bias of a scheme with values by distance");
  Require(bias.first_head >= 0 && bias.heads >= 1 && bias.first_head + bias.heads <= *num_heads, "heads");
  Require(bias.queries >= 1 && bias.keys >= 1, "extents");
}

void CheckItem(const ApplyItem& item, std::vector<SharedPlace>& written) {
  for (size_t t = 0; item.work != nullptr && t < item.places.size(); ++t) {
    Require(item.places[t].allocation == nullptr || item.work->WorksOnDevice(t), "work that is done on a device");
  }
  for (const SharedPlace& place : item.places) {
    if (!place) continue;
    Require(Regions().Holds(place), "a tensor's place");
    written.push_back(place);
  }
  if (item.work != nullptr) return;  // nothing else counts
  CheckPositions(item.positions);
  const auto& rope = std::get<RopeSpec>(item.source.spec.spec);
  for (const TensorInput& t : item.tensors) {
    Require(item.positions.count == (item.per_batch ? t.batch * t.sequence : t.sequence), "one position per token");
    Require(t.head_dim == rope.head_dim, "head_dim");
    Require(t.payload.empty() || TotalSize(t.payload) == t.bytes, "the storage's size");
    const auto number = static_cast<size_t>(&t - item.tensors.data());
    const bool on_device = number < item.places.size() && item.places[number].allocation != nullptr;
    if (on_device) Require(t.payload.empty() || t.payload.front().data == item.places[number].data(), "it is in place");
    if (t.batch * t.sequence * t.heads == 0) continue;
    const int64_t end =
        (t.batch - 1) * t.batch_stride + (t.sequence - 1) * t.sequence_stride + (t.heads - 1) * t.head_stride + t.head_dim;
    Require(end * SizeOf(t.dtype) <= t.bytes, "the last element lies inside the storage");
    if (on_device) continue;
    for (const Bytes& piece : t.payload)
      Require(piece.size == 0 || piece.data[piece.size - 1] <= std::byte{255}, "readable");
  }
}

template <typename V>
void Check(const absl::StatusOr<V>& batch) {
  if (!batch.ok()) return CheckError(batch.status());
  Require(!batch->items().empty() && batch->items().size() <= static_cast<size_t>(kLimits.max_batch_items), "items");
  int64_t total = 0;
  std::vector<SharedPlace> written;
  for (const auto& item : batch->items()) {
    if (!item.ok()) {
      CheckError(item.status());
      continue;
    }
    CheckItem(*item, written);
    total += item->payload_bytes;
  }
  for (size_t i = 0; i < written.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const bool apart = (written[i].region == nullptr) != (written[j].region == nullptr) ||
                         written[i].offset + written[i].size <= written[j].offset ||
                         written[j].offset + written[j].size <= written[i].offset;
      Require(apart, "ranges that are written are apart");
    }
  }
  Require(total <= kLimits.max_total_bytes && batch->charged_bytes() >= total, "total");
}

}  // namespace
}  // namespace phasor::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const google::protobuf::LogSilencer quiet;
  std::mt19937_64 random(size);
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  phasor::server::Regions().Name(&bytes);
  const grpc::ByteBuffer buffer = phasor::raw::Split(bytes, 1 + data[0] / 2, random);
  const phasor::server::RequestParser parser(phasor::server::kLimits);
  if (data[0] % 2 == 0) {
    phasor::server::Check(parser.ParsePrecompute(buffer, &phasor::server::Regions().access()));
  } else {
    phasor::server::Check(parser.ParseApply(buffer, &phasor::server::Regions().access()));
  }
  return 0;
}
