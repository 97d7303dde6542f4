// Attention scores: what an item asks for, checked, as Work.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "kernels/core/checked_math.h"
#include "kernels/program/scores.h"
#include "server/apply_tensors.h"
#include "server/bias_parser.h"
#include "server/grpc_status.h"
#include "server/masking_parser.h"
#include "server/positions_parser.h"
#include "server/query_scale_parser.h"
#include "server/scores_key.h"
#include "server/spec_weights.h"
#include "server/tensor_parser.h"
#include "server/work_parsers.h"

namespace phasor::server {
namespace {

constexpr std::array kTensorTypes = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16};

class ScoresWork final : public Work {
 public:
  explicit ScoresWork(ScoreProgram made) : program(std::move(made)) {}

  ScoreProgram program;
  HeadVectors q_layout, k_layout;
  bool has_additive = false;

  absl::StatusOr<std::vector<ProgramStep>> Steps(std::span<const Resolved* const> plans,
                                                 const WorkMemory& memory) const override {
    ScoreMemory where;
    where.q = memory.inputs[0];
    where.k = memory.inputs[1];
    where.q_layout = q_layout;
    where.k_layout = k_layout;
    where.additive = has_additive ? memory.inputs[2] : nullptr;
    where.scratch = memory.scratch;
    where.scores = memory.outputs[0];
    where.values = memory.outputs.size() > 1 ? memory.outputs[1] : nullptr;
    return program.Steps(plans, where);
  }
};

// q or k.
struct Side {
  DType dtype = DType::kF32;
  int64_t batch = 0, tokens = 0, heads = 0, dim = 0;
  HeadVectors layout;
  WorkInput input;
};

Chunks ToChunks(std::span<const raw::Piece> pieces) {
  Chunks chunks;
  chunks.reserve(pieces.size());
  for (const raw::Piece& piece : pieces) chunks.push_back({piece.owner, piece.data, static_cast<int64_t>(piece.size)});
  return chunks;
}

absl::StatusOr<Side> ParseSide(const v1::Tensor& message, const std::string& path, const HeadAxes& axes,
                               const ParseContext& context) {
  auto parsed =
      ParseTensor(message, path, kTensorTypes, context.validate_only ? Storage::kOptional : Storage::kRequired, context);
  if (!parsed.ok()) return parsed.status();
  if (parsed->shape.size() != axes.rank) {
    return InvalidField(path + ".shape", absl::StrCat(parsed->shape.size(), " axes"),
                        absl::StrCat(axes.rank, " axes ", std::string(axes.letters)));
  }
  const size_t batch = static_cast<size_t>(axes.batch), heads = static_cast<size_t>(axes.heads);
  Side side;
  side.dtype = parsed->dtype;
  side.batch = parsed->shape[batch];
  side.tokens = parsed->shape[axes.sequence];
  side.heads = parsed->shape[heads];
  side.dim = parsed->shape[3];
  side.layout = {parsed->dtype, nullptr, parsed->strides[batch], parsed->strides[axes.sequence], parsed->strides[heads]};
  side.input.bytes = parsed->bytes;
  if (!context.validate_only) side.input.payload = ToChunks(parsed->pieces);
  const std::string at = absl::StrCat(path, ".shape[", heads, "]");
  if (auto status = CheckLimit(at, side.heads, "max_heads", context.limits.max_heads, "heads"); !status.ok()) return status;
  return side;
}

absl::Status CheckAgree(std::string_view field, int64_t given, int64_t of_q) {
  if (given == of_q) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(given), absl::StrCat(of_q, ", as q has"));
}

// Weights have their place in the message, not their name: "terms[1].weights[0].tensor.shape".
std::string FieldOfItem(const v1::ScoresItem& message, const std::string& field) {
  const size_t dot = field.find(".weights.");
  if (dot == std::string::npos) return field;
  const auto place = [&](const v1::EncodingSpec& spec) {
    return absl::StrCat(field.substr(0, dot + 1), WeightPath(spec, field.substr(dot + 1)));
  };
  for (const auto& [name, specs] : {std::pair("terms", &message.terms()), std::pair("biases", &message.biases())}) {
    for (int i = 0; i < specs->size(); ++i) {
      if (field.substr(0, dot) == absl::StrCat(name, "[", i, "]")) return place(specs->Get(i));
    }
  }
  return field;
}

