// Places in device memory as requests name them: whatever they say, no kernel is pointed outside an allocation, and nothing
// is opened for callers from elsewhere.
#include "server/device_access.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "tests/server/device_memory_fixture.h"
#include "tests/server/parse_text.h"
#include "tests/server/storage_ways.h"

namespace phasor::server {
namespace {

constexpr uint64_t kTop = std::numeric_limits<uint64_t>::max();
constexpr int64_t kBytes = 16384;

class DeviceAccessTest : public ::testing::Test {
 protected:
  FakeDevice device_{4, 2};
  std::string handle_ = device_.driver->Export(0, kBytes);

  // An item with tensors of f32 [1, 4, 1, 8], 128 bytes each, at the given offsets.
  v1::ApplyRequest Request(const std::string& text, const std::vector<uint64_t>& offsets,
                           const std::string& shape = "") const {
    auto request = FromText<v1::ApplyRequest>(absl::StrCat("items { ", text, "}"));
    for (const uint64_t offset : offsets) Add(&request, OnDevice(handle_, offset, 128), shape);
    return request;
  }
  static void Add(v1::ApplyRequest* request, const v1::DeviceMemory& place, const std::string& shape = "") {
    *request->mutable_items(request->items_size() - 1)->add_tensors() =
        FromText<v1::Tensor>(absl::StrCat("dtype: DTYPE_F32 ", shape.empty() ? "shape: [1, 4, 1, 8]" : shape));
    *request->mutable_items(request->items_size() - 1)->mutable_tensors()->rbegin()->mutable_device() = place;
  }
  absl::StatusOr<ValidatedApply> Parse(const v1::ApplyRequest& request, const RegionAccess* access) const {
    return RequestParser({}).ParseApply(ToWire(request), access);
  }
  absl::StatusOr<ValidatedApply> Parse(const v1::ApplyRequest& request) const { return Parse(request, &device_.access); }
  absl::StatusOr<SharedPlace> Place(const v1::DeviceMemory& place) const {
    return ParseDevicePlace(place, "place", &device_.access);
  }
};

TEST_F(DeviceAccessTest, OffUnlessAskedForAndForCallersOfThisHost) {
  const v1::ApplyRequest request = Request(kRope, {0});
  const Expected off = {kUnserved, "items[0].tensors[0].device", "device memory", "not served"};
  ExpectError(ItemStatus(Parse(request, nullptr)), off, "no access");
  DeviceStore no_flag({}, SharingOf(*device_.backend));
  const RegionAccess flag = RegionAccessOf(nullptr, "unix:", &no_flag);
  ExpectError(ItemStatus(Parse(request, &flag)), off, "no flag");
  EXPECT_THAT(std::string(ItemStatus(Parse(request, &flag)).message()), testing::HasSubstr("--cuda-ipc-handles is 0"));
  DeviceStoreOptions options;
  options.max_handles = 1;
  DeviceStore no_device(options, nullptr);
  const RegionAccess backend = RegionAccessOf(nullptr, "unix:", &no_device);
  ExpectError(ItemStatus(Parse(request, &backend)), off, "no device");
  EXPECT_THAT(std::string(ItemStatus(Parse(request, &backend)).message()), testing::HasSubstr("has no devices"));
  for (const char* peer : {"ipv4:10.0.0.1:50000", "ipv6:%5Bfe80::1%5D:50000", "", "unknown"}) {
    const RegionAccess remote = RegionAccessOf(nullptr, peer, device_.store.get());
    const absl::Status status = ItemStatus(Parse(request, &remote));
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << peer << status;
    EXPECT_EQ(ErrorReason(status), "NOT_LOCAL");
    EXPECT_EQ(MetadataOf(ToRpcStatus(status), "field"), "items[0].tensors[0].device");
  }
  EXPECT_EQ(device_.driver->opened(), 0) << "nothing was opened for any of them";
  for (const char* peer : {"unix:", "ipv4:127.0.0.1:50000", "inproc"}) {
    const RegionAccess local = RegionAccessOf(nullptr, peer, device_.store.get());
    EXPECT_TRUE(ItemStatus(Parse(request, &local)).ok()) << peer;
    EXPECT_EQ(CheckAccess("field", &local).code(), kUnserved) << "regions are another matter";
  }
  // And the other way round.
  RegionOptions regions;
  regions.total_bytes = 1 << 20;
  RegionStore store(regions);
  const RegionAccess only_regions = RegionAccessOf(&store, "unix:");
  EXPECT_TRUE(CheckAccess("field", &only_regions).ok());
  ExpectError(ItemStatus(Parse(request, &only_regions)), off, "regions alone");
}

TEST_F(DeviceAccessTest, HostileHandles) {
  const std::string foreign = device_.driver->Export(1, kBytes), freed = device_.driver->Export(0, kBytes);
  device_.driver->Unexport(freed);
  struct Case {
    std::string handle;
    const char* given;
  };
  for (const Case& c : {Case{"", "0 bytes"},
                        {std::string(63, 'h'), "63 bytes"},
                        {std::string(65, 'h'), "65 bytes"},
                        {std::string(1 << 16, 'h'), "65536 bytes"},
                        {std::string(64, '\0'), "does not open"},
                        {std::string(64, '\xff'), "does not open"},
                        {foreign, "does not open"},
                        {freed, "does not open"}}) {
    ExpectError(Place(OnDevice(c.handle, 0, 128)).status(), {kBad, "place.handle", c.given, "cudaIpcGetMemHandle"}, c.given);
  }
  for (const uint32_t device : {2u, 3u, std::numeric_limits<uint32_t>::max()}) {
    ExpectError(Place(OnDevice(handle_, 0, 128, device)).status(),
                {kBad, "place.device", absl::StrCat(device).c_str(), "0, 1"}, "device");
  }
  EXPECT_EQ(device_.driver->opened(), 0);
  EXPECT_TRUE(Place(OnDevice(foreign, 0, 128, 1)).ok());
  EXPECT_EQ(device_.backend->stats().device_lost, 0);
}

TEST_F(DeviceAccessTest, HostileOffsetsAndSizes) {
  struct Case {
    uint64_t offset, size;
    const char* field;
  };
  for (const Case& c : {Case{0, 0, "place.size_bytes"},
                        {0, kBytes + 1, "place.size_bytes"},
                        {0, kTop, "place.size_bytes"},
                        {64, kBytes, "place.size_bytes"},
                        {64, kTop - 63, "place.size_bytes"},  // the sum is 0
                        {kBytes - 64, 65, "place.size_bytes"},
                        {kBytes, 1, "place.offset_bytes"},
                        {kTop - 63, 64, "place.offset_bytes"},
                        {kTop - 63, kTop, "place.offset_bytes"},
                        {uint64_t{1} << 63, uint64_t{1} << 63, "place.offset_bytes"},
                        {1, 1, "place.offset_bytes"},
                        {16, 1, "place.offset_bytes"},
                        {kTop, 1, "place.offset_bytes"}}) {
    const auto place = Place(OnDevice(handle_, c.offset, c.size));
    SCOPED_TRACE(absl::StrCat(c.offset, " ", c.size));
    ASSERT_EQ(place.status().code(), kBad) << place.status();
    EXPECT_EQ(MetadataOf(ToRpcStatus(place.status()), "field"), c.field);
  }
  for (const auto& [offset, size] :
       std::vector<std::pair<uint64_t, uint64_t>>{{0, 1}, {0, kBytes}, {64, kBytes - 64}, {kBytes - 64, 64}}) {
    const auto place = Place(OnDevice(handle_, offset, size));
    ASSERT_TRUE(place.ok()) << place.status();
    EXPECT_EQ(place->data(), place->allocation->data() + offset);
    EXPECT_EQ(place->size, static_cast<int64_t>(size));
  }
}

TEST_F(DeviceAccessTest, SizesThatDoNotFitTheTensor) {
  for (const auto& [size, given] : {std::pair<uint64_t, const char*>{127, "127"}, {129, "129"}, {1, "1"}}) {
    v1::ApplyRequest request = Request(kRope, {});
    Add(&request, OnDevice(handle_, 0, size));
    ExpectError(ItemStatus(Parse(request)), {kBad, "items[0].tensors[0].device.size_bytes", given, "128"}, given);
  }
  // Strides reach beyond what was named, though not beyond the allocation.
  v1::ApplyRequest request = Request(kRope, {});
  Add(&request, OnDevice(handle_, 0, 256), "shape: [1, 4, 1, 8] strides: [64, 64, 8, 1]");
  ExpectError(ItemStatus(Parse(request)), {kBad, "items[0].tensors[0].device.size_bytes", "256", "800"}, "strides");
}

TEST_F(DeviceAccessTest, TensorsAreWorkedOnWhereTheyLie) {
  const auto request = Parse(Request(kRope, {0, 256}));
  ASSERT_TRUE(ItemStatus(request).ok()) << ItemStatus(request);
  const ApplyItem& item = Only(request);
  ASSERT_EQ(item.places.size(), 2u);
  for (size_t t = 0; t < 2; ++t) {
    ASSERT_NE(item.places[t].allocation, nullptr);
    EXPECT_EQ(item.places[t].data(), item.places[t].allocation->data() + (t == 0 ? 0 : 256));
    ASSERT_EQ(item.tensors[t].payload.size(), 1u);
    EXPECT_EQ(item.tensors[t].payload[0].data, item.places[t].data());
  }
  EXPECT_EQ(item.places[0].allocation, item.places[1].allocation);
  EXPECT_EQ(device_.driver->opened(), 1);
}

TEST_F(DeviceAccessTest, WorkThatIsNotDoneInPlaceIsNotServed) {
  const auto refused = [&](const std::string& text, const std::string& shape = "") {
    ExpectError(ItemStatus(Parse(Request(text, {0}, shape))),
                {kUnserved, "items[0].tensors[0].device", "device memory", "not served"}, text);
  };
  refused("spec { pope { head_dim: 8 } }");
  refused("resize { source: [4] target: [8] }", "shape: [4, 8]");
  for (const auto& [text, shape] :
       {std::pair<const char*, const char*>{"spec { rope { head_dim: 8 pairing: PAIRING_INTERLEAVED_TO_HALF } }", ""},
        {"spec { sinusoidal { dim: 8 } } add { }", "shape: [1, 4, 8]"},
        {"spec { sinusoidal { dim: 2 } } add { }", "shape: [1, 16, 2]"},
        {"spec { sinusoidal { dim: 8 } } add { }", "shape: [1, 3, 8] strides: [32, 9, 1]"}}) {
    v1::ApplyRequest request = Request(text, {});
    const uint64_t size = absl::StrContains(shape, "strides") ? 4 * 26 : 128;
    Add(&request, OnDevice(handle_, 0, size), shape);
    EXPECT_TRUE(ItemStatus(Parse(request)).ok()) << text << shape << ItemStatus(Parse(request));
  }
  // Nor is a result sent elsewhere.
  RegionOptions regions;
  regions.total_bytes = regions.peer_bytes = 1 << 20;
  RegionStore store(regions);
  const auto region = *store.Create("unix", 4096);
  const RegionAccess both = RegionAccessOf(&store, "unix:", device_.store.get());
  v1::ApplyRequest moved = Request(kRope, {0});
  *moved.mutable_items(0)->add_outputs() =
      FromText<v1::SharedMemory>(absl::StrCat("region: \"", region->name(), "\" size_bytes: 128"));
  ExpectError(ItemStatus(Parse(moved, &both)), {kBad, "items[0].outputs[0]", "on a device", "none"}, "outputs");
}

TEST_F(DeviceAccessTest, RangesThatAreWrittenOverlapNothing) {
  for (const std::vector<uint64_t>& offsets : {std::vector<uint64_t>{0, 0}, {0, 64}, {64, 0}}) {
    const absl::Status status = Parse(Request(kRope, offsets)).status();
    EXPECT_EQ(status.code(), kBad) << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("overlaps"));
  }
  EXPECT_TRUE(Parse(Request(kRope, {0, 128, 256})).ok());
}

TEST_F(DeviceAccessTest, NoMoreThanMayBeMapped) {
  std::vector<std::shared_ptr<const DeviceAllocation>> held;
  for (int i = 0; i < 4; ++i) held.push_back(Place(OnDevice(device_.driver->Export(0, 64), 0, 64))->allocation);
  const absl::Status status = ItemStatus(Parse(Request(kRope, {0})));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(device_.driver->opened(), 4);
  held.pop_back();
  EXPECT_TRUE(ItemStatus(Parse(Request(kRope, {0}))).ok());
}

TEST_F(DeviceAccessTest, EveryPeerHasABoundOfItsOwn) {
  DeviceStoreOptions options;
  options.max_handles = 4;
  options.peer_handles = 1;
  DeviceStore store(options, SharingOf(*device_.backend));
  const RegionAccess unix = RegionAccessOf(nullptr, "unix:", &store),
                     loopback = RegionAccessOf(nullptr, "ipv4:127.0.0.1:1", &store);
  const auto held = ParseDevicePlace(OnDevice(device_.driver->Export(0, 64), 0, 64), "place", &unix);
  ASSERT_TRUE(held.ok()) << held.status();
  const absl::Status status = ItemStatus(Parse(Request(kRope, {0}), &unix));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(ErrorReason(status), "QUOTA_EXCEEDED");
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("--cuda-ipc-peer-handles"));
  EXPECT_TRUE(ItemStatus(Parse(Request(kRope, {0}), &loopback)).ok());
}

