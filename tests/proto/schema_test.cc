// The schema's field numbers against the descriptors: every tensor that a message can hold is covered, and nothing else is.
#include "proto/raw/schema.h"

#include <set>
#include <string>

#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "phasor/v1/position_service.pb.h"

namespace phasor::raw {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

// Paths of the payload fields as the schema has them, and as the contract does.
void PathsOf(const Node& node, const Descriptor* type, const std::string& path, std::set<std::string>* paths) {
  for (const Field& field : node.fields) {
    const FieldDescriptor* described = type->FindFieldByNumber(static_cast<int>(field.number));
    ASSERT_NE(described, nullptr) << path << " has no field " << field.number;
    const std::string inner = path + "/" + described->name();
    if (field.node == nullptr) {
      EXPECT_EQ(described->type(), FieldDescriptor::TYPE_BYTES) << inner;
      paths->insert(inner);
    } else {
      ASSERT_EQ(described->type(), FieldDescriptor::TYPE_MESSAGE) << inner;
      PathsOf(*field.node, described->message_type(), inner, paths);
    }
  }
}

void PathsOf(const Descriptor* type, const std::string& path, std::set<std::string>* paths) {
  if (type == v1::Tensor::descriptor() || type == v1::UploadTensorRequest::descriptor() ||
      type == v1::ChunkData::descriptor() || type == v1::TensorChunk::descriptor()) {
    paths->insert(path + "/data");
    return;
  }
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    if (field->message_type() != nullptr) PathsOf(field->message_type(), path + "/" + field->name(), paths);
  }
}

void ExpectCovered(const Node& node, const Descriptor* type) {
  std::set<std::string> schema;
  std::set<std::string> contract;
  PathsOf(node, type, type->name(), &schema);
  PathsOf(type, type->name(), &contract);
  EXPECT_EQ(schema, contract);
  EXPECT_FALSE(schema.empty());
}

TEST(SchemaTest, CoversEveryTensorOfTheDataPlane) {
  ExpectCovered(kPrecomputeRequest, v1::PrecomputeRequest::descriptor());
  ExpectCovered(kStreamPrecomputeRequest, v1::StreamPrecomputeRequest::descriptor());
  ExpectCovered(kStreamPrecomputeResponse, v1::StreamPrecomputeResponse::descriptor());
  ExpectCovered(kApplyRequest, v1::ApplyRequest::descriptor());
  ExpectCovered(kStreamApplyRequest, v1::StreamApplyRequest::descriptor());
  ExpectCovered(kStreamApplyResponse, v1::StreamApplyResponse::descriptor());
  ExpectCovered(kScoresRequest, v1::ScoresRequest::descriptor());
  ExpectCovered(kUploadTensorRequest, v1::UploadTensorRequest::descriptor());
  ExpectCovered(kPrecomputeResponse, v1::PrecomputeResponse::descriptor());
  ExpectCovered(kApplyResponse, v1::ApplyResponse::descriptor());
  ExpectCovered(kScoresResponse, v1::ScoresResponse::descriptor());
}

}  // namespace
}  // namespace phasor::raw