// Other paths of the program's errors are those of the item already.
absl::Status FromProgram(const v1::ScoresItem& message, const absl::Status& status) {
  const auto error = SpecErrorOf(status);
  return error ? InvalidField(FieldOfItem(message, error->field), error->given, error->allowed) : status;
}

class ScoresParser {
 public:
  ScoresParser(const v1::ScoresItem& message, ParseContext& context) : message_(message), context_(context) {}

  ParsedWork Parse(double* scale) {
    for (const auto step : {&ScoresParser::ParseTensors, &ScoresParser::ParseEnums, &ScoresParser::ParseBothPositions,
                            &ScoresParser::ParseSpecs, &ScoresParser::ParseMasks}) {
      if (absl::Status status = (this->*step)(); !status.ok()) return status;
    }
    settings_.omit_content = message_.omit_content();
    settings_.softmax = message_.softmax();
    settings_.first_head = message_.first_head();
    settings_.max_elements = context_.limits.max_score_elements;
    absl::StatusOr<ScoreProgram> program = ScoreProgram::Make(std::move(settings_));
    if (!program.ok()) return FromProgram(message_, program.status());
    absl::StatusOr<double> multiplier = Multiplier();
    if (!multiplier.ok()) return multiplier.status();
    multiplier_ = *multiplier;
    *scale = program->ScaleWith(multiplier_);
    return Finish(*std::move(program));
  }

 private:
  absl::Status ParseTensors() {
    if (auto status = CheckEnum("layout", message_.layout(), v1::Layout_descriptor()); !status.ok()) return status;
    if (message_.layout() > v1::LAYOUT_SBHD) {
      return InvalidField("layout", v1::Layout_Name(message_.layout()), "LAYOUT_BSHD, LAYOUT_BHSD, LAYOUT_SBHD");
    }
    const HeadAxes axes = HeadAxesOf(message_.layout());
    auto q = ParseSide(message_.q(), "q", axes, context_);
    if (!q.ok()) return q.status();
    auto k = ParseSide(message_.k(), "k", axes, context_);
    if (!k.ok()) return k.status();
    q_ = *std::move(q);
    k_ = *std::move(k);
    if (k_.dtype != q_.dtype) {
      return InvalidField("k.dtype", std::string(Name(k_.dtype)), absl::StrCat(std::string(Name(q_.dtype)), ", as q has"));
    }
    absl::Status status = CheckAgree(absl::StrCat("k.shape[", axes.batch, "]"), k_.batch, q_.batch);
    if (status.ok()) status = CheckAgree("k.shape[3]", k_.dim, q_.dim);
    if (status.ok()) status = CheckSize();
    if (!status.ok()) return status;
    settings_.shape = {q_.batch, q_.heads, q_.tokens, k_.tokens, q_.dim};
    settings_.key_heads = k_.heads;
    settings_.tensor_dtype = q_.dtype;
    return absl::OkStatus();
  }

  // Before anything is made: how many scores, and how many tokens.
  absl::Status CheckSize() const {
    constexpr int64_t kMany = int64_t{1} << 62;
    std::optional<int64_t> elements = CheckedMul(q_.batch, q_.heads);
    for (int64_t extent : {q_.tokens, k_.tokens}) elements = elements ? CheckedMul(*elements, extent) : elements;
    const Limits& limits = context_.limits;
    if (auto status =
            CheckLimit("q.shape", elements.value_or(kMany), "max_score_elements", limits.max_score_elements, "scores");
        !status.ok()) {
      return status;
    }
    for (const auto& [field, side] : {std::pair{"q.shape", &q_}, {"k.shape", &k_}}) {
      const int64_t tokens = CheckedMul(side->batch, side->tokens).value_or(kMany);
      if (auto status = CheckLimit(field, tokens, "max_positions", limits.max_positions, "positions (tokens)");
          !status.ok()) {
        return status;
      }
    }
    return absl::OkStatus();
  }

