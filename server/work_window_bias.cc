// Bias windows of schemes over windows of an image, and of learned functions of positions.
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "kernels/core/checked_math.h"
#include "kernels/program/window_bias.h"
#include "server/grpc_status.h"
#include "server/work_parsers.h"

namespace phasor::server {
namespace {

// What is asked for, checked. Positions of batch row b are [b·stride, b·stride + queries) of the lists.
struct Window {
  BiasForm form = BiasForm::kFull;
  DType dtype = DType::kF32;
  bool indices = false;
  int64_t batch = 0;  // 0: no batch axis
  int64_t queries = 0, keys = 0;
  int64_t first_head = 0, heads = 0;
  int64_t first_distance = 0;  // of the vector form
  std::vector<int64_t> query_positions, key_positions;
  int64_t query_stride = 0, key_stride = 0;

  int64_t part_bytes() const { return heads * queries * keys * SizeOf(dtype); }
  BiasPart Part(int64_t batch_row, void* out) const {
    BiasPart part{.dtype = dtype, .first_head = first_head, .heads = heads, .batch_row = batch_row, .out = out};
    const auto rows = [batch_row](const std::vector<int64_t>& all, int64_t stride, int64_t count) {
      return std::span<const int64_t>(all).subspan(static_cast<size_t>(batch_row * stride), static_cast<size_t>(count));
    };
    if (!query_positions.empty()) part.query_positions = rows(query_positions, query_stride, queries);
    if (!key_positions.empty()) part.key_positions = rows(key_positions, key_stride, keys);
    return part;
  }
};

class WindowBiasWork final : public Work {
 public:
  explicit WindowBiasWork(Window window) : window_(std::move(window)) {}

  absl::StatusOr<std::vector<ProgramStep>> Steps(std::span<const Resolved* const> plans,
                                                 const WorkMemory& memory) const override {
    std::vector<ProgramStep> steps;
    const Plan& plan = plans[0]->plan;
    std::byte* out = memory.outputs[0];
    if (window_.indices) {
      const auto& window = std::get<WindowBiasPlan>(plan).window;
      AppendWindowIndexSteps(window, window_.dtype, out, memory.scratch, &steps);
    } else if (window_.form == BiasForm::kVector) {
      AppendBiasVectorSteps(plan, window_.dtype, window_.first_head, window_.heads, window_.first_distance,
                            window_.queries + window_.keys - 1, out, memory.scratch, &steps);
    } else {
      for (int64_t b = 0; b < std::max<int64_t>(window_.batch, 1); ++b) {
        AppendBiasSteps(plan, window_.Part(b, out + b * window_.part_bytes()), memory.scratch, &steps);
      }
    }
    return steps;
  }

 private:
  const Window window_;
};

class Parser {
 public:
  Parser(const v1::PrecomputeItem& item, const TableSource& source, const BiasTraits& traits, ParseContext& context)
      : item_(item), message_(item.bias()), source_(source), traits_(traits), limits_(context.limits) {}

  ParsedWork Parse() {
    absl::Status status = ParseForm();
    if (status.ok()) status = ParseType();
    if (status.ok()) status = ParseHeads();
    if (status.ok()) status = traits_.tokens > 0 ? ParseTokens() : ParsePlaces();
    if (status.ok()) status = CheckRows();
    if (!status.ok()) return status;
    return Finish();
  }

 private:
  std::string Scheme() const { return std::string(SchemeOf(source_.spec.spec).name); }

  absl::Status ParseForm() {
    if (auto status = CheckEnum("bias.form", message_.form(), v1::BiasForm_descriptor()); !status.ok()) return status;
    window_.indices = message_.indices();
    if (window_.indices && traits_.tokens == 0) {
      return InvalidField("bias.indices", absl::StrCat("indices of ", Scheme()), "unset: the scheme reads no table by rows");
    }
    if (!window_.indices && traits_.indices_only) {
      return InvalidField("spec.weights", "no table", "table, or bias.indices: without it there are only indices");
    }
    if (message_.has_query_positions()) return NotServed("bias.query_positions", "positions of queries");
    if (message_.has_key_positions()) return NotServed("bias.key_positions", "positions of keys");
    if (message_.has_masking()) return NotServed("bias.masking", "masks");
    if (message_.form() == v1::BIAS_FORM_UNSPECIFIED) {
      window_.form = traits_.by_distance ? BiasForm::kVector : BiasForm::kFull;
      return absl::OkStatus();
    }
    window_.form = static_cast<BiasForm>(message_.form());
    if (window_.form == BiasForm::kVector && !traits_.by_distance) {
      return InvalidField("bias.form", "BIAS_FORM_VECTOR",
                          absl::StrCat("BIAS_FORM_FULL", traits_.tokens > 0 ? "" : ", BIAS_FORM_ROW",
                                       ": the bias is no function of the distance"));
    }
    if (window_.form == BiasForm::kRow && traits_.tokens > 0) {
      return InvalidField("bias.form", "BIAS_FORM_ROW", "BIAS_FORM_FULL: every token of a window has its own row");
    }
    return absl::OkStatus();
  }

