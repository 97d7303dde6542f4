#include "server/masking_parser.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "kernels/core/narrow.h"
#include "server/additive_check.h"
#include "server/fingerprint.h"
#include "server/grpc_status.h"
#include "server/tensor_parser.h"

namespace phasor::server {
namespace {

constexpr std::array kPaddingTypes = {DType::kBool, DType::kI32, DType::kI64};
constexpr std::array kAdditiveTypes = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16};

std::string At(std::string_view path, std::string_view field) { return std::string(path).append(".").append(field); }

std::string Text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) absl::StrAppend(&text, i == 0 ? "" : ", ", shape[i]);
  return absl::StrCat(text, "]");
}

class MaskingParser {
 public:
  MaskingParser(std::string_view path, const MaskedShape& shape, const ParseContext& context)
      : path_(path), shape_(shape), context_(context) {}

  absl::StatusOr<ParsedMasking> Parse(const v1::Masking& m) {
    Masking& masking = parsed_.masking;
    masking.causal = m.causal();
    absl::Status status = ParseWindow(m);
    if (status.ok()) status = ParsePrefix(m);
    if (status.ok()) status = ParsePacking(m);
    if (status.ok() && m.has_key_padding()) status = ParsePadding(m.key_padding());
    if (status.ok() && m.has_additive()) status = ParseAdditive(m.additive());
    if (status.ok()) status = ParseValues(m);
    if (!status.ok()) return status;
    Simplify();
    if (!masking.empty()) parsed_.key = KeyOf(KeyForm()) + additive_digest_;
    return std::move(parsed_);
  }

 private:
  std::string Path(std::string_view field) const { return At(path_, field); }

  absl::Status ParseWindow(const v1::Masking& m) {
    const auto positive = [&](std::string_view field, int64_t value, std::optional<int64_t>* out) -> absl::Status {
      if (value < 1) return InvalidField(Path(field), absl::StrCat(value), "1 or more");
      *out = value;
      return absl::OkStatus();
    };
    Masking& masking = parsed_.masking;
    absl::Status status;
    if (m.has_sliding_window()) status = positive("sliding_window", m.sliding_window(), &masking.window_before);
    if (status.ok() && m.has_sliding_window_after()) {
      status = positive("sliding_window_after", m.sliding_window_after(), &masking.window_after);
    }
    if (status.ok() && m.has_chunk_size()) status = positive("chunk_size", m.chunk_size(), &masking.chunk);
    if (!status.ok()) return status;
    // Nothing lies after a causal query.
    if (masking.causal) {
      masking.window_after.reset();
    } else if (!masking.window_after) {
      masking.window_after = masking.window_before;
    }
    return absl::OkStatus();
  }

  absl::Status ParsePrefix(const v1::Masking& m) {
    for (int i = 0; i < m.prefix_size(); ++i) {
      if (m.prefix(i) < 0)
        return InvalidField(absl::StrCat(Path("prefix"), "[", i, "]"), absl::StrCat(m.prefix(i)), "0 or more");
    }
    parsed_.masking.prefix.assign(m.prefix().begin(), m.prefix().end());
    return absl::OkStatus();
  }

  // What changes nothing is left out, so that one request has one form.
  void Simplify() {
    Masking& masking = parsed_.masking;
    const auto all = [](const auto& list, int64_t value) {
      return std::all_of(list.begin(), list.end(), [value](int64_t entry) { return entry == value; });
    };
    const bool excepts = masking.causal || masking.window_before || masking.window_after;
    if (!excepts || all(masking.prefix, 0)) masking.prefix.clear();
    if (all(masking.key_padding, 1)) {
      masking.key_padding.clear();
      masking.key_padding_batch_stride = 0;
    }
  }

  // With the strides that the additive tensor would have without gaps, which its digest is of.
  Masking KeyForm() const {
    Masking form = parsed_.masking;
    if (form.additive_query_stride != 0) form.additive_query_stride = shape_.keys;
    if (form.additive_head_stride != 0) form.additive_head_stride = shape_.queries * shape_.keys;
    if (form.additive_batch_stride != 0) {
      form.additive_batch_stride = shape_.queries * shape_.keys * (form.additive_head_stride != 0 ? shape_.heads : 1);
    }
    return form;
  }

