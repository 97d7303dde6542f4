// Places in shared memory as requests name them: whatever they say, nothing outside a region of the caller's is touched.
#include "server/region_access.h"

#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "tests/server/parse_text.h"
#include "tests/server/storage_ways.h"

namespace phasor::server {
namespace {

constexpr int64_t kPage = 4096;
constexpr uint64_t kTop = std::numeric_limits<uint64_t>::max();

class RegionAccessTest : public ::testing::Test {
 protected:
  static RegionOptions Options() {
    RegionOptions options;
    options.total_bytes = options.peer_bytes = int64_t{1} << 20;
    return options;
  }
  RegionStore store_{Options()};
  RegionAccess access_ = RegionAccessOf(&store_, "unix:");
  std::shared_ptr<Region> region_ = *store_.Create("unix", 4 * kPage);
  std::string name_ = region_->name();

  std::string Fields(uint64_t offset, uint64_t size) const {
    return absl::StrCat("region: \"", name_, "\" offset_bytes: ", offset, " size_bytes: ", size);
  }
  std::string Place(uint64_t offset, uint64_t size) const { return absl::StrCat("{ ", Fields(offset, size), " } "); }
  // A tensor of `tokens` tokens of one head of 8 channels, f32: 32 bytes a token.
  std::string Tensor(int tokens, uint64_t offset, uint64_t size) const {
    return absl::StrCat("tensors { dtype: DTYPE_F32 shape: [1, ", tokens, ", 1, 8] shared_memory ", Place(offset, size),
                        "} ");
  }
  absl::StatusOr<ValidatedApply> Apply(const std::string& text) const {
    return RequestParser({}).ParseApply(ToWire(FromText<v1::ApplyRequest>(text)), &access_);
  }
  absl::StatusOr<ValidatedPrecompute> Precompute(const std::string& text) const {
    return RequestParser({}).ParsePrecompute(ToWire(FromText<v1::PrecomputeRequest>(text)), &access_);
  }
  absl::StatusOr<SharedPlace> Parse(const std::string& text, PlaceUse use = PlaceUse::kWrite) const {
    return ParsePlace(FromText<v1::SharedMemory>(text), "place", use, &access_);
  }
};

TEST_F(RegionAccessTest, WhoIsOnThisHost) {
  struct Case {
    const char* peer;
    const char* owner;  // empty: not local
  };
  for (const Case& c : {Case{"unix:", "unix"},
                        {"unix:/run/phasor.sock", "unix"},
                        {"unix-abstract:x", "unix"},
                        {"ipv4:127.0.0.1:50000", "loopback"},
                        {"ipv4:127.9.8.7:1", "loopback"},
                        {"ipv6:[::1]:50000", "loopback"},
                        {"ipv6:%5B::1%5D:50000", "loopback"},
                        {"inproc", "inproc"},
                        {"ipv4:10.0.0.1:50000", ""},
                        {"ipv4:1.127.0.1:50000", ""},
                        {"ipv4:192.168.127.1:127", ""},
                        {"ipv6:%5B::11%5D:50000", ""},
                        {"ipv6:%5Bfe80::1%5D:50000", ""},
                        {"ipv6:[::ffff:10.0.0.1]:1", ""},
                        {"unknown", ""},
                        {"", ""}}) {
    const RegionAccess access = RegionAccessOf(&store_, c.peer);
    EXPECT_EQ(access.is_local, *c.owner != '\0') << c.peer;
    EXPECT_EQ(access.owner, c.owner) << c.peer;
    EXPECT_EQ(CheckAccess("field", &access).code(),
              access.is_local ? absl::StatusCode::kOk : absl::StatusCode::kPermissionDenied);
  }
  RegionStore off({});
  const RegionAccess none = RegionAccessOf(&off, "unix:");
  EXPECT_EQ(CheckAccess("field", &none).code(), kUnserved);
  EXPECT_EQ(CheckAccess("field", nullptr).code(), kUnserved);
}

TEST_F(RegionAccessTest, PlacesWithinTheRegion) {
  for (const auto& [offset, size] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, 1}, {0, 4 * kPage}, {64, 4 * kPage - 64}, {4 * kPage - 64, 64}, {4 * kPage - 64, 1}}) {
    const auto place = Parse(Fields(offset, size));
    ASSERT_TRUE(place.ok()) << place.status();
    EXPECT_EQ(place->data(), region_->data() + offset);
    EXPECT_EQ(place->size, static_cast<int64_t>(size));
  }
}

