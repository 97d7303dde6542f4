// Every field of a request in which a tensor may name where it lies.
#ifndef PHASOR_TESTS_SERVER_STORAGE_WAYS_H_
#define PHASOR_TESTS_SERVER_STORAGE_WAYS_H_

#include <algorithm>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "phasor/v1/tensor.pb.h"

namespace phasor::server {

using Way = std::vector<const google::protobuf::FieldDescriptor*>;

// Every way to a message of type `target` in one of type `type`.
inline void Ways(const google::protobuf::Descriptor* type, const google::protobuf::Descriptor* target, Way* way,
                 std::vector<Way>* ways) {
  for (int i = 0; i < type->field_count(); ++i) {
    const auto* field = type->field(i);
    if (field->message_type() == nullptr || way->size() > 6) continue;
    if (std::find(way->begin(), way->end(), field) != way->end()) continue;
    way->push_back(field);
    if (field->message_type() == target) {
      ways->push_back(*way);
    } else {
      Ways(field->message_type(), target, way, ways);
    }
    way->pop_back();
  }
}

// `base` with `place` in the field that `way` leads to.
template <typename M, typename Place>
M WithPlace(const M& base, const Way& way, const Place& place) {
  M request = base;
  google::protobuf::Message* at = &request;
  for (const auto* field : way) {
    const auto* reflection = at->GetReflection();
    if (!field->is_repeated()) {
      at = reflection->MutableMessage(at, field);
    } else {
      at = reflection->FieldSize(*at, field) > 0 ? reflection->MutableRepeatedMessage(at, field, 0)
                                                 : reflection->AddMessage(at, field);
    }
    if (at->GetDescriptor() == v1::Tensor::descriptor()) {
      auto* tensor = static_cast<v1::Tensor*>(at);
      tensor->set_dtype(tensor->dtype() == v1::DTYPE_UNSPECIFIED ? v1::DTYPE_F32 : tensor->dtype());
    }
  }
  at->CopyFrom(place);
  return request;
}

}  // namespace phasor::server

#endif  // PHASOR_TESTS_SERVER_STORAGE_WAYS_H_
