// What the tests of the request parser share: requests as text, sent through the wire, and errors field by field.
#ifndef PHASOR_TESTS_SERVER_PARSE_TEXT_H_
#define PHASOR_TESTS_SERVER_PARSE_TEXT_H_

#include <cstring>
#include <initializer_list>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "server/grpc_status.h"
#include "server/request_parser.h"
#include "tests/proto/codec_check.h"
#include "tests/server/status_details.h"

namespace phasor::server {

template <typename M>
M FromText(const std::string& text) {
  M message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

// Through the wire, in slices of random sizes: what the tests check includes the way that payloads take.
inline grpc::ByteBuffer ToWire(const google::protobuf::Message& message) {
  std::mt19937_64 random(11);
  return raw::Split(message.SerializeAsString(), 13, random);
}

inline absl::StatusOr<ValidatedPrecompute> Precompute(const std::string& text, const Limits& limits = {}) {
  return RequestParser(limits).ParsePrecompute(ToWire(FromText<v1::PrecomputeRequest>(text)));
}
inline absl::StatusOr<ValidatedApply> Apply(const std::string& text, const Limits& limits = {}) {
  return RequestParser(limits).ParseApply(ToWire(FromText<v1::ApplyRequest>(text)));
}

// The error of the only item; OK when it is valid.
template <typename V>
absl::Status ItemStatus(const absl::StatusOr<V>& batch) {
  if (!batch.ok()) return absl::InternalError(absl::StrCat("the call failed: ", batch.status().ToString()));
  return batch->items()[0].status();
}

struct Expected {
  absl::StatusCode code;
  const char* field;
  const char* given;
  const char* allowed;
};

// Field by field: code, reason, path in every place, given and allowed.
inline void ExpectError(const absl::Status& status, const Expected& expected, const std::string& input) {
  SCOPED_TRACE(input);
  ASSERT_EQ(status.code(), expected.code) << status;
  const google::rpc::Status rpc = ToRpcStatus(status);
  EXPECT_EQ(MetadataOf(rpc, "field"), expected.field);
  EXPECT_THAT(rpc.message(), testing::StartsWith(absl::StrCat(expected.field, ": ")));
  EXPECT_THAT(rpc.message(), testing::HasSubstr(expected.given));
  EXPECT_THAT(rpc.message(), testing::HasSubstr(expected.allowed));
  EXPECT_THAT(MetadataOf(rpc, "given"), testing::HasSubstr(expected.given));
  if (expected.code != absl::StatusCode::kInvalidArgument) return;
  const auto requests = DetailsOf<google::rpc::BadRequest>(rpc);
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests[0].field_violations(0).field(), expected.field);
}

inline constexpr auto kBad = absl::StatusCode::kInvalidArgument;
inline constexpr auto kUnserved = absl::StatusCode::kUnimplemented;

template <typename T>
std::string Escaped(std::initializer_list<T> values) {
  std::string out;
  for (T value : values) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    for (char byte : bytes) absl::StrAppend(&out, "\\x", absl::Hex(static_cast<unsigned char>(byte), absl::kZeroPad2));
  }
  return absl::StrCat("\"", out, "\"");
}

// A spec of four pairs.
inline constexpr char kRope[] = "spec { rope { head_dim: 8 } }";

inline const PrecomputeItem& Only(const absl::StatusOr<ValidatedPrecompute>& batch) { return *batch->items()[0]; }
inline const ApplyItem& Only(const absl::StatusOr<ValidatedApply>& batch) { return *batch->items()[0]; }

// One item with a tensor of f32 [2, 3, 2, 4] and the given text after it.
inline std::string ApplyText(const std::string& more, const std::string& shape = "[2, 3, 2, 4]", size_t bytes = 192) {
  return absl::StrCat("items { spec { rope { head_dim: 4 } } tensors { dtype: DTYPE_F32 shape: ", shape, " data: \"",
                      std::string(bytes, 'x'), "\" } ", more, " }");
}

}  // namespace phasor::server

#endif  // PHASOR_TESTS_SERVER_PARSE_TEXT_H_
