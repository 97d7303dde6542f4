#include "tests/proto/codec_check.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "google/protobuf/stubs/logging.h"
#include "phasor/v1/position_service.pb.h"

#include "proto/raw/message_writer.h"
#include "proto/raw/payload_cutter.h"

namespace phasor::raw {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

template <typename M>
std::unique_ptr<Message> Make() {
  return std::make_unique<M>();
}

// Calls f(tensor) for every Tensor in `message`.
template <typename F>
void ForEachTensor(Message* message, F f) {
  if (message->GetDescriptor() == v1::Tensor::descriptor()) return f(static_cast<v1::Tensor*>(message));
  const Reflection* reflection = message->GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(*message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      ForEachTensor(reflection->MutableMessage(message, field), f);
      continue;
    }
    for (int i = 0; i < reflection->FieldSize(*message, field); ++i) {
      ForEachTensor(reflection->MutableRepeatedMessage(message, field, i), f);
    }
  }
}

Piece OwnedPiece(std::string bytes) {
  auto owner = std::make_shared<const std::string>(std::move(bytes));
  const auto* data = reinterpret_cast<const std::byte*>(owner->data());
  const size_t size = owner->size();
  return {std::move(owner), data, size};
}

int64_t RandomNumber(std::mt19937_64& random) {
  switch (random() % 4) {
    case 0:
      return static_cast<int64_t>(random() % 8);
    case 1:
      return -static_cast<int64_t>(random() % 300);
    case 2:
      return std::numeric_limits<int64_t>::min();
    default:
      return static_cast<int64_t>(random() >> (random() % 64));
  }
}

std::string RandomBytes(std::mt19937_64& random) {
  std::string bytes(random() % 3 == 0 ? random() % 3000 : random() % 20, '\0');
  for (char& byte : bytes) byte = static_cast<char>('a' + random() % 26);  // valid as UTF-8 too
  return bytes;
}

template <typename T>
void Store(Message* message, const FieldDescriptor* field, T value,
           void (Reflection::*set)(Message*, const FieldDescriptor*, T) const,
           void (Reflection::*add)(Message*, const FieldDescriptor*, T) const) {
  (message->GetReflection()->*(field->is_repeated() ? add : set))(message, field, std::move(value));
}

void FillField(Message* message, const FieldDescriptor* field, std::mt19937_64& random, int depth) {
  const Reflection* reflection = message->GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return Store(message, field, static_cast<int32_t>(RandomNumber(random)), &Reflection::SetInt32, &Reflection::AddInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return Store(message, field, RandomNumber(random), &Reflection::SetInt64, &Reflection::AddInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return Store(message, field, static_cast<uint32_t>(random()), &Reflection::SetUInt32, &Reflection::AddUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return Store(message, field, static_cast<uint64_t>(random()), &Reflection::SetUInt64, &Reflection::AddUInt64);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return Store(message, field, static_cast<double>(RandomNumber(random)) / 7, &Reflection::SetDouble,
                   &Reflection::AddDouble);
    case FieldDescriptor::CPPTYPE_BOOL:
      return Store(message, field, random() % 2 == 0, &Reflection::SetBool, &Reflection::AddBool);
    case FieldDescriptor::CPPTYPE_ENUM:
      return Store(message, field, static_cast<int>(random() % 12), &Reflection::SetEnumValue, &Reflection::AddEnumValue);
    case FieldDescriptor::CPPTYPE_STRING:
      return Store(message, field, RandomBytes(random), &Reflection::SetString, &Reflection::AddString);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return FillAtRandom(
          field->is_repeated() ? reflection->AddMessage(message, field) : reflection->MutableMessage(message, field), random,
          depth + 1);
    default:
      return;
  }
}

}  // namespace

Kind KindOf(int index) {
  switch (index) {
    case 0:
      return {&kPrecomputeRequest, &Make<v1::PrecomputeRequest>};
    case 1:
      return {&kApplyRequest, &Make<v1::ApplyRequest>};
    case 2:
      return {&kPrecomputeResponse, &Make<v1::PrecomputeResponse>};
    default:
      return {&kApplyResponse, &Make<v1::ApplyResponse>};
  }
}

grpc::ByteBuffer Split(std::string_view bytes, size_t longest, std::mt19937_64& random) {
  std::vector<grpc::Slice> slices;
  while (!bytes.empty()) {
    const size_t size = std::min<size_t>(bytes.size(), random() % (longest + 1));
    if (size == 0 && random() % 4 != 0) continue;  // an empty slice now and then
    slices.emplace_back(bytes.data(), size);
    bytes.remove_prefix(size);
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string Flatten(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return "";
  std::string bytes;
  for (const grpc::Slice& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return bytes;
}

std::string Flatten(std::span<const Piece> pieces) {
  std::string bytes;
  for (const Piece& piece : pieces) bytes.append(reinterpret_cast<const char*>(piece.data), piece.size);
  return bytes;
}

void InsertPayloads(const Payloads& payloads, Message* message) {
  ForEachTensor(message, [&](v1::Tensor* tensor) {
    if (!tensor->has_data()) return;
    const auto pieces = payloads.Find(tensor->data());
    tensor->set_data(pieces ? Flatten(*pieces) : "a token of no payload");
  });
}

void ExtractPayloads(Message* message, Payloads* payloads) {
  ForEachTensor(message, [&](v1::Tensor* tensor) {
    if (!tensor->has_data()) return;
    const Piece piece = OwnedPiece(std::move(*tensor->mutable_data()));
    tensor->set_data(payloads->Add({&piece, 1}));
  });
}

void FillAtRandom(Message* message, std::mt19937_64& random, int depth) {
  const google::protobuf::Descriptor* type = message->GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    // google.protobuf.Any of a status needs its type at hand to be printed; the codec does not look inside.
    if (field->message_type() != nullptr && field->message_type()->full_name() == "google.protobuf.Any") continue;
    const uint64_t count = field->is_repeated() ? random() % (depth > 4 ? 2 : 4) : random() % 2;
    for (uint64_t k = 0; k < count; ++k) FillField(message, field, random, depth);
  }
}

std::string Difference(const Kind& kind, std::string_view bytes, size_t longest_slice, std::mt19937_64& random) {
  const google::protobuf::LogSilencer quiet;  // protobuf logs every string that is not UTF-8
  const std::unique_ptr<Message> expected = kind.make();
  const bool accepted = expected->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));

  Payloads payloads;
  const std::unique_ptr<Message> cut = kind.make();
  const absl::Status status = Cut(Split(bytes, longest_slice, random), *kind.schema, CutLimits{}, cut.get(), &payloads);
  if (status.ok() != accepted) {
    return (accepted ? "Cut refuses what generated code accepts: " : "Cut accepts what generated code refuses") +
           std::string(status.message());
  }
  if (!accepted) return "";

  const auto joined = Join(*cut, *kind.schema, payloads);
  if (!joined.ok()) return "Join fails: " + std::string(joined.status().message());
  const std::string wanted = expected->SerializeAsString();
  if (Flatten(*joined) != wanted) return "Join writes other bytes than generated code";

  InsertPayloads(payloads, cut.get());
  if (cut->SerializeAsString() != wanted) return "the messages differ";
  return "";
}

}  // namespace phasor::raw