  absl::StatusOr<std::vector<int64_t>> ParseLengths(const google::protobuf::RepeatedField<int64_t>& field,
                                                    std::string_view name, int64_t end, const char* unit) const {
    std::vector<int64_t> lengths(field.begin(), field.end());
    const std::string path = Path(name);
    if (lengths.size() < 2) return InvalidField(path, absl::StrCat(lengths.size(), " entries"), "2 or more");
    for (size_t i = 0; i < lengths.size(); ++i) {
      const int64_t before = i == 0 ? 0 : lengths[i - 1];
      if (i == 0 ? lengths[i] != 0 : lengths[i] < before) {
        return InvalidField(absl::StrCat(path, "[", i, "]"), absl::StrCat(lengths[i]),
                            i == 0 ? "0" : absl::StrCat("at least ", before, ", the entry before"));
      }
    }
    if (lengths.back() != end) {
      return InvalidField(absl::StrCat(path, "[", lengths.size() - 1, "]"), absl::StrCat(lengths.back()),
                          absl::StrCat(end, ", the number of ", unit));
    }
    return lengths;
  }

  absl::Status ParsePacking(const v1::Masking& m) {
    if (m.query_cu_seqlens().empty()) {
      if (m.key_cu_seqlens().empty()) return absl::OkStatus();
      return InvalidField(Path("key_cu_seqlens"), "lengths without query_cu_seqlens", "both, or query_cu_seqlens alone");
    }
    auto queries = ParseLengths(m.query_cu_seqlens(), "query_cu_seqlens", shape_.queries, "queries");
    if (!queries.ok()) return queries.status();
    // Left out, keys are packed as queries are; an error then names the field that was given.
    const bool same = m.key_cu_seqlens().empty();
    auto keys =
        same ? ParseLengths(m.query_cu_seqlens(), "query_cu_seqlens", shape_.keys, "keys, as there is no key_cu_seqlens")
             : ParseLengths(m.key_cu_seqlens(), "key_cu_seqlens", shape_.keys, "keys");
    if (!keys.ok()) return keys.status();
    if (keys->size() != queries->size()) {
      return InvalidField(Path("key_cu_seqlens"), absl::StrCat(keys->size(), " entries"),
                          absl::StrCat(queries->size(), ", as query_cu_seqlens has"));
    }
    parsed_.masking.query_cu_seqlens = *std::move(queries);
    parsed_.masking.key_cu_seqlens = *std::move(keys);
    return absl::OkStatus();
  }

