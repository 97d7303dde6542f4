// The raw codec's own promises: nothing is copied, owners are let go, limits hold, and the corners of the wire format one by
// one.
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "phasor/v1/position_service.pb.h"

#include "proto/raw/message_writer.h"
#include "proto/raw/payload_cutter.h"
#include "tests/proto/codec_check.h"

namespace phasor::raw {
namespace {

using google::protobuf::Message;

grpc::ByteBuffer Buffer(std::string_view bytes) {
  grpc::Slice slice(bytes.data(), bytes.size());
  return grpc::ByteBuffer(&slice, 1);
}

std::string Field(uint32_t number, std::string_view content) {
  std::string bytes;
  for (uint64_t value : {uint64_t{number} << 3 | 2, uint64_t{content.size()}}) {
    for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
    bytes.push_back(static_cast<char>(value));
  }
  return bytes.append(content);
}

std::string Apply(std::string_view tensor) { return Field(1, Field(100, tensor)); }

// What both parsers make of `bytes`; fails the test when they disagree.
bool Accepts(std::string_view bytes, int kind = 1) {
  for (size_t longest : {1, 7, 1 << 20}) {
    std::mt19937_64 random(7);
    EXPECT_EQ(Difference(KindOf(kind), bytes, longest, random), "") << testing::PrintToString(std::string(bytes));
  }
  return KindOf(kind).make()->ParseFromString(std::string(bytes));
}

TEST(CutTest, PayloadsStayWhereTheyWereReceived) {
  const std::string payload(5000, 'x');
  const std::string bytes = Apply(Field(100, payload));
  const std::vector<grpc::Slice> slices = {grpc::Slice(bytes.data(), 2000),
                                           grpc::Slice(bytes.data() + 2000, bytes.size() - 2000)};
  v1::ApplyRequest request;
  Payloads payloads;
  ASSERT_TRUE(Cut(grpc::ByteBuffer(slices.data(), slices.size()), kApplyRequest, {}, &request, &payloads).ok());
  const auto pieces = payloads.Find(request.items(0).tensors(0).data());
  ASSERT_TRUE(pieces);
  ASSERT_EQ(pieces->size(), 2u);
  const size_t header = bytes.size() - payload.size();
  EXPECT_EQ(static_cast<const void*>((*pieces)[0].data), slices[0].begin() + header);
  EXPECT_EQ((*pieces)[0].size, 2000 - header);
  EXPECT_EQ(static_cast<const void*>((*pieces)[1].data), slices[1].begin());
  EXPECT_EQ(payloads.total_bytes(), 5000);
}

TEST(CutTest, PiecesOutliveTheBuffer) {
  const std::string payload(5000, 'x');
  v1::ApplyRequest request;
  std::vector<Piece> kept;
  {
    Payloads payloads;
    grpc::ByteBuffer buffer = Buffer(Apply(Field(100, payload)));
    ASSERT_TRUE(Cut(buffer, kApplyRequest, {}, &request, &payloads).ok());
    const auto pieces = *payloads.Find(request.items(0).tensors(0).data());
    kept.assign(pieces.begin(), pieces.end());
  }
  EXPECT_EQ(Flatten(kept), payload);
}

TEST(CutTest, EmptyMessageAndEmptyPayload) {
  EXPECT_TRUE(Accepts(""));
  EXPECT_TRUE(Accepts(Apply("")));
  EXPECT_TRUE(Accepts(Apply(Field(100, ""))));
  v1::ApplyRequest request;
  Payloads payloads;
  ASSERT_TRUE(Cut(Buffer(Apply(Field(100, ""))), kApplyRequest, {}, &request, &payloads).ok());
  EXPECT_TRUE(request.items(0).tensors(0).has_data());
  EXPECT_EQ(payloads.SizeOf(request.items(0).tensors(0).data()), 0);
}

TEST(CutTest, TheLastPayloadWinsAndALaterMemberClearsIt) {
  const std::string data = Field(100, "first");
  EXPECT_TRUE(Accepts(Apply(data + Field(100, "second"))));
  EXPECT_TRUE(Accepts(Apply(data + Field(4, Field(1, "region")))));
  EXPECT_TRUE(Accepts(Apply(Field(4, Field(1, "region")) + data)));
  v1::ApplyRequest request;
  Payloads payloads;
  ASSERT_TRUE(Cut(Buffer(Apply(data + Field(100, "second"))), kApplyRequest, {}, &request, &payloads).ok());
  EXPECT_EQ(payloads.count(), 2u);
  EXPECT_EQ(Flatten(*payloads.Find(request.items(0).tensors(0).data())), "second");
}

TEST(CutTest, SplitSubMessagesMerge) {
  const std::string ids = Field(3, "\x08\x06");             // positions.ids.dtype
  const std::string ids_data = Field(3, Field(100, "xy"));  // positions.ids.data
  const std::string mask = Field(4, Field(1, Field(100, "z")));
  for (const std::string& positions :
       {Field(4, ids) + Field(4, ids_data), Field(4, ids_data) + Field(4, ids), Field(4, ids + ids_data),
        Field(4, ids_data) + Field(4, mask), Field(4, mask) + Field(4, ids_data), Field(4, mask + ids + mask)}) {
    EXPECT_TRUE(Accepts(Field(1, positions)));
  }
}

TEST(CutTest, OverlongVarints) {
  EXPECT_TRUE(Accepts(std::string("\x8a\x80\x80\x80\x00\x00", 6)));                       // tag 1 in five bytes, empty item
  EXPECT_FALSE(Accepts(std::string("\x8a\x80\x80\x80\x80\x00\x00", 7)));                  // in six
  EXPECT_TRUE(Accepts(std::string("\x0a\x80\x80\x80\x80\x00", 6)));                       // length 0 in five bytes
  EXPECT_FALSE(Accepts(std::string("\x0a\x80\x80\x80\x80\x80\x00", 7)));                  // in six
  EXPECT_FALSE(Accepts("\x0a\xff\xff\xff\xff\x07"));                                      // 2 GiB − 1
  EXPECT_FALSE(Accepts("\x0a\xff\xff\xff\xff\x0f"));                                      // 4 GiB − 1
  EXPECT_TRUE(Accepts(std::string("\x10\x81\x80\x80\x80\x80\x80\x80\x80\x80\x00", 11)));  // value in ten bytes
  EXPECT_FALSE(Accepts(std::string("\x10\x81\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 12)));  // in eleven
}

TEST(CutTest, UnknownFieldsAndGroups) {
  EXPECT_TRUE(Accepts(Field(77, "unknown") + Apply(Field(100, "abc") + Field(99, "unknown"))));
  EXPECT_TRUE(Accepts("\x0b\x0c"));                                                            // field 1 as a group: unknown
  EXPECT_TRUE(Accepts(std::string("\x0b").append(Field(1, Field(100, "x"))).append("\x0c")));  // whose inside is opaque
  EXPECT_TRUE(Accepts("\x0b\x13\x14\x0c"));
  EXPECT_FALSE(Accepts("\x0b\x13\x0c\x14"));
  EXPECT_FALSE(Accepts("\x0b"));
  EXPECT_FALSE(Accepts("\x0c"));
  EXPECT_FALSE(Accepts(Apply("\x0b")));
  EXPECT_FALSE(Accepts(std::string("\x00\x00", 2)));  // field 0
  EXPECT_FALSE(Accepts(std::string("\x02\x00", 2)));
  EXPECT_FALSE(Accepts("\x0e"));  // wire types 6 and 7
  EXPECT_FALSE(Accepts("\x0f"));
  EXPECT_TRUE(Accepts(std::string("\x0d\0\0\0\0\x09\0\0\0\0\0\0\0\0", 14)));  // field 1 as fixed32 and fixed64: unknown
}

TEST(CutTest, DepthAsInGeneratedCode) {
  for (int depth = 95; depth < 106; ++depth) {
    const std::string groups = std::string(depth, '\x0b') + std::string(depth, '\x0c');
    EXPECT_EQ(Accepts(groups), depth <= 100) << depth;
    EXPECT_EQ(Accepts(Apply(groups)), depth <= 98) << depth;
  }
}

TEST(CutTest, InvalidUtf8IsRefused) {
  EXPECT_FALSE(Accepts(Apply(Field(4, Field(1, "\xff\xfe")))));
  EXPECT_TRUE(Accepts(Apply(Field(4, Field(1, "é")))));
}

TEST(CutTest, EveryTruncationIsRefusedAlike) {
  v1::ApplyRequest request;
  v1::ApplyItem* item = request.add_items();
  item->mutable_spec()->mutable_rope()->set_head_dim(128);
  item->mutable_positions()->mutable_mask()->mutable_mask()->set_data("0101");
  item->add_tensors()->set_data(std::string(300, 'q'));
  const std::string bytes = request.SerializeAsString();
  for (size_t size = 0; size <= bytes.size(); ++size) Accepts(bytes.substr(0, size));
}

TEST(CutTest, LimitsOnWhatIsNotPayload) {
  std::string items;
  for (int i = 0; i < 100; ++i) items += Field(1, "");
  v1::ApplyRequest request;
  Payloads payloads;
  EXPECT_TRUE(Cut(Buffer(items), kApplyRequest, {.max_parts = 100}, &request, &payloads).ok());
  EXPECT_EQ(Cut(Buffer(items), kApplyRequest, {.max_parts = 99}, &request, &payloads).code(),
            absl::StatusCode::kResourceExhausted);
  const std::string unknown = Field(77, std::string(1000, 'u'));
  EXPECT_TRUE(Cut(Buffer(unknown), kApplyRequest, {.max_skeleton_bytes = 1100}, &request, &payloads).ok());
  EXPECT_EQ(Cut(Buffer(unknown), kApplyRequest, {.max_skeleton_bytes = 1000}, &request, &payloads).code(),
            absl::StatusCode::kResourceExhausted);
  // A payload does not count.
  EXPECT_TRUE(
      Cut(Buffer(Apply(Field(100, std::string(5000, 'p')))), kApplyRequest, {.max_skeleton_bytes = 100}, &request, &payloads)
          .ok());
}

TEST(CutTest, NoBuffer) {
  v1::ApplyRequest request;
  Payloads payloads;
  EXPECT_EQ(Cut(grpc::ByteBuffer(), kApplyRequest, {}, &request, &payloads).code(), absl::StatusCode::kInvalidArgument);
}

// An owner that counts how many of it are alive.
struct Counted {
  Counted(std::string text, int* counter) : bytes(std::move(text)), alive(counter) { ++*alive; }
  ~Counted() { --*alive; }
  std::string bytes;
  int* alive;
};

Piece CountedPiece(size_t size, int* alive) {
  auto owner = std::make_shared<const Counted>(std::string(size, 'd'), alive);
  const auto* data = reinterpret_cast<const std::byte*>(owner->bytes.data());
  return {std::move(owner), data, size};
}

TEST(JoinTest, PiecesBecomeSlicesAndOwnersLeaveWithThem) {
  int alive = 0;
  std::vector<const void*> places;
  grpc::ByteBuffer buffer;
  {
    Payloads payloads;
    v1::PrecomputeResponse response;
    for (int i = 0; i < 3; ++i) {
      const std::vector<Piece> pieces = {CountedPiece(4096, &alive), CountedPiece(kCopyBelow, &alive)};
      for (const Piece& piece : pieces) places.push_back(piece.data);
      response.add_results()->mutable_cos()->set_data(payloads.Add(pieces));
    }
    auto joined = Join(response, kPrecomputeResponse, payloads);
    ASSERT_TRUE(joined.ok());
    buffer = *std::move(joined);
  }
  EXPECT_EQ(alive, 6);
  {
    std::vector<grpc::Slice> slices;
    ASSERT_TRUE(buffer.Dump(&slices).ok());
    std::vector<const void*> found;
    for (const grpc::Slice& slice : slices) found.push_back(slice.begin());
    for (const void* place : places) EXPECT_THAT(found, testing::Contains(place));
  }
  v1::PrecomputeResponse parsed;
  ASSERT_TRUE(parsed.ParseFromString(Flatten(buffer)));
  EXPECT_EQ(parsed.results(2).cos().data(), std::string(4096 + kCopyBelow, 'd'));
  buffer.Clear();
  EXPECT_EQ(alive, 0);
}

TEST(JoinTest, ShortPiecesAreCopied) {
  int alive = 0;
  Payloads payloads;
  v1::ApplyResponse response;
  const Piece piece = CountedPiece(kCopyBelow - 1, &alive);
  response.add_results()->add_tensors()->set_data(payloads.Add({&piece, 1}));
  const auto joined = Join(response, kApplyResponse, payloads);
  ASSERT_TRUE(joined.ok());
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(joined->Dump(&slices).ok());
  EXPECT_EQ(slices.size(), 1u);
}

TEST(JoinTest, RandomMessagesMatchGeneratedBytes) {
  std::mt19937_64 random(99);
  for (int i = 0; i < 200; ++i) {
    const Kind kind = KindOf(i % kKinds);
    const auto message = kind.make();
    FillAtRandom(message.get(), random);
    const std::string wanted = message->SerializeAsString();
    Payloads payloads;
    ExtractPayloads(message.get(), &payloads);
    const auto joined = Join(*message, *kind.schema, payloads);
    ASSERT_TRUE(joined.ok());
    ASSERT_EQ(Flatten(*joined), wanted);
  }
}

TEST(JoinTest, DataThatIsNoTokenIsAnError) {
  v1::ApplyResponse response;
  response.add_results()->add_tensors()->set_data("real data");
  EXPECT_EQ(Join(response, kApplyResponse, Payloads()).status().code(), absl::StatusCode::kInternal);
}

TEST(JoinTest, TwoGigabytesAreRefused) {
  static const std::byte kByte{};
  Payloads payloads;
  v1::ApplyResponse response;
  // Sizes are summed before anything is touched, so the pieces need not be there.
  const Piece piece{nullptr, &kByte, size_t{1} << 30};
  response.add_results()->add_tensors()->set_data(payloads.Add({&piece, 1}));
  EXPECT_TRUE(Join(response, kApplyResponse, payloads).ok());
  response.add_results()->add_tensors()->set_data(payloads.Add({&piece, 1}));
  EXPECT_EQ(Join(response, kApplyResponse, payloads).status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace phasor::raw