  absl::Status ParseType() {
    const v1::Dtype dtype = item_.dtype();
    const auto in = [&](v1::Dtype first, v1::Dtype last) { return dtype >= first && dtype <= last; };
    if (dtype == v1::DTYPE_UNSPECIFIED) {
      window_.dtype = window_.indices ? DType::kI64 : DType::kF32;
    } else if (window_.indices ? in(v1::DTYPE_I32, v1::DTYPE_I64) : in(v1::DTYPE_F64, v1::DTYPE_BF16)) {
      window_.dtype = static_cast<DType>(dtype);
    } else {
      const std::string given = v1::Dtype_IsValid(dtype) ? v1::Dtype_Name(dtype) : absl::StrCat(static_cast<int>(dtype));
      return InvalidField("dtype", given,
                          window_.indices ? "DTYPE_I64, DTYPE_I32" : "DTYPE_F64, DTYPE_F32, DTYPE_F16, DTYPE_BF16");
    }
    return absl::OkStatus();
  }

  absl::Status ParseHeads() {
    window_.first_head = message_.first_head();
    if (window_.first_head < 0 || window_.first_head >= traits_.heads) {
      return InvalidField("bias.first_head", absl::StrCat(window_.first_head), absl::StrCat("0 … ", traits_.heads - 1));
    }
    const int64_t left = traits_.heads - window_.first_head;
    window_.heads = message_.has_head_count() ? message_.head_count() : left;
    if (window_.heads < 1 || window_.heads > left) {
      return InvalidField("bias.head_count", absl::StrCat(window_.heads), absl::StrCat("1 … ", left));
    }
    if (window_.indices) window_.heads = 1;
    return CheckLimit("bias.head_count", window_.heads, "max_heads", limits_.max_heads, "heads");
  }

  // Queries and keys are the tokens of the window.
  absl::Status ParseTokens() {
    window_.queries = window_.keys = traits_.tokens;
    for (const auto& [field, given] :
         {std::pair("bias.queries", message_.queries()), std::pair("bias.keys", message_.keys())}) {
      if (given != traits_.tokens) {
        return InvalidField(field, given == 0 ? "nothing" : absl::StrCat(given),
                            absl::StrCat(traits_.tokens, ", the tokens of the window"));
      }
    }
    if (message_.query_offset() != 0) {
      return InvalidField("bias.query_offset", absl::StrCat(message_.query_offset()), "0: queries and keys are one window");
    }
    return CheckLimit("bias.queries", window_.queries, "max_positions", limits_.max_positions, "positions");
  }

  absl::Status CheckAxis(std::string_view field, int64_t extent) const {
    if (extent < 1) return InvalidField(field, extent == 0 ? "nothing" : absl::StrCat(extent), "1 or more");
    return CheckLimit(field, extent, "max_positions", limits_.max_positions, "positions");
  }

  // Consecutive positions: queries from query_offset on, keys from 0 on.
  absl::Status ParsePlaces() {
    window_.queries = message_.queries();
    window_.keys = message_.keys();
    if (auto status = CheckAxis("bias.queries", window_.queries); !status.ok()) return status;
    if (auto status = CheckAxis("bias.keys", window_.keys); !status.ok()) return status;
    if (window_.keys - 1 > limits_.max_position) {
      return OverLimit("bias.keys", window_.keys - 1, "max_position", limits_.max_position, "as the last key's position");
    }
    int64_t offset = message_.has_query_offset() ? message_.query_offset() : window_.keys - window_.queries;
    const int64_t lowest = -limits_.max_position;
    const int64_t highest = limits_.max_position - (window_.queries - 1);
    if (offset < lowest || offset > highest) {
      return InvalidField("bias.query_offset", absl::StrCat(offset),
                          absl::StrCat(lowest, " … ", highest, " (the server's max_position)"));
    }
    window_.first_distance = -(offset + window_.queries - 1);
    if (window_.form == BiasForm::kVector) return absl::OkStatus();
    if (window_.form == BiasForm::kRow) {
      offset += window_.queries - 1;
      window_.queries = 1;
    }
    window_.query_positions.resize(static_cast<size_t>(window_.queries));
    window_.key_positions.resize(static_cast<size_t>(window_.keys));
    std::iota(window_.query_positions.begin(), window_.query_positions.end(), offset);
    std::iota(window_.key_positions.begin(), window_.key_positions.end(), int64_t{0});
    return absl::OkStatus();
  }

