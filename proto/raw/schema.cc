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

constexpr Field kWeightFields[] = {{100, &kTensor}};  // tensor
constexpr Node kWeight{kWeightFields};
constexpr Field kSpecFields[] = {{100, &kWeight}};  // weights
constexpr Node kSpec{kSpecFields};
constexpr Field kMaskingFields[] = {{6, &kTensor}, {9, &kTensor}};  // key_padding, additive
constexpr Node kMasking{kMaskingFields};

constexpr Field kTableWindowFields[] = {{1, &kPositions}};  // positions
constexpr Node kTableWindow{kTableWindowFields};
// query_positions, key_positions, masking
constexpr Field kBiasWindowFields[] = {{8, &kPositions}, {9, &kPositions}, {10, &kMasking}};
constexpr Node kBiasWindow{kBiasWindowFields};
constexpr Field kPrecomputeItemFields[] = {{1, &kSpec}, {5, &kTableWindow}, {6, &kBiasWindow}};  // spec, table, bias
constexpr Node kPrecomputeItem{kPrecomputeItemFields};
constexpr Field kPrecomputeRequestFields[] = {{1, &kPrecomputeItem}};  // items

constexpr Field kStreamPrecomputeRequestFields[] = {{1, &kPrecomputeItem}};  // items

constexpr Field kRerotateFields[] = {{1, &kSpec}};  // target
constexpr Node kRerotate{kRerotateFields};
constexpr Field kGateFields[] = {{1, &kSpec}, {100, &kTensor}};  // other, gate
constexpr Node kGate{kGateFields};
constexpr Field kOffsetsFields[] = {{100, &kTensor}, {101, &kTensor}};  // first, last
constexpr Node kOffsets{kOffsetsFields};
constexpr Field kAddFields[] = {{7, &kGate}, {8, &kOffsets}};  // gate, offsets
constexpr Node kAdd{kAddFields};
constexpr Field kUploadedTableFields[] = {{100, &kTensor}, {101, &kTensor}};  // cos, sin
constexpr Node kUploadedTable{kUploadedTableFields};
// spec, positions, rerotate, add, table, tensors
constexpr Field kApplyItemFields[] = {{1, &kSpec}, {4, &kPositions},      {9, &kRerotate},
                                      {10, &kAdd}, {99, &kUploadedTable}, {100, &kTensor}};
constexpr Node kApplyItem{kApplyItemFields};
constexpr Field kApplyRequestFields[] = {{1, &kApplyItem}};  // items

// rotation, query_positions, key_positions, terms, biases, masking, q, k
constexpr Field kScoresItemFields[] = {{1, &kSpec}, {4, &kPositions}, {5, &kPositions}, {7, &kSpec},
                                       {8, &kSpec}, {12, &kMasking},  {100, &kTensor},  {101, &kTensor}};
constexpr Node kScoresItem{kScoresItemFields};
constexpr Field kScoresRequestFields[] = {{1, &kScoresItem}};  // items

constexpr Field kUploadTensorRequestFields[] = {{100, nullptr}};  // data

// inv_freq, cos, sin, table, bias
constexpr Field kPrecomputeResultFields[] = {
    {11, &kTensor}, {100, &kTensor}, {101, &kTensor}, {102, &kTensor}, {103, &kTensor}};
constexpr Node kPrecomputeResult{kPrecomputeResultFields};
constexpr Field kPrecomputeResponseFields[] = {{1, &kPrecomputeResult}};  // results

constexpr Field kStreamHeaderFields[] = {{1, &kPrecomputeResult}};  // result
constexpr Node kStreamHeader{kStreamHeaderFields};
constexpr Field kChunkDataFields[] = {{100, nullptr}};  // data
constexpr Node kChunkData{kChunkDataFields};
constexpr Field kStreamChunkFields[] = {{2, &kChunkData}};  // arrays
constexpr Node kStreamChunk{kStreamChunkFields};
constexpr Field kStreamPrecomputeResponseFields[] = {{2, &kStreamHeader}, {3, &kStreamChunk}};  // header, chunk

constexpr Field kApplyResultFields[] = {{100, &kTensor}};  // tensors
constexpr Node kApplyResult{kApplyResultFields};
constexpr Field kApplyResponseFields[] = {{1, &kApplyResult}};  // results

constexpr Field kTensorChunkFields[] = {{100, nullptr}};  // data
constexpr Node kTensorChunk{kTensorChunkFields};
constexpr Field kStreamApplyRequestFields[] = {{2, &kApplyItem}, {3, &kTensorChunk}};     // open, chunk
constexpr Field kStreamApplyResponseFields[] = {{2, &kApplyResult}, {3, &kTensorChunk}};  // header, chunk

constexpr Field kScoresResultFields[] = {{100, &kTensor}, {101, &kTensor}};  // scores, values
constexpr Node kScoresResult{kScoresResultFields};
constexpr Field kScoresResponseFields[] = {{1, &kScoresResult}};  // results

}  // namespace

constinit const Node kPrecomputeRequest{kPrecomputeRequestFields};
constinit const Node kStreamPrecomputeRequest{kStreamPrecomputeRequestFields};
constinit const Node kApplyRequest{kApplyRequestFields};
constinit const Node kScoresRequest{kScoresRequestFields};
constinit const Node kUploadTensorRequest{kUploadTensorRequestFields};
constinit const Node kPrecomputeResponse{kPrecomputeResponseFields};
constinit const Node kStreamPrecomputeResponse{kStreamPrecomputeResponseFields};
constinit const Node kApplyResponse{kApplyResponseFields};
constinit const Node kStreamApplyRequest{kStreamApplyRequestFields};
constinit const Node kStreamApplyResponse{kStreamApplyResponseFields};
constinit const Node kScoresResponse{kScoresResponseFields};

}  // namespace phasor::raw
