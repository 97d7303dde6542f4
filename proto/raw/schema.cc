#include "proto/raw/schema.h"

namespace phasor::raw {
namespace {

// Field numbers are those of proto/phasor/v1; tests/proto/schema_test.cc holds them against the descriptors.
constexpr Field kTensorFields[] = {{100, nullptr}};  // data
constexpr Node kTensor{kTensorFields};

constexpr Field kMaskFields[] = {{1, &kTensor}};  // mask
constexpr Node kMask{kMaskFields};
constexpr Field kMultiAxisFields[] = {{1, &kTensor}};  // axes
constexpr Node kMultiAxis{kMultiAxisFields};
constexpr Field kPositionsFields[] = {{3, &kTensor}, {4, &kMask}, {6, &kMultiAxis}};  // ids, mask, multi_axis
constexpr Node kPositions{kPositionsFields};

constexpr Field kTableWindowFields[] = {{1, &kPositions}};  // positions
constexpr Node kTableWindow{kTableWindowFields};
constexpr Field kPrecomputeItemFields[] = {{5, &kTableWindow}};  // table
constexpr Node kPrecomputeItem{kPrecomputeItemFields};
constexpr Field kPrecomputeRequestFields[] = {{1, &kPrecomputeItem}};  // items

constexpr Field kApplyItemFields[] = {{4, &kPositions}, {100, &kTensor}};  // positions, tensors
constexpr Node kApplyItem{kApplyItemFields};
constexpr Field kApplyRequestFields[] = {{1, &kApplyItem}};  // items

// inv_freq, cos, sin, table, bias
constexpr Field kPrecomputeResultFields[] = {
    {11, &kTensor}, {100, &kTensor}, {101, &kTensor}, {102, &kTensor}, {103, &kTensor}};
constexpr Node kPrecomputeResult{kPrecomputeResultFields};
constexpr Field kPrecomputeResponseFields[] = {{1, &kPrecomputeResult}};  // results

constexpr Field kApplyResultFields[] = {{100, &kTensor}};  // tensors
constexpr Node kApplyResult{kApplyResultFields};
constexpr Field kApplyResponseFields[] = {{1, &kApplyResult}};  // results

}  // namespace

constinit const Node kPrecomputeRequest{kPrecomputeRequestFields};
constinit const Node kApplyRequest{kApplyRequestFields};
constinit const Node kPrecomputeResponse{kPrecomputeResponseFields};
constinit const Node kApplyResponse{kApplyResponseFields};

}  // namespace phasor::raw