TEST_F(RegionAccessTest, HostileOffsetsAndSizes) {
  struct Case {
    uint64_t offset, size;
    const char* field;
  };
  constexpr uint64_t kWhole = 4 * kPage;
  for (const Case& c : {Case{0, 0, "place.size_bytes"},
                        {0, kWhole + 1, "place.size_bytes"},
                        {0, kTop, "place.size_bytes"},
                        {0, uint64_t{1} << 63, "place.size_bytes"},
                        {64, kWhole, "place.size_bytes"},
                        {64, kTop - 63, "place.size_bytes"},  // the sum is 0
                        {kWhole - 64, 65, "place.size_bytes"},
                        {kWhole, 1, "place.offset_bytes"},
                        {kWhole, 0, "place.offset_bytes"},
                        {kTop - 63, 64, "place.offset_bytes"},
                        {kTop - 63, kTop, "place.offset_bytes"},
                        {uint64_t{1} << 63, uint64_t{1} << 63, "place.offset_bytes"},
                        {uint64_t{1} << 63, 64, "place.offset_bytes"},
                        {1, 1, "place.offset_bytes"},
                        {63, 1, "place.offset_bytes"},
                        {kTop, 1, "place.offset_bytes"}}) {
    const auto place = Parse(Fields(c.offset, c.size));
    SCOPED_TRACE(absl::StrCat(c.offset, " ", c.size));
    ASSERT_EQ(place.status().code(), kBad) << place.status();
    EXPECT_EQ(MetadataOf(ToRpcStatus(place.status()), "field"), c.field);
  }
}

TEST_F(RegionAccessTest, UnknownAndForeignRegionsAreAlike) {
  const std::string foreign = (*store_.Create("loopback", kPage))->name();
  std::set<std::string> messages;
  for (const std::string& name : {foreign, std::string(32, '0'), std::string("x"), std::string(1 << 16, 'a')}) {
    const auto place = Parse(absl::StrCat("region: \"", name, "\" size_bytes: 64"));
    ASSERT_EQ(place.status().code(), absl::StatusCode::kFailedPrecondition) << place.status();
    EXPECT_EQ(MetadataOf(ToRpcStatus(place.status()), "field"), "place.region");
    EXPECT_EQ(ErrorReason(place.status()), "REGION_NOT_FOUND");
    messages.insert(std::string(place.status().message()));
  }
  EXPECT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages.begin()->find(name_), std::string::npos) << "no name of a region in an error";
  ExpectError(Parse("size_bytes: 64").status(), {kBad, "place.region", "nothing", "a region"}, "no name");
}

TEST_F(RegionAccessTest, ReadOnlyRegionsAreRead) {
  auto made = store_.NewShared("unix", kPage);
  name_ = (*store_.Share("unix", "key", *made))->name();
  EXPECT_TRUE(Parse(Fields(0, 64), PlaceUse::kRead).ok());
  ExpectError(Parse(Fields(0, 64)).status(), {kBad, "place.region", "read-only", "CreateRegion"}, "write");
  // So a tensor that lies there needs somewhere else to go.
  const std::string item = absl::StrCat("items { ", kRope, Tensor(2, 0, 64));
  ExpectError(ItemStatus(Apply(item + "}")), {kBad, "items[0].tensors[0].shared_memory.region", "read-only", ""}, item);
  name_ = region_->name();
  const auto moved = Apply(absl::StrCat(item, "outputs ", Place(0, 64), "}"));
  EXPECT_TRUE(ItemStatus(moved).ok()) << ItemStatus(moved);
}

TEST_F(RegionAccessTest, TensorsAreWorkedOnWhereTheyLie) {
  const auto request = Apply(absl::StrCat("items { ", kRope, Tensor(4, 64, 128), Tensor(4, 256, 128), "}"));
  ASSERT_TRUE(ItemStatus(request).ok()) << ItemStatus(request);
  const ApplyItem& item = Only(request);
  ASSERT_EQ(item.places.size(), 2u);
  for (size_t t = 0; t < 2; ++t) {
    EXPECT_EQ(item.places[t].data(), region_->data() + (t == 0 ? 64 : 256));
    ASSERT_EQ(item.tensors[t].payload.size(), 1u);
    EXPECT_EQ(item.tensors[t].payload[0].data, item.places[t].data());
  }
}

TEST_F(RegionAccessTest, SizesThatDoNotFitTheTensor) {
  const auto status = [&](const std::string& rest) { return ItemStatus(Apply(absl::StrCat("items { ", kRope, rest, "}"))); };
  ExpectError(status(Tensor(4, 0, 127)), {kBad, "items[0].tensors[0].shared_memory.size_bytes", "127", "128"}, "too small");
  ExpectError(status(Tensor(4, 0, 129)), {kBad, "items[0].tensors[0].shared_memory.size_bytes", "129", "128"}, "too large");
  ExpectError(status(Tensor(4, 0, 128) + "outputs " + Place(256, 127)),
              {kBad, "items[0].outputs[0].size_bytes", "127", "128"}, "output too small");
  ExpectError(status(Tensor(4, 0, 128) + "outputs " + Place(256, 192)),
              {kBad, "items[0].outputs[0].size_bytes", "192", "128"}, "output too large");
  ExpectError(status(Tensor(4, 0, 128) + "outputs { } outputs { }"), {kBad, "items[0].outputs", "2 entries", "1"}, "count");
  ExpectError(status(Tensor(1 << 20, 0, uint64_t{1} << 25)),
              {kBad, "items[0].tensors[0].shared_memory.size_bytes", "33554432", "16384"}, "beyond the region");
}

