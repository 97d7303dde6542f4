#include "server/tensor_parser.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "kernels/core/checked_math.h"
#include "server/device_access.h"
#include "server/grpc_status.h"
#include "server/region_access.h"
#include "server/upload_store.h"

namespace phasor::server {
namespace {

constexpr size_t kMaxAxes = 8;

std::string At(std::string_view path, std::string_view field) {
  return absl::StrCat(absl::string_view(path.data(), path.size()), ".", absl::string_view(field.data(), field.size()));
}

std::string Text(std::span<const int64_t> numbers) { return absl::StrCat("[", absl::StrJoin(numbers, ", "), "]"); }

std::string DTypeText(DType dtype) { return v1::Dtype_Name(static_cast<v1::Dtype>(dtype)); }

absl::StatusOr<DType> ParseDType(const v1::Tensor& message, std::string_view path, std::span<const DType> allowed) {
  for (DType dtype : allowed) {
    if (static_cast<int>(dtype) == message.dtype()) return dtype;
  }
  const std::string given =
      v1::Dtype_IsValid(message.dtype()) ? v1::Dtype_Name(message.dtype()) : absl::StrCat(static_cast<int>(message.dtype()));
  return InvalidField(At(path, "dtype"), given, absl::StrJoin(allowed, ", ", [](std::string* out, DType dtype) {
                        absl::StrAppend(out, DTypeText(dtype));
                      }));
}

absl::Status ParseShape(const v1::Tensor& message, std::string_view path, const Limits& limits, ParsedTensor* tensor) {
  const std::string field = At(path, "shape");
  if (static_cast<size_t>(message.shape_size()) > kMaxAxes) {
    return InvalidField(field, absl::StrCat(message.shape_size(), " axes"), absl::StrCat("at most ", kMaxAxes));
  }
  tensor->shape.assign(message.shape().begin(), message.shape().end());
  for (size_t axis = 0; axis < tensor->shape.size(); ++axis) {
    if (tensor->shape[axis] < 0) {
      return InvalidField(absl::StrCat(field, "[", axis, "]"), absl::StrCat(tensor->shape[axis]), "0 or more");
    }
  }
  const std::optional<int64_t> elements = CheckedElements(tensor->shape);
  if (!elements || *elements >= int64_t{1} << 40) {
    return InvalidField(field, Text(tensor->shape), "a product below 2^40");
  }
  tensor->elements = *elements;
  return CheckLimit(field, *elements, "max_item_elements", limits.max_item_elements, "elements");
}

std::vector<int64_t> DenseStrides(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return strides;  // nothing to step over; may not fit
  for (size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

// Sets strides and returns how many elements the storage must hold at least.
absl::StatusOr<int64_t> ParseStrides(const v1::Tensor& message, std::string_view path, ParsedTensor* tensor) {
  if (message.strides().empty()) {
    tensor->strides = DenseStrides(tensor->shape);
    return tensor->elements;
  }
  const std::string field = At(path, "strides");
  tensor->dense = false;
  tensor->strides.assign(message.strides().begin(), message.strides().end());
  const size_t axes = tensor->shape.size();
  if (tensor->strides.size() != axes) {
    return InvalidField(field, absl::StrCat(tensor->strides.size(), " entries"),
                        absl::StrCat(axes, " entries, one per axis"));
  }
  for (size_t axis = 0; axis < axes; ++axis) {
    if (tensor->strides[axis] < 0) {
      return InvalidField(absl::StrCat(field, "[", axis, "]"), absl::StrCat(tensor->strides[axis]), "0 or more");
    }
  }
  if (axes > 0 && tensor->strides.back() != 1) {
    return InvalidField(absl::StrCat(field, "[", axes - 1, "]"), absl::StrCat(tensor->strides.back()), "1 (the last axis)");
  }
  if (tensor->elements == 0) return 0;
  // From the innermost axis outwards, each must step over all that lies inside it.
  std::vector<size_t> order(axes);
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return tensor->strides[a] < tensor->strides[b]; });
  int64_t reach = 1;  // elements from the first to one past the last of the axes so far
  for (size_t axis : order) {
    if (tensor->shape[axis] == 1) continue;
    if (tensor->strides[axis] < reach) {
      return InvalidField(absl::StrCat(field, "[", axis, "]"), absl::StrCat(tensor->strides[axis]),
                          absl::StrCat("at least ", reach, ", so that no two elements share a place"));
    }
    const auto steps = CheckedMul(tensor->shape[axis] - 1, tensor->strides[axis]);
    const auto sum = steps ? CheckedAdd(reach, *steps) : std::nullopt;
    if (!sum || *sum >= int64_t{1} << 40) return InvalidField(field, Text(tensor->strides), "a last element below 2^40");
    reach = *sum;
  }
  return reach;
}

// Whether the storage has the size that the shape needs.
absl::Status CheckStorage(std::string_view field, int64_t needed, const ParsedTensor& tensor) {
  if (tensor.dense ? tensor.bytes == needed : tensor.bytes >= needed) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(tensor.bytes, " bytes"),
                      absl::StrCat(tensor.dense ? "" : "at least ", needed, " bytes for shape ", Text(tensor.shape),
                                   tensor.dense ? "" : absl::StrCat(" with strides ", Text(tensor.strides)), " of ",
                                   DTypeText(tensor.dtype)));
}

// Finds the content that was uploaded.
absl::Status ParseUpload(const v1::Upload& message, const std::string& field, const ParseContext& context,
                         ParsedTensor* tensor) {
  constexpr size_t kHashBytes = 32;
  if (message.sha256().size() != kHashBytes) {
    return InvalidField(absl::StrCat(field, ".sha256"), absl::StrCat(message.sha256().size(), " bytes"), "32 bytes");
  }
  const auto content = context.uploads == nullptr ? nullptr : context.uploads->Find(message.sha256());
  if (content == nullptr) return UploadNotFound(field, message.sha256());
  const auto size = static_cast<size_t>(content->size);
  tensor->stored_piece = std::make_shared<const raw::Piece>(raw::Piece{content, content->data.get(), size});
  tensor->pieces = {tensor->stored_piece.get(), 1};
  tensor->uploaded = content->sha256;
  if (context.uploaded_bytes != nullptr) *context.uploaded_bytes += content->size;
  return absl::OkStatus();
}

void UsePlace(const SharedPlace& place, ParsedTensor* tensor) {
  tensor->bytes = place.size;
  tensor->stored_piece =
      std::make_shared<const raw::Piece>(raw::Piece{place.owner(), place.data(), static_cast<size_t>(place.size)});
  tensor->pieces = {tensor->stored_piece.get(), 1};
}

// Finds the place in shared memory.
absl::Status ParseShared(const v1::SharedMemory& message, const std::string& field, const ParseContext& context,
                         Sharing sharing, ParsedTensor* tensor) {
  if (sharing == Sharing::kRefused) return NotServed(field, "shared memory for anything but tensors of Apply");
  const absl::StatusOr<SharedPlace> place = ParsePlace(message, field, PlaceUse::kRead, context.regions);
  if (!place.ok()) return place.status();
  UsePlace(*place, tensor);
  return absl::OkStatus();
}

// The same on a device.
absl::Status ParseOnDevice(const v1::DeviceMemory& message, const std::string& field, const ParseContext& context,
                           Sharing sharing, ParsedTensor* tensor) {
  if (sharing == Sharing::kRefused) return NotServed(field, "device memory for anything but tensors of Apply");
  const absl::StatusOr<SharedPlace> place = ParseDevicePlace(message, field, context.regions);
  if (!place.ok()) return place.status();
  UsePlace(*place, tensor);
  return absl::OkStatus();
}

absl::Status ParseStorage(const v1::Tensor& message, std::string_view path, int64_t extent, Storage storage,
                          const ParseContext& context, Sharing sharing, ParsedTensor* tensor) {
  const int64_t needed = extent * SizeOf(tensor->dtype);  // extent < 2^40
  tensor->bytes = needed;
  std::string field = At(path, "data");
  switch (message.storage_case()) {
    case v1::Tensor::kSharedMemory:
      field = At(path, "shared_memory");
      if (auto status = ParseShared(message.shared_memory(), field, context, sharing, tensor); !status.ok()) return status;
      return CheckStorage(absl::StrCat(field, ".size_bytes"), needed, *tensor);
    case v1::Tensor::kDevice:
      field = At(path, "device");
      if (auto status = ParseOnDevice(message.device(), field, context, sharing, tensor); !status.ok()) return status;
      return CheckStorage(absl::StrCat(field, ".size_bytes"), needed, *tensor);
    case v1::Tensor::kUpload:
      field = At(path, "upload");
      if (auto status = ParseUpload(message.upload(), field, context, tensor); !status.ok()) return status;
      tensor->bytes = static_cast<int64_t>(tensor->stored_piece->size);
      return CheckStorage(field, needed, *tensor);
    case v1::Tensor::STORAGE_NOT_SET:
      if (storage == Storage::kOptional) return absl::OkStatus();
      return InvalidField(field, "nothing", absl::StrCat(needed, " bytes"));
    case v1::Tensor::kData:
      break;
  }
  const auto size = context.payloads.SizeOf(message.data());
  const auto pieces = context.payloads.Find(message.data());
  if (!size || !pieces) return absl::InternalError("a tensor whose payload was not cut");
  tensor->bytes = *size;
  tensor->pieces = *pieces;
  return CheckStorage(field, needed, *tensor);
}

int64_t Integer(const std::byte* bytes, DType dtype) {
  switch (dtype) {
    case DType::kI32: {
      int32_t value;
      std::memcpy(&value, bytes, sizeof(value));
      return value;
    }
    case DType::kI64: {
      int64_t value;
      std::memcpy(&value, bytes, sizeof(value));
      return value;
    }
    default:
      return static_cast<uint8_t>(*bytes);
  }
}

double Float(const std::byte* bytes, DType dtype) {
  if (dtype == DType::kF64) {
    double value;
    std::memcpy(&value, bytes, sizeof(value));
    return value;
  }
  float value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

// Every element of the storage by `read`; elements may straddle pieces.
template <typename T>
std::vector<T> Decode(const ParsedTensor& tensor, T (*read)(const std::byte* bytes, DType dtype)) {
  const size_t width = static_cast<size_t>(SizeOf(tensor.dtype));
  std::vector<T> values;
  values.reserve(static_cast<size_t>(tensor.bytes) / width);
  std::array<std::byte, 8> carry;  // an element that straddles pieces
  size_t carried = 0;
  for (const raw::Piece& piece : tensor.pieces) {
    size_t at = 0;
    while (at < piece.size) {
      if (carried == 0 && piece.size - at >= width) {
        values.push_back(read(piece.data + at, tensor.dtype));
        at += width;
        continue;
      }
      carry[carried++] = piece.data[at++];
      if (carried < width) continue;
      values.push_back(read(carry.data(), tensor.dtype));
      carried = 0;
    }
  }
  return values;
}

}  // namespace

absl::StatusOr<ParsedTensor> ParseTensor(const v1::Tensor& message, std::string_view path, std::span<const DType> allowed,
                                         Storage storage, const ParseContext& context, Sharing sharing) {
  ParsedTensor tensor;
  const auto dtype = ParseDType(message, path, allowed);
  if (!dtype.ok()) return dtype.status();
  tensor.dtype = *dtype;
  if (auto status = ParseShape(message, path, context.limits, &tensor); !status.ok()) return status;
  const auto extent = ParseStrides(message, path, &tensor);
  if (!extent.ok()) return extent.status();
  if (auto status = ParseStorage(message, path, *extent, storage, context, sharing, &tensor); !status.ok()) return status;
  if (auto status = CheckLimit(At(path, "data"), tensor.bytes, "max_item_bytes", context.limits.max_item_bytes, "bytes");
      !status.ok()) {
    return status;
  }
  return tensor;
}

std::vector<int64_t> DecodeIntegers(const ParsedTensor& tensor) { return Decode(tensor, &Integer); }

std::vector<double> DecodeFloats(const ParsedTensor& tensor) { return Decode(tensor, &Float); }

}  // namespace phasor::server
