// Tensors of a request: shape, strides and storage made to agree.
#ifndef PHASOR_SERVER_TENSOR_PARSER_H_
#define PHASOR_SERVER_TENSOR_PARSER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "phasor/v1/tensor.pb.h"

#include "kernels/core/dtype.h"
#include "proto/raw/payloads.h"
#include "server/item_parser.h"

namespace phasor::server {

// A tensor whose every element lies inside its storage, no two at the same place.
struct ParsedTensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // elements, one per axis; dense when the message has none
  bool dense = true;             // the message has no strides
  int64_t elements = 0;
  int64_t bytes = 0;                   // of the storage; computed from the shape when there is none
  std::span<const raw::Piece> pieces;  // of the context's payloads or stored_piece; empty when the storage is, or is absent
  std::string uploaded;                // the SHA-256, 32 bytes, of storage that was uploaded; the one piece is all of it
  // Of storage that was uploaded or lies in shared memory; or on a device, where the host must not look.
  std::shared_ptr<const raw::Piece> stored_piece;
};

enum class Storage : uint8_t { kRequired, kOptional };
// Whether the field takes tensors in shared memory, whose bytes the caller may change at any time: only values of operations
// may come from there, nothing that is checked or counts.
enum class Sharing : uint8_t { kRefused, kServed };

// `allowed`: element types that the field takes. Errors are InvalidField, OverLimit, NotServed, UploadNotFound or those of
// ParsePlace below `path`.
absl::StatusOr<ParsedTensor> ParseTensor(const v1::Tensor& message, std::string_view path, std::span<const DType> allowed,
                                         Storage storage, const ParseContext& context, Sharing sharing = Sharing::kRefused);

// All integers of the storage (I32, I64 or BOOL, as they lie there), which may straddle pieces.
std::vector<int64_t> DecodeIntegers(const ParsedTensor& tensor);

// All numbers of the storage (F64 or F32), likewise.
std::vector<double> DecodeFloats(const ParsedTensor& tensor);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_TENSOR_PARSER_H_
