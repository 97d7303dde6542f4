// Which fields of a message are payloads: the part of the contract that the raw codec knows.
#ifndef PHASOR_PROTO_RAW_SCHEMA_H_
#define PHASOR_PROTO_RAW_SCHEMA_H_

#include <cstdint>
#include <span>

namespace phasor::raw {

struct Node;

// A length-delimited field on the way to a payload.
struct Field {
  uint32_t number;
  const Node* node;  // the sub-message; null: the field is a payload of type `bytes`
};

// A message type, as far as payloads are concerned. Fields that are not listed pass through unseen.
struct Node {
  std::span<const Field> fields;
};

// Every payload of these messages is covered: no Tensor.data of them is out of the schema.
extern const Node kPrecomputeRequest;
extern const Node kStreamPrecomputeRequest;
extern const Node kApplyRequest;
extern const Node kScoresRequest;
extern const Node kUploadTensorRequest;
extern const Node kPrecomputeResponse;
extern const Node kStreamPrecomputeResponse;
extern const Node kApplyResponse;
extern const Node kStreamApplyRequest;
extern const Node kStreamApplyResponse;
extern const Node kScoresResponse;

}  // namespace phasor::raw

#endif  // PHASOR_PROTO_RAW_SCHEMA_H_
