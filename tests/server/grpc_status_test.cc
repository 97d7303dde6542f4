#include "server/grpc_status.h"

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "kernels/encodings/encoding.h"
#include "server/refusal.h"
#include "tests/server/status_details.h"

namespace phasor::server {
namespace {

using google::rpc::BadRequest;
using google::rpc::ErrorInfo;
using google::rpc::QuotaFailure;
using google::rpc::ResourceInfo;
using google::rpc::RetryInfo;
using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;

TEST(GrpcStatusTest, OkIsEmpty) {
  EXPECT_EQ(ToRpcStatus(absl::OkStatus()).ByteSizeLong(), 0u);
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_EQ(ErrorReason(absl::OkStatus()), "");
}

TEST(GrpcStatusTest, InvalidFieldNamesFieldGivenAndAllowed) {
  const google::rpc::Status status = ToRpcStatus(InvalidField("spec.rope.rotary_dim", "7", "an even number"));
  EXPECT_EQ(status.code(), 3);
  EXPECT_EQ(status.message(), "spec.rope.rotary_dim: given 7; allowed: an even number");
  ASSERT_EQ(status.details_size(), 2);
  EXPECT_EQ(InfoOf(status).domain(), "phasor.v1");
  EXPECT_EQ(InfoOf(status).reason(), "INVALID_FIELD");
  EXPECT_EQ(MetadataOf(status, "field"), "spec.rope.rotary_dim");
  EXPECT_EQ(MetadataOf(status, "given"), "7");
  EXPECT_EQ(MetadataOf(status, "allowed"), "an even number");
  const auto requests = DetailsOf<BadRequest>(status);
  ASSERT_EQ(requests.size(), 1u);
  ASSERT_EQ(requests[0].field_violations_size(), 1);
  EXPECT_EQ(requests[0].field_violations(0).field(), "spec.rope.rotary_dim");
  EXPECT_EQ(requests[0].field_violations(0).description(), "given 7; allowed: an even number");
}

TEST(GrpcStatusTest, OverLimitNamesTheLimit) {
  const google::rpc::Status status = ToRpcStatus(OverLimit("items", 2000, "max_batch_items", 1024, "items"));
  EXPECT_EQ(status.code(), 3);
  EXPECT_EQ(status.message(), "items: given 2000 items; allowed: up to 1024 (the server's max_batch_items)");
  EXPECT_EQ(InfoOf(status).reason(), "LIMIT_EXCEEDED");
  EXPECT_EQ(MetadataOf(status, "limit"), "1024");
  EXPECT_EQ(MetadataOf(status, "limitName"), "max_batch_items");
  EXPECT_EQ(MetadataOf(status, "given"), "2000");
  EXPECT_EQ(MetadataOf(status, "unit"), "items");
  EXPECT_EQ(DetailsOf<BadRequest>(status).size(), 1u);
}

TEST(GrpcStatusTest, AtPathMovesEveryPlaceWhereThePathStands) {
  const absl::Status inner = InvalidField("spec.rope.base", "-1", "> 0");
  const google::rpc::Status status = ToRpcStatus(AtPath("items[3].", inner));
  EXPECT_EQ(status.message(), "items[3].spec.rope.base: given -1; allowed: > 0");
  EXPECT_EQ(MetadataOf(status, "field"), "items[3].spec.rope.base");
  EXPECT_EQ(MetadataOf(status, "given"), "-1");
  EXPECT_EQ(DetailsOf<BadRequest>(status)[0].field_violations(0).field(), "items[3].spec.rope.base");
  EXPECT_EQ(status.details_size(), 2);

  const google::rpc::Status unserved = ToRpcStatus(AtPath("items[0].", NotServed("positions.multi_axis", "this")));
  EXPECT_EQ(unserved.code(), 12);
  EXPECT_EQ(unserved.message(), "items[0].positions.multi_axis: this is not served by this version");
  EXPECT_EQ(InfoOf(unserved).reason(), "NOT_SERVED");
  EXPECT_EQ(MetadataOf(unserved, "field"), "items[0].positions.multi_axis");

  EXPECT_EQ(ToRpcStatus(AtPath("items[3].", InvalidField("", "nothing", "something"))).message(),
            "items[3]: given nothing; allowed: something");
  EXPECT_EQ(AtPath("items[3].", absl::CancelledError("x")), absl::CancelledError("x"));
  EXPECT_TRUE(AtPath("items[3].", absl::OkStatus()).ok());
}

TEST(GrpcStatusTest, ErrorsOfSpecsGetThePathOfTheSpec) {
  const absl::Status spec = MakeSpecError("rope.rotary_dim", "7", "an even number");
  EXPECT_EQ(ToRpcStatus(AtPath("items[1].", spec)).message(),
            "items[1].spec.rope.rotary_dim: given 7; allowed: an even number");
  EXPECT_EQ(MetadataOf(ToRpcStatus(AtPath("items[1].", spec)), "field"), "items[1].spec.rope.rotary_dim");
  EXPECT_EQ(MetadataOf(ToRpcStatus(spec), "field"), "rope.rotary_dim");
  EXPECT_EQ(MetadataOf(ToRpcStatus(AtPath("items[1].", MakeSpecError("", "nothing", "rope"))), "field"), "items[1].spec");
  EXPECT_EQ(MetadataOf(ToRpcStatus(AtPath("items[1].", MakeSpecError("sequence_length", "0", "1"))), "field"),
            "items[1].sequence_length");
}

TEST(GrpcStatusTest, OverloadTellsWhenToComeBack) {
  const absl::Status status = Unavailable("OVERLOADED", "too much", milliseconds(2500));
  const google::rpc::Status rpc = ToRpcStatus(status);
  EXPECT_EQ(rpc.code(), 14);
  EXPECT_EQ(InfoOf(rpc).reason(), "OVERLOADED");
  ASSERT_EQ(DetailsOf<RetryInfo>(rpc).size(), 1u);
  EXPECT_EQ(DetailsOf<RetryInfo>(rpc)[0].retry_delay().seconds(), 2);
  EXPECT_EQ(DetailsOf<RetryInfo>(rpc)[0].retry_delay().nanos(), 500'000'000);
  EXPECT_EQ(RetryPushbackMs(status), 2500);

  const absl::Status never = Unavailable("DRAINING", "going", milliseconds(-1));
  EXPECT_EQ(RetryPushbackMs(never), -1);
  EXPECT_TRUE(DetailsOf<RetryInfo>(ToRpcStatus(never)).empty());

  const absl::Status plain = absl::UnavailableError("queue full");
  EXPECT_EQ(RetryPushbackMs(plain), 100);
  EXPECT_EQ(DetailsOf<RetryInfo>(ToRpcStatus(plain))[0].retry_delay().nanos(), 100'000'000);
  EXPECT_EQ(RetryPushbackMs(absl::InternalError("x")), std::nullopt);
}

TEST(GrpcStatusTest, NotFoundAndQuota) {
  const google::rpc::Status missing = ToRpcStatus(ResourceNotFound("name", "scheme", "rope_x", "rope_default"));
  EXPECT_EQ(missing.code(), 5);
  EXPECT_EQ(missing.message(), "name: there is no scheme \"rope_x\"; there are: rope_default");
  ASSERT_EQ(DetailsOf<ResourceInfo>(missing).size(), 1u);
  EXPECT_EQ(DetailsOf<ResourceInfo>(missing)[0].resource_type(), "scheme");
  EXPECT_EQ(DetailsOf<ResourceInfo>(missing)[0].resource_name(), "rope_x");
  const google::rpc::Status quota = ToRpcStatus(QuotaExceeded("peer", "10 GiB a day"));
  EXPECT_EQ(quota.code(), 8);
  EXPECT_EQ(DetailsOf<QuotaFailure>(quota)[0].violations(0).subject(), "peer");
  // One that the engine met says the same.
  const google::rpc::Status met = ToRpcStatus(MakeQuotaRefusal("peer", "10 GiB a day"));
  EXPECT_EQ(met.SerializeAsString(), quota.SerializeAsString());
  EXPECT_EQ(ErrorReason(MakeQuotaRefusal("peer", "10 GiB a day")), "QUOTA_EXCEEDED");
}

TEST(GrpcStatusTest, NothingInternalLeaks) {
  for (const absl::Status& status :
       {absl::InternalError("tile 7 at 0x7fff"), absl::UnknownError("std::bad_alloc"), absl::DataLossError("file /secret"),
        AtPath("items[0].", MakeError(absl::StatusCode::kInternal, "X", "0x7fff", {{"field", "f"}}))}) {
    const google::rpc::Status rpc = ToRpcStatus(status);
    EXPECT_EQ(rpc.code(), 13);
    EXPECT_EQ(rpc.message(), "internal error; the server's log has the cause");
    EXPECT_EQ(InfoOf(rpc).reason(), "INTERNAL");
    EXPECT_EQ(InfoOf(rpc).metadata_size(), 0);
    EXPECT_THAT(rpc.SerializeAsString(), Not(HasSubstr("0x7fff")));
  }
  // What others have put on a status stays inside.
  absl::Status status = absl::InvalidArgumentError("x");
  status.SetPayload("some.internal.Type", absl::Cord("secret"));
  EXPECT_THAT(ToRpcStatus(status).SerializeAsString(), Not(HasSubstr("secret")));
}

TEST(GrpcStatusTest, EveryCodeHasExactlyOneErrorInfo) {
  for (int code = 1; code <= 16; ++code) {
    const google::rpc::Status rpc = ToRpcStatus(absl::Status(static_cast<absl::StatusCode>(code), "why"));
    EXPECT_EQ(DetailsOf<ErrorInfo>(rpc).size(), 1u) << code;
    EXPECT_THAT(InfoOf(rpc).reason(), testing::MatchesRegex("[A-Z][A-Z_]+[A-Z]")) << code;
    EXPECT_LE(InfoOf(rpc).reason().size(), 63u);
    EXPECT_EQ(InfoOf(rpc).domain(), "phasor.v1");
  }
  EXPECT_EQ(ErrorReason(absl::CancelledError("")), "CANCELLED");
  EXPECT_EQ(ErrorReason(absl::DeadlineExceededError("")), "DEADLINE_EXCEEDED");
}

TEST(GrpcStatusTest, LongAndBrokenTextIsCutToValidUtf8) {
  const std::string bad = "\xff\xc3(\xed\xa0\x80\xf5€é" + std::string(5000, 'x');
  const google::rpc::Status field = ToRpcStatus(InvalidField("f", bad, bad));
  EXPECT_LE(field.message().size(), kMaxErrorMessage);
  EXPECT_EQ(MetadataOf(field, "given").substr(0, 19), "?\?(?\?\?\?€éxxxxxxx");
  google::rpc::Status parsed;
  EXPECT_TRUE(parsed.ParseFromString(field.SerializeAsString()));  // which checks UTF-8
  std::string euros;
  for (int i = 0; i < 1000; ++i) euros += "€";
  const google::rpc::Status cut = ToRpcStatus(absl::InvalidArgumentError(euros));
  EXPECT_LE(cut.message().size(), kMaxErrorMessage);
  EXPECT_GT(cut.message().size(), kMaxErrorMessage - 6);
  EXPECT_TRUE(parsed.ParseFromString(cut.SerializeAsString()));
  // All of an error fits in the 8 KiB that clients take for metadata.
  EXPECT_LT(field.SerializeAsString().size(), 4096u);
}

TEST(GrpcStatusTest, GrpcStatusCarriesTheSame) {
  const absl::Status status = OverLimit("items", 2, "max_batch_items", 1, "items");
  const grpc::Status call = ToGrpcStatus(status);
  EXPECT_EQ(call.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  google::rpc::Status parsed;
  ASSERT_TRUE(parsed.ParseFromString(call.error_details()));
  EXPECT_EQ(parsed.SerializeAsString(), ToRpcStatus(status).SerializeAsString());
  EXPECT_EQ(call.error_message(), parsed.message());
  EXPECT_EQ(call.error_details(), ToGrpcStatus(status).error_details());  // the map's order is fixed
}

}  // namespace
}  // namespace phasor::server
