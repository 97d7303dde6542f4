#include "kernels/program/score_rotation.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

#include "kernels/program/rotate.h"

namespace phasor {
namespace {

// One side: its positions and where errors about it belong.
struct Side {
  const TokenPositions& positions;
  const char* positions_field;
  const char* shape_field;
  int64_t heads;
};

std::string NameOf(const ScoreSettings& s) { return std::string(SchemeOf(*s.rotation).name); }

int64_t AxesOf(const EncodingSpec& rotation) {
  const auto* rope = std::get_if<RopeSpec>(&rotation);
  return rope != nullptr && rope->axes ? static_cast<int64_t>(rope->axes->sections.size()) : 1;
}

absl::Status CheckHeadDim(const ScoreSettings& s) {
  int64_t head_dim = 0;
  const char* name = "rope";
  if (const auto* rope = std::get_if<RopeSpec>(&*s.rotation)) {
    head_dim = rope->head_dim;
  } else if (const auto* pope = std::get_if<PopeSpec>(&*s.rotation)) {
    head_dim = pope->head_dim;
    name = "pope";
  } else {
    head_dim = std::get<FopeSpec>(*s.rotation).head_dim;
    name = "fope";
  }
  if (head_dim == s.shape.dim) return absl::OkStatus();
  return MakeSpecError(absl::StrCat("rotation.", name, ".head_dim"), absl::StrCat(head_dim),
                       absl::StrCat(s.shape.dim, ", the channels of q"));
}

absl::Status CheckXpos(const ScoreSettings& s, const Side& side) {
  const auto* rope = std::get_if<RopeSpec>(&*s.rotation);
  if (rope == nullptr || !rope->xpos) return absl::OkStatus();
  const auto xpos = XposFactorsOf(*rope->xpos, s.sequence_length);
  if (!xpos) {
    return MakeSpecError("sequence_length", "nothing", "1 … 2^31: xPos without a center takes half of it");
  }
  if (!side.positions.is_plain()) {
    return MakeSpecError(side.positions_field, "fractional positions", "whole positions with xpos");
  }
  const int64_t reach = XposReach(*xpos, s.tensor_dtype);
  for (const int64_t id : side.positions.ids) {
    if (id >= xpos->center - reach && id <= xpos->center + reach) continue;
    return MakeSpecError(side.positions_field, absl::StrCat(id),
                         absl::StrCat(xpos->center - reach, " … ", xpos->center + reach,
                                      ": beyond, xPos's factor overflows ", side.shape_field[0] == 'q' ? "q" : "k"));
  }
  return absl::OkStatus();
}

absl::Status CheckSide(const ScoreSettings& s, const Side& side, bool is_query) {
  const auto given = static_cast<int64_t>(std::max<size_t>(1, side.positions.axes.size()));
  if (const int64_t axes = AxesOf(*s.rotation); given != axes) {
    return MakeSpecError(side.positions_field, absl::StrCat(given, " axes"), absl::StrCat(axes, ", as the rotation has"));
  }
  if (auto status = CheckXpos(s, side); !status.ok()) return status;
  const RotationRule rule = RotationRuleOf(*s.rotation);
  if (rule.table_heads == 1) return absl::OkStatus();
  if (rule.kind == RotationKind::kFrequency && side.heads % rule.table_heads != 0) {
    return MakeSpecError(side.shape_field, absl::StrCat(side.heads, " heads"),
                         absl::StrCat("a multiple of ", rule.table_heads));
  }
  if (rule.kind == RotationKind::kPolar && !is_query && side.heads != rule.table_heads) {
    return MakeSpecError(side.shape_field, absl::StrCat(side.heads, " heads"),
                         absl::StrCat(rule.table_heads, ", as weights.delta of the rotation"));
  }
  return absl::OkStatus();
}

RotationProgram ProgramOf(const ScoreSettings& s, bool is_query, const HeadVectors& x) {
  const TokenPositions& positions = is_query ? s.query_positions : s.key_positions;
  RotationProgram program;
  program.rule = RotationRuleOf(*s.rotation);
  if (const auto* rope = std::get_if<RopeSpec>(&*s.rotation); rope != nullptr && rope->xpos) {
    program.rule.xpos = XposFactorsOf(*rope->xpos, s.sequence_length);
  }
  program.batch = s.shape.batch;
  program.tokens = is_query ? s.shape.queries : s.shape.keys;
  program.per_batch = positions.per_batch;
  RotatedTensor tensor;
  tensor.dtype = s.tensor_dtype;
  tensor.heads = is_query ? s.shape.heads : s.key_heads;
  tensor.head_dim = s.shape.dim;
  tensor.x_batch_stride = tensor.y_batch_stride = x.batch_stride;
  tensor.x_token_stride = tensor.y_token_stride = x.token_stride;
  tensor.x_head_stride = tensor.y_head_stride = x.head_stride;
  tensor.is_query = is_query;
  if (program.rule.kind == RotationKind::kPolar) {
    tensor.y_head_stride = RotatedDim(s);
    tensor.y_token_stride = tensor.heads * tensor.y_head_stride;
    tensor.y_batch_stride = program.tokens * tensor.y_token_stride;
  }
  program.tensors.push_back(tensor);
  program.Seal();
  return program;
}

}  // namespace

absl::Status CheckRotation(const ScoreSettings& s) {
  const Side q{s.query_positions, "query_positions", "q.shape", s.shape.heads};
  const Side k{s.key_positions, "key_positions", "k.shape", s.key_heads};
  for (const Side* side : {&q, &k}) {
    if (side->positions.is_plain() || (s.rotation && s.terms.empty() && s.biases.empty())) continue;
    return MakeSpecError(side->positions_field, "several axes or fractions",
                         "whole positions of one axis, unless there is a rotation and neither terms nor biases");
  }
  if (!s.rotation) return absl::OkStatus();
  if (!IsRotation(*s.rotation)) return MakeSpecError("rotation", NameOf(s), "rope, pope or fope");
  if (auto status = CheckHeadDim(s); !status.ok()) return status;
  if (std::holds_alternative<PopeSpec>(*s.rotation) && !s.terms.empty()) {
    return MakeSpecError("terms", "terms with pope", "none: its queries and keys are twice as wide as a term's weights");
  }
  if (auto status = CheckSide(s, q, true); !status.ok()) return status;
  return CheckSide(s, k, false);
}

int64_t RotatedDim(const ScoreSettings& s) {
  const bool is_polar = s.rotation && std::holds_alternative<PopeSpec>(*s.rotation);
  return is_polar ? 2 * s.shape.dim : s.shape.dim;
}

void PlaceRotation(const ScoreSettings& s, const Resolved* plan, HeadVectors* q, HeadVectors* k, ScratchCutter& cutter,
                   std::vector<ProgramStep>* steps) {
  const RotationProgram programs[] = {ProgramOf(s, true, *q), ProgramOf(s, false, *k)};
  std::byte* scratch = cutter.Bytes(std::max(programs[0].scratch_bytes(), programs[1].scratch_bytes()));
  for (const bool is_query : {true, false}) {
    const RotationProgram& program = programs[is_query ? 0 : 1];
    const RotatedTensor& tensor = program.tensors.front();
    HeadVectors& vectors = is_query ? *q : *k;
    auto* x = static_cast<std::byte*>(const_cast<void*>(vectors.data));  // the caller's memory, to be written
    std::byte* y = x;
    if (program.rule.kind == RotationKind::kPolar) {
      y = cutter.Bytes(program.batch * tensor.y_batch_stride * SizeOf(s.tensor_dtype));
      vectors = {vectors.dtype, y, tensor.y_batch_stride, tensor.y_token_stride, tensor.y_head_stride};
    }
    if (scratch == nullptr || plan == nullptr) continue;
    const TokenPositions& positions = is_query ? s.query_positions : s.key_positions;
    const RotationMemory memory{{&plan, 1}, positions.Source(), {&x, 1}, {&y, 1}, scratch};
    for (ProgramStep& step : program.Steps(memory)) steps->push_back(std::move(step));
  }
}

}  // namespace phasor