// The result of PoPE is twice as wide as its tensor: it goes into the answer, or where it is told to.
TEST_F(RegionAccessTest, ResultsOfAnotherSizeAreNotMadeInPlace) {
  const std::string item = absl::StrCat("items { spec { pope { head_dim: 8 } } ", Tensor(4, 0, 128));
  const auto plain = Apply(item + "}");
  ASSERT_TRUE(ItemStatus(plain).ok()) << ItemStatus(plain);
  EXPECT_TRUE(Only(plain).places.empty());
  const auto placed = Apply(absl::StrCat(item, "outputs ", Place(128, 256), "}"));
  ASSERT_TRUE(ItemStatus(placed).ok()) << ItemStatus(placed);
  EXPECT_EQ(Apply(absl::StrCat(item, "outputs ", Place(0, 256), "}")).status().code(), kBad) << "it reads what it wrote";
}

TEST_F(RegionAccessTest, RangesThatAreWrittenOverlapNothing) {
  const auto call = [&](const std::string& text) { return Apply(text).status(); };
  const std::string head = absl::StrCat("items { ", kRope);
  EXPECT_TRUE(call(absl::StrCat(head, Tensor(4, 0, 128), Tensor(4, 128, 128), "}")).ok());
  for (const std::string& text : {
           absl::StrCat(head, Tensor(4, 0, 128), Tensor(4, 0, 128), "}"),   // the same twice
           absl::StrCat(head, Tensor(4, 0, 128), Tensor(4, 64, 128), "}"),  // half
           absl::StrCat(head, Tensor(4, 64, 128), Tensor(4, 0, 128), "}"),  // the other half
           absl::StrCat(head, Tensor(8, 0, 256), Tensor(8, 0, 256), "outputs { } outputs ", Place(512, 256), "}"),  // read
           absl::StrCat(head, Tensor(4, 0, 128), "outputs ", Place(64, 128), "}"),      // onto itself, shifted
           absl::StrCat(head, Tensor(4, 0, 128), "} ", head, Tensor(4, 64, 128), "}"),  // of another item
           absl::StrCat(head, Tensor(64, 0, 2048), "} ", head, Tensor(2, 64, 64), "} ", head, Tensor(2, 1024, 64), "}"),
       }) {
    const absl::Status status = call(text);
    EXPECT_EQ(status.code(), kBad) << text << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("overlaps"));
  }
  EXPECT_THAT(std::string(call(absl::StrCat(head, Tensor(4, 0, 128), "outputs ", Place(64, 128), "}")).message()),
              testing::HasSubstr("items[0].outputs[0]: given a range that overlaps that of items[0].tensors[0]"));
  // Two that read the same are good.
  EXPECT_TRUE(call(absl::StrCat(head, Tensor(4, 0, 128), Tensor(4, 0, 128), "outputs ", Place(1024, 128), "outputs ",
                                Place(2048, 128), "}"))
                  .ok());
}

TEST_F(RegionAccessTest, TablesAndBiases) {
  const auto precompute = [&](const std::string& rest) {
    return Precompute(absl::StrCat("items { ", kRope, "table { positions { range { count: 4 } } } ", rest, "}"));
  };
  const auto placed = precompute("output " + Place(64, 1024));
  ASSERT_TRUE(ItemStatus(placed).ok()) << ItemStatus(placed);
  EXPECT_EQ(Only(placed).place.data(), region_->data() + 64);
  EXPECT_EQ(Only(placed).place.size, 2 * 4 * 4 * 4);
  ExpectError(ItemStatus(precompute("output " + Place(0, 127))), {kBad, "items[0].output.size_bytes", "127", "at least 128"},
              "too small");
  const auto shared = precompute("share: true");
  ASSERT_TRUE(ItemStatus(shared).ok());
  EXPECT_EQ(Only(shared).shared.store, &store_);
  ExpectError(ItemStatus(precompute("share: true output " + Place(0, 128))), {kBad, "items[0].share", "output", "one"},
              "both");
  const auto two = Precompute(absl::StrCat("items { ", kRope, "table { positions { range { count: 4 } } } output ",
                                           Place(0, 128), "} items { ", kRope,
                                           "table { positions { range { count: 4 } } } output ", Place(64, 128), "}"));
  EXPECT_EQ(two.status().code(), kBad);
  EXPECT_THAT(std::string(two.status().message()), testing::HasSubstr("items[1].output"));
}