  absl::Status ParsePadding(const v1::Tensor& message) {
    const std::string path = Path("key_padding");
    const auto tensor = ParseTensor(message, path, kPaddingTypes, Storage::kRequired, context_);
    if (!tensor.ok()) return tensor.status();
    const size_t axes = tensor->shape.size();
    if (axes < 1 || axes > 2 || tensor->shape.back() != shape_.keys) {
      return InvalidField(At(path, "shape"), Text(tensor->shape),
                          absl::StrCat("[", shape_.keys, "] or [batch, ", shape_.keys, "]"));
    }
    const int64_t stored = tensor->bytes / SizeOf(tensor->dtype);
    if (auto status = CheckLimit(path, stored, "max_positions", context_.limits.max_positions, "keys"); !status.ok()) {
      return status;
    }
    const std::vector<int64_t> values = DecodeIntegers(*tensor);
    const int64_t rows = axes == 2 ? tensor->shape[0] : 1;
    Masking& masking = parsed_.masking;
    masking.key_padding.resize(static_cast<size_t>(tensor->elements));
    masking.key_padding_batch_stride = axes == 2 ? shape_.keys : 0;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t key = 0; key < shape_.keys; ++key) {
        const int64_t stride = axes == 2 ? tensor->strides[0] : 0;
        const int64_t value = values[static_cast<size_t>(row * stride + key)];
        if (value != 0 && value != 1) {
          return InvalidField(absl::StrCat(path, "[", axes == 2 ? absl::StrCat(row, ", ") : "", key, "]"),
                              absl::StrCat(value), "0 or 1");
        }
        masking.key_padding[static_cast<size_t>(row * shape_.keys + key)] = static_cast<uint8_t>(value);
      }
    }
    return absl::OkStatus();
  }

  absl::Status ParseAdditive(const v1::Tensor& message) {
    const std::string path = Path("additive");
    const auto tensor = ParseTensor(message, path, kAdditiveTypes, Storage::kRequired, context_);
    if (!tensor.ok()) return tensor.status();
    const std::vector<int64_t>& shape = tensor->shape;
    const size_t axes = shape.size();
    const bool fits = axes >= 2 && axes <= 4 && shape[axes - 1] == shape_.keys && shape[axes - 2] == shape_.queries &&
                      (axes < 3 || shape[axes - 3] == shape_.heads || (axes == 4 && shape[1] == 1));
    if (!fits) {
      const std::string last = absl::StrCat(shape_.queries, ", ", shape_.keys, "]");
      return InvalidField(
          At(path, "shape"), Text(shape),
          absl::StrCat("[", last, ", [", shape_.heads, ", ", last, " or [batch, 1 or ", shape_.heads, ", ", last));
    }
    std::string storage;
    const std::vector<std::string_view> parts = PartsInOrder(*tensor, &storage);
    if (absl::Status status = CheckAdditive(*tensor, parts, path); !status.ok()) return status;
    Masking& masking = parsed_.masking;
    masking.additive = tensor->dtype;
    const auto stride = [&](size_t from_the_end) {
      return axes >= from_the_end && shape[axes - from_the_end] != 1 ? tensor->strides[axes - from_the_end] : 0;
    };
    masking.additive_query_stride = stride(2);
    masking.additive_head_stride = stride(3);
    masking.additive_batch_stride = stride(4);
    WorkInput input;
    input.bytes = tensor->bytes;
    for (const raw::Piece& piece : tensor->pieces) {
      input.payload.push_back({piece.owner, piece.data, static_cast<int64_t>(piece.size)});
    }
    parsed_.additive = std::move(input);
    additive_digest_ = Sha256(parts);
    return absl::OkStatus();
  }

  absl::Status ParseValues(const v1::Masking& m) {
    if (auto status = CheckEnum(Path("fully_masked"), m.fully_masked(), v1::MaskedRow_descriptor()); !status.ok())
      return status;
    parsed_.masking.lowest_finite_rows = m.fully_masked() == v1::MASKED_ROW_LOWEST_FINITE;
    if (!m.has_masked_value()) return absl::OkStatus();
    if (!std::isfinite(m.masked_value())) {
      return InvalidField(Path("masked_value"), absl::StrCat(m.masked_value()), "a finite number");
    }
    if (OverflowsType(m.masked_value())) {
      return InvalidField(Path("masked_value"), absl::StrCat(m.masked_value()),
                          absl::StrCat("a number that the answer's type, ", std::string(Name(shape_.dtype)), ", holds"));
    }
    parsed_.masking.masked_value = m.masked_value() + 0.0;
    return absl::OkStatus();
  }

  // Whether rounding to the answer's type makes an infinity of `value`.
  bool OverflowsType(double value) const {
    return VisitFloat(shape_.dtype, [value](auto tag) {
      using T = typename decltype(tag)::type;
      return std::isinf(Widen<double>(Narrow<T>(value)));
    });
  }

  const std::string path_;
  const MaskedShape& shape_;
  const ParseContext& context_;
  ParsedMasking parsed_;
  std::string additive_digest_;
};

}  // namespace

absl::Status BatchAxis::Join(std::string_view field, int64_t extent) {
  if (extent < 1) return InvalidField(field, absl::StrCat("a batch of ", extent), "1 or more");
  if (!extent_) {
    extent_ = extent;
    field_ = field;
  }
  if (extent == *extent_) return absl::OkStatus();
  return InvalidField(field, absl::StrCat("a batch of ", extent), absl::StrCat("a batch of ", *extent_, ", as in ", field_));
}

absl::Status JoinBatchOf(const v1::Masking& message, std::string_view path, BatchAxis& batch) {
  absl::Status status;
  if (message.prefix_size() > 1) status = batch.Join(At(path, "prefix"), message.prefix_size());
  if (status.ok() && message.key_padding().shape_size() == 2) {
    status = batch.Join(At(path, "key_padding.shape[0]"), message.key_padding().shape(0));
  }
  if (status.ok() && message.additive().shape_size() == 4) {
    status = batch.Join(At(path, "additive.shape[0]"), message.additive().shape(0));
  }
  return status;
}

absl::StatusOr<ParsedMasking> ParseMasking(const v1::Masking& message, std::string_view path, const MaskedShape& shape,
                                           const ParseContext& context) {
  return MaskingParser(path, shape, context).Parse(message);
}

std::vector<int64_t> PackedPlaces(const std::vector<int64_t>& ends, const std::vector<int64_t>& key_ends, bool in_pack) {
  std::vector<int64_t> places;
  for (size_t s = 0; s + 1 < ends.size(); ++s) {
    const int64_t length = ends[s + 1] - ends[s];
    const int64_t first = (in_pack ? key_ends[s] : 0) + key_ends[s + 1] - key_ends[s] - length;
    for (int64_t i = 0; i < length; ++i) places.push_back(first + i);
  }
  return places;
}

}  // namespace phasor::server