  absl::Status ParseEnums() {
    absl::Status status = CheckEnum("scale_order", message_.scale_order(), v1::ScaleOrder_descriptor());
    if (status.ok()) status = CheckEnum("dtype", message_.dtype(), v1::Dtype_descriptor());
    if (!status.ok()) return status;
    if (message_.scale_order() == v1::SCALE_ORDER_BIAS_THEN_SCALE) settings_.scale_order = ScaleOrder::kBiasThenScale;
    settings_.dtype = message_.dtype() == v1::DTYPE_UNSPECIFIED ? q_.dtype : static_cast<DType>(message_.dtype());
    if (!IsFloat(settings_.dtype)) {
      return InvalidField("dtype", v1::Dtype_Name(message_.dtype()), "DTYPE_F64, DTYPE_F32, DTYPE_F16, DTYPE_BF16");
    }
    if (message_.has_scale()) settings_.scale = message_.scale();
    if (message_.first_head() < 0 || message_.first_head() > context_.limits.max_heads) {
      return InvalidField("first_head", absl::StrCat(message_.first_head()),
                          absl::StrCat("0 … ", context_.limits.max_heads));
    }
    if (!message_.has_query_scale()) return absl::OkStatus();
    auto scale = ParseQueryScale(message_.query_scale(), "query_scale");
    if (!scale.ok()) return scale.status();
    settings_.query_scale = *scale;
    return absl::OkStatus();
  }

  absl::Status ParseBothPositions() {
    if (auto status = ParseSidePositions(message_.has_query_positions(), message_.query_positions(), "query_positions",
                                         q_.tokens, k_.tokens - q_.tokens, &settings_.query_positions);
        !status.ok()) {
      return status;
    }
    return ParseSidePositions(message_.has_key_positions(), message_.key_positions(), "key_positions", k_.tokens, 0,
                              &settings_.key_positions);
  }