  // Where positions are rows of a weight, they must be there.
  absl::Status CheckRows() const {
    for (int64_t position : window_.query_positions) {
      if (traits_.query_rows == 0) break;
      if (position < 0 || position >= traits_.query_rows) {
        return InvalidField("bias.query_offset", absl::StrCat("a query at position ", position),
                            absl::StrCat("0 … ", traits_.query_rows - 1, ", the positions that the weights have"));
      }
    }
    for (int64_t position : window_.key_positions) {
      if (traits_.key_rows == 0) break;
      if (position < 0 || position >= traits_.key_rows) {
        return InvalidField("bias.keys", absl::StrCat("a key at position ", position),
                            absl::StrCat("0 … ", traits_.key_rows - 1, ", the positions that the weights have"));
      }
    }
    return absl::OkStatus();
  }

  std::vector<int64_t> Shape() const {
    if (window_.indices) return {window_.queries, window_.keys};
    if (window_.form == BiasForm::kVector) return {window_.heads, window_.queries + window_.keys - 1};
    if (window_.form == BiasForm::kRow && window_.batch == 0) return {window_.heads, window_.keys};
    if (window_.form == BiasForm::kRow) return {window_.batch, window_.heads, window_.keys};
    if (window_.batch == 0) return {window_.heads, window_.queries, window_.keys};
    return {window_.batch, window_.heads, window_.queries, window_.keys};
  }

  ParsedWork Finish() {
    window_.batch = window_.indices ? 0 : traits_.batch;
    const int64_t batch = std::max<int64_t>(window_.batch, 1);
    const int64_t columns = window_.form == BiasForm::kVector ? 1 : window_.keys;
    const int64_t rows = window_.form == BiasForm::kVector ? window_.queries + window_.keys - 1 : window_.queries;
    const auto elements = CountElements("bias", {batch, window_.heads, rows, columns}, limits_);
    if (!elements.ok()) return elements.status();
    const int64_t bytes = *elements * SizeOf(window_.dtype);
    // Before scratch is counted, which is of the same order.
    if (auto status = CheckLimit("bias", bytes, "max_item_bytes", limits_.max_item_bytes, "bytes of answer"); !status.ok()) {
      return status;
    }
    auto work = std::make_shared<WindowBiasWork>(window_);
    work->sources = {source_};
    work->outputs = {
        WorkArray{.slot = Slot::kBias, .dtype = window_.dtype, .shape = Shape(), .strides = {}, .bytes = bytes}};
    work->scratch_bytes = ScratchBytes();
    work->key = Key();
    return work;
  }

  int64_t ScratchBytes() const {
    const EncodingSpec& spec = source_.spec.spec;
    if (window_.indices) return BiasScratchBytes(spec, window_.dtype, 1, 1, 1);
    if (window_.form == BiasForm::kVector) {
      return BiasScratchBytes(spec, window_.dtype, window_.heads, 1, window_.queries + window_.keys - 1);
    }
    return BiasScratchBytes(spec, window_.dtype, window_.heads, window_.queries, window_.keys);
  }

  // Shapes and the plan say the rest.
  std::string Key() const {
    std::string key = absl::StrCat("window-bias ", window_.indices ? 1 : 0, " ", static_cast<int>(window_.form), " ",
                                   window_.first_head, " ", window_.first_distance, ":");
    for (int64_t position : window_.query_positions) absl::StrAppend(&key, position, ",");
    absl::StrAppend(&key, ":");
    for (int64_t position : window_.key_positions) absl::StrAppend(&key, position, ",");
    return key;
  }

  const v1::PrecomputeItem& item_;
  const v1::BiasWindow& message_;
  const TableSource& source_;
  const BiasTraits& traits_;
  const Limits& limits_;
  Window window_;
};

}  // namespace

ParsedWork ParseWindowBiasWork(const v1::PrecomputeItem& message, const TableSource& source, ParseContext& context) {
  const std::optional<BiasTraits> traits = TraitsOf(source.spec.spec);
  if (!traits) return nullptr;
  return Parser(message, source, *traits, context).Parse();
}

}  // namespace phasor::server