// A driver that does not tell how large an allocation is: the caller's word is not taken for it.
TEST_F(DeviceAccessTest, NoneWithoutASize) {
  device_.driver->FailCall(1, absl::UnimplementedError("the driver has no cuMemGetAddressRange"));
  const absl::Status status = Place(OnDevice(handle_, 0, 128)).status();
  ExpectError(status, {kUnserved, "place", "device memory", "how large the allocation is"}, "no size");
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("cuMemGetAddressRange"));
  EXPECT_EQ(device_.driver->opened(), 0);
  EXPECT_EQ(device_.backend->stats().device_lost, 0);
  EXPECT_TRUE(Place(OnDevice(handle_, 0, 128)).ok());
}

// Device memory in every field of every request that can have it: an error, but for tensors of Apply that name a good place.
TEST_F(DeviceAccessTest, EveryFieldOfEveryRequest) {
  const std::string tensor = "{ dtype: DTYPE_F32 shape: [1, 2, 1, 8] } ";
  const auto apply = FromText<v1::ApplyRequest>(absl::StrCat("items { ", kRope, "tensors ", tensor, "}"));
  const auto table =
      FromText<v1::PrecomputeRequest>(absl::StrCat("items { ", kRope, "table { positions { range { count: 4 } } } }"));
  const auto scores = FromText<v1::ScoresRequest>(absl::StrCat("items { q ", tensor, "k ", tensor, "}"));
  const RequestParser parser({});
  size_t seen = 0, served = 0;
  const auto check = [&](const auto& base, const auto& parse) {
    Way way;
    std::vector<Way> ways;
    Ways(base.GetDescriptor(), v1::DeviceMemory::descriptor(), &way, &ways);
    EXPECT_FALSE(ways.empty());
    for (const Way& to : ways) {
      const grpc::ByteBuffer bytes = ToWire(WithPlace(base, to, OnDevice(handle_, 0, 64)));
      for (const RegionAccess* access :
           {static_cast<const RegionAccess*>(nullptr), static_cast<const RegionAccess*>(&device_.access)}) {
        const absl::Status status = parse(bytes, access);
        if (status.ok()) ++served;
        EXPECT_TRUE(status.ok() ? access != nullptr : status.code() == kBad || status.code() == kUnserved)
            << to.back()->full_name() << " of " << base.GetTypeName() << ": " << status;
        ++seen;
      }
    }
  };
  check(apply,
        [&](const grpc::ByteBuffer& bytes, const RegionAccess* a) { return ItemStatus(parser.ParseApply(bytes, a)); });
  EXPECT_EQ(served, 1u);
  check(table,
        [&](const grpc::ByteBuffer& bytes, const RegionAccess* a) { return ItemStatus(parser.ParsePrecompute(bytes, a)); });
  check(scores, [&](const grpc::ByteBuffer& bytes, const RegionAccess*) { return ItemStatus(parser.ParseScores(bytes)); });
  EXPECT_EQ(served, 1u);
  EXPECT_GT(seen, 40u);
}

}  // namespace
}  // namespace phasor::server