// Shared memory in every field of every request that can have it, where the server shares none, and where the name is
// nobody's: always an error, and the error of a field whose turn comes is the right one.
TEST_F(RegionAccessTest, EveryFieldOfEveryRequest) {
  const std::string tensor = "{ dtype: DTYPE_F32 shape: [1, 2, 1, 8] } ";
  const auto apply = FromText<v1::ApplyRequest>(absl::StrCat("items { ", kRope, "tensors ", tensor, "}"));
  const auto table =
      FromText<v1::PrecomputeRequest>(absl::StrCat("items { ", kRope, "table { positions { range { count: 4 } } } }"));
  const auto scores = FromText<v1::ScoresRequest>(absl::StrCat("items { q ", tensor, "k ", tensor, "}"));
  v1::SharedMemory place;
  place.set_region(std::string(32, '0'));
  place.set_size_bytes(64);
  const RequestParser parser({});
  size_t seen = 0;
  const auto check = [&](const auto& base, const auto& parse) {
    Way way;
    std::vector<Way> ways;
    Ways(base.GetDescriptor(), v1::SharedMemory::descriptor(), &way, &ways);
    EXPECT_FALSE(ways.empty());
    for (const auto& to : ways) {
      const grpc::ByteBuffer bytes = ToWire(WithPlace(base, to, place));
      for (const RegionAccess* access :
           {static_cast<const RegionAccess*>(nullptr), static_cast<const RegionAccess*>(&access_)}) {
        const absl::Status status = parse(bytes, access);
        const bool known = status.code() == kBad || status.code() == kUnserved ||
                           (access != nullptr && status.code() == absl::StatusCode::kFailedPrecondition);
        EXPECT_TRUE(known) << to.back()->full_name() << " of " << base.GetTypeName() << ": " << status;
        ++seen;
      }
    }
  };
  check(apply,
        [&](const grpc::ByteBuffer& bytes, const RegionAccess* a) { return ItemStatus(parser.ParseApply(bytes, a)); });
  check(table,
        [&](const grpc::ByteBuffer& bytes, const RegionAccess* a) { return ItemStatus(parser.ParsePrecompute(bytes, a)); });
  check(scores, [&](const grpc::ByteBuffer& bytes, const RegionAccess*) { return ItemStatus(parser.ParseScores(bytes)); });
  EXPECT_GT(seen, 40u);

  const auto off = [&](const std::string& text) {
    return ItemStatus(parser.ParseApply(ToWire(FromText<v1::ApplyRequest>(text))));
  };
  ExpectError(off(absl::StrCat("items { ", kRope, Tensor(2, 0, 64), "}")),
              {kUnserved, "items[0].tensors[0].shared_memory", "shared memory", "not served"}, "a tensor");
  ExpectError(off(absl::StrCat("items { ", kRope, "tensors { dtype: DTYPE_F32 shape: [1, 0, 1, 8] data: \"\" } outputs ",
                               Place(0, 64), "}")),
              {kUnserved, "items[0].outputs[0]", "shared memory", "not served"}, "an output");
  for (const std::string& rest : {std::string("share: true"), "output " + Place(0, 1024)}) {
    const auto status = ItemStatus(parser.ParsePrecompute(ToWire(FromText<v1::PrecomputeRequest>(
        absl::StrCat("items { ", kRope, "table { positions { range { count: 4 } } } ", rest, "}")))));
    EXPECT_EQ(status.code(), kUnserved) << status;
  }
}

// Streams carry their bytes.
TEST_F(RegionAccessTest, StreamsHaveNone) {
  for (const std::string& rest : {std::string("share: true"), "output " + Place(0, 1024)}) {
    const auto stream = RequestParser({}).ParseStreamPrecompute(ToWire(FromText<v1::StreamPrecomputeRequest>(
        absl::StrCat("items { ", kRope, "table { positions { range { count: 4 } } } ", rest, "}"))));
    ASSERT_TRUE(stream.ok());
    EXPECT_EQ(stream->batch.items()[0].status().code(), kBad) << rest;
  }
  const auto open = FromText<v1::ApplyItem>(
      absl::StrCat(kRope, "tensors { dtype: DTYPE_F32 shape: [1, 2, 1, 8] } outputs ", Place(0, 64)));
  ExpectError(RequestParser({}).ParseStreamedItem(open, {}).status(), {kBad, "outputs", "shared memory", "none"}, "open");
}

}  // namespace
}  // namespace phasor::server