  absl::Status ParseSidePositions(bool given, const v1::Positions& message, const char* path, int64_t tokens, int64_t first,
                                  TokenPositions* out) {
    if (!given) {
      out->ids.resize(static_cast<size_t>(tokens));
      for (int64_t i = 0; i < tokens; ++i) out->ids[static_cast<size_t>(i)] = first + i;
      return absl::OkStatus();
    }
    auto parsed = ParsePositions(message, path, Tokens{.batch = q_.batch, .sequence = tokens}, context_);
    if (!parsed.ok()) return parsed.status();
    const PositionSet& set = parsed->set;
    out->per_batch = parsed->per_batch;
    const auto count = static_cast<size_t>(set.count);
    if (set.is_plain()) {
      out->ids.resize(count);
      for (size_t i = 0; i < count; ++i) out->ids[i] = set.at(static_cast<int64_t>(i));
      return absl::OkStatus();
    }
    out->axes.resize(static_cast<size_t>(set.axes()));
    for (size_t axis = 0; axis < out->axes.size(); ++axis) {
      const PositionSource source = set.Source(static_cast<int64_t>(axis));
      out->axes[axis].resize(count);
      for (size_t i = 0; i < count; ++i) out->axes[axis][i] = CoordinateOf(source, static_cast<int64_t>(i)).value;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<EncodingSpec> ParseSpec(const v1::EncodingSpec& message, const std::string& path,
                                         std::optional<int64_t> sequence_length) {
    auto source = ParseSource(message, path, message_.precision(), sequence_length, std::nullopt, context_);
    if (!source.ok()) return source.status();
    EncodingSpec spec = source->spec.spec;
    for (const Note& warning : source->spec.warnings) {
      warnings_.push_back({absl::StrCat(path, ".", warning.field), warning.message});
    }
    sources_.push_back(*std::move(source));
    return spec;
  }

  absl::Status ParseSpecs() {
    std::optional<int64_t> sequence_length;
    if (message_.has_sequence_length()) sequence_length = message_.sequence_length();
    // Also where there is no spec to ask.
    if (auto status = CheckPlanFields(message_.precision(), sequence_length, std::nullopt); !status.ok()) return status;
    settings_.sequence_length = sequence_length;
    if (message_.has_rotation()) {
      auto rotation = ParseSpec(message_.rotation(), "rotation", sequence_length);
      if (!rotation.ok()) return rotation.status();
      settings_.rotation = *std::move(rotation);
    }
    const int64_t most = context_.limits.max_tensors_per_item;
    for (const auto& [specs, out, name] : {std::tuple{&message_.terms(), &settings_.terms, "terms"},
                                           std::tuple{&message_.biases(), &settings_.biases, "biases"}}) {
      if (auto status = CheckLimit(name, specs->size(), "max_tensors_per_item", most, name); !status.ok()) return status;
      for (int i = 0; i < specs->size(); ++i) {
        auto spec = ParseSpec(specs->Get(i), absl::StrCat(name, "[", i, "]"), sequence_length);
        if (!spec.ok()) return spec.status();
        const bool placed = message_.has_query_positions() || message_.has_key_positions();
        if (auto status = CheckFunctionProducts(absl::StrCat(name, "[", i, "]"), *spec, q_.batch, q_.tokens, k_.tokens,
                                                !placed, context_.limits);
            !status.ok()) {
          return status;
        }
        out->push_back(*std::move(spec));
      }
    }
    return absl::OkStatus();
  }

  absl::Status ParseMasks() {
    if (!message_.has_masking()) return absl::OkStatus();
    BatchAxis batch;
    absl::Status status = batch.Join("q.shape", q_.batch);
    if (status.ok()) status = JoinBatchOf(message_.masking(), "masking", batch);
    if (!status.ok()) return status;
    auto masking =
        ParseMasking(message_.masking(), "masking", MaskedShape{settings_.dtype, q_.heads, q_.tokens, k_.tokens}, context_);
    if (!masking.ok()) return masking.status();
    settings_.masking = std::move(masking->masking);
    additive_ = std::move(masking->additive);
    key_ = std::move(masking->key);
    const std::vector<int64_t>& ends = settings_.masking.query_cu_seqlens;
    const std::vector<int64_t>& key_ends = settings_.masking.key_cu_seqlens;
    if (ends.empty()) return absl::OkStatus();
    // Sequences of a pack begin at 0 each, for the rotation, the terms and the biases as for the masks; but weights that
    // have a number for every key of the pack are read where the keys lie in it.
    if (!message_.has_query_positions()) {
      settings_.query_positions.ids = PackedPlaces(ends, key_ends);
      settings_.query_places = PackedPlaces(ends, key_ends, /*in_pack=*/true);
    }
    if (!message_.has_key_positions()) {
      settings_.key_positions.ids = PackedPlaces(key_ends, key_ends);
      settings_.key_places = PackedPlaces(key_ends, key_ends, /*in_pack=*/true);
    }
    return absl::OkStatus();
  }

  // Of the rotation; only YaRN in DeepSeek's form has one.
  absl::StatusOr<double> Multiplier() const {
    if (message_.has_scale() || !message_.has_rotation()) return 1.0;
    const RopeSpec* rope = std::get_if<RopeSpec>(&sources_.front().spec.spec);
    if (rope == nullptr || !std::holds_alternative<YarnSchedule>(rope->schedule)) return 1.0;
    const TableSource& source = sources_.front();
    auto resolved = Resolve(source.spec, source.sequence_length, source.precision);
    if (!resolved.ok()) return resolved.status();
    return resolved->softmax_scale_multiplier.value_or(1);
  }

  ParsedWork Finish(ScoreProgram program) {
    auto work = std::make_shared<ScoresWork>(std::move(program));
    const ScoreSettings& settings = work->program.settings();
    const ScoreShape& shape = settings.shape;
    const auto add_output = [&](Slot slot, int64_t last) {
      WorkArray array;
      array.slot = slot;
      array.dtype = settings.dtype;
      array.shape = {shape.batch, shape.heads, shape.queries, last};
      array.bytes = shape.rows() * last * SizeOf(settings.dtype);
      work->outputs.push_back(std::move(array));
    };
    add_output(Slot::kScores, shape.keys);
    if (work->program.has_values()) add_output(Slot::kValues, shape.dim);
    work->sources = std::move(sources_);
    work->warnings = std::move(warnings_);
    work->inputs.push_back(std::move(q_.input));
    work->inputs.push_back(std::move(k_.input));
    if (additive_) work->inputs.push_back(*std::move(additive_));
    work->has_additive = additive_.has_value();
    work->q_layout = q_.layout;
    work->k_layout = k_.layout;
    work->scratch_bytes = work->program.scratch_bytes();
    for (const TokenPositions* side : {&settings.query_positions, &settings.key_positions}) {
      const auto lists = static_cast<int64_t>(std::max<size_t>(1, side->axes.size()));
      work->position_bytes += side->count() * lists * static_cast<int64_t>(sizeof(int64_t));
    }
    work->key = KeyOfScores(settings, work->program.ScaleWith(multiplier_), key_);
    return work;
  }

  const v1::ScoresItem& message_;
  ParseContext& context_;
  ScoreSettings settings_;
  Side q_, k_;
  std::vector<TableSource> sources_;
  std::vector<Note> warnings_;
  std::optional<WorkInput> additive_;
  std::string key_;  // of the masking
  double multiplier_ = 1;
};

}  // namespace

ParsedWork ParseScoresWork(const v1::ScoresItem& message, ParseContext& context, double* scale) {
  return ScoresParser(message, context).Parse(scale);
}

}  // namespace phasor::server
