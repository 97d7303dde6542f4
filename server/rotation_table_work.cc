// Windows of xPos's, PoPE's and FoPE's tables, which a request gets without tensors.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "kernels/program/polar.h"
#include "kernels/program/rotation.h"
#include "server/describe.h"
#include "server/fingerprint.h"
#include "server/grpc_status.h"
#include "server/positions_parser.h"
#include "server/rotate_work.h"
#include "server/work_parsers.h"

namespace phasor::server {
namespace {

class RotationTableWork final : public Work {
 public:
  // ---- Filled in by the parser, constant afterwards.
  bool is_key = false;
  bool inverse = false;
  TableForm form = TableForm::kHalf;
  int64_t pairs = 0;        // per head
  int64_t table_heads = 1;  // of a row
  DType dtype = DType::kF32;
  PositionSet positions;
  std::optional<XposFactors> xpos;  // else PoPE or FoPE
  WeightRef delta;                  // PoPE, of keys

  Cut cut() const override { return Cut::kFirstAxis; }

  std::shared_ptr<const Work> Rows(int64_t first, int64_t count) const override {
    // Lists of positions may be long: only what is asked for is copied.
    auto work = std::make_shared<RotationTableWork>();
    work->sources = sources;
    work->outputs = outputs;
    work->is_key = is_key;
    work->inverse = inverse;
    work->form = form;
    work->pairs = pairs;
    work->table_heads = table_heads;
    work->dtype = dtype;
    work->xpos = xpos;
    work->delta = delta;
    work->positions = positions.Rows(first, count);
    work->CutOutputs(positions.count, count);
    if (positions.count > 0) work->scratch_bytes = scratch_bytes / positions.count * count;
    return work;
  }

  absl::StatusOr<std::vector<ProgramStep>> Steps(std::span<const Resolved* const> plans,
                                                 const WorkMemory& memory) const override {
    std::vector<ProgramStep> steps;
    const int64_t half_bytes = positions.count * pairs * SizeOf(dtype);
    const bool whole = form == TableForm::kHalf;
    void* const cos = whole ? memory.outputs[0] : memory.scratch;
    void* const sin = whole ? memory.outputs[1] : memory.scratch + half_bytes;
    RotationPositions at;
    at.axes[0] = positions.Source(0);
    if (xpos) {
      AddXpos(std::get<AnglePlan>(plans[0]->plan), at, cos, sin, steps);
    } else if (const auto* mixed = std::get_if<MixedAnglePlan>(&plans[0]->plan)) {
      MixedAngleTask task;
      task.plan = mixed;
      task.positions = at.axes[0];
      task.dtype = dtype;
      task.cos = cos;
      task.sin = sin;
      steps.push_back(ProgramStep::Of(task, positions.count));
    } else {
      AddPolar(std::get<AnglePlan>(plans[0]->plan), at, cos, sin, steps);
    }
    if (!whole) {
      AssembleTask task;
      task.form = form;
      task.element_size = SizeOf(dtype);
      task.pairs = task.table_stride = pairs;
      task.columns = 2 * pairs;
      task.cos = cos;
      task.sin = sin;
      task.out = memory.outputs[0];
      if (form != TableForm::kConcatenated) task.out_sin = memory.outputs[1];
      steps.push_back(ProgramStep::Of(task, positions.count));
    }
    if (outputs.back().slot == Slot::kInvFreq) AddFrequencies(plans[0]->plan, memory.outputs.back(), steps);
    return steps;
  }

 private:
  void AddXpos(const AnglePlan& plan, const RotationPositions& at, void* cos, void* sin,
               std::vector<ProgramStep>& steps) const {
    auto decay = std::make_shared<Decay>(pairs, xpos->scale_base, xpos->center);
    steps.push_back(ProgramStep::Of(
        [decay](RowRange range, const CancelFlag*) {
          decay->Prepare(range);
          return absl::OkStatus();
        },
        pairs, 8));
    auto table = std::make_shared<RotationTable>();
    table->plan = plan;
    table->inverse = inverse;
    table->decay = std::move(decay);
    table->decay_sign = is_key ? -1 : 1;
    const RotationRows rows{table.get(), at, dtype, cos, sin, pairs};
    steps.push_back(
        ProgramStep::Of([table, rows](RowRange range, const CancelFlag* cancel) { return rows.Fill(range, cancel); },
                        positions.count, std::max<int64_t>(1, 3000 / pairs)));
  }

  void AddPolar(const AnglePlan& plan, const RotationPositions& at, void* cos, void* sin,
                std::vector<ProgramStep>& steps) const {
    if (!delta) {
      AngleTask task;
      task.plan = &plan;
      task.positions = at.axes[0];
      task.dtype = dtype;
      task.cos = cos;
      task.sin = sin;
      task.row_stride = pairs;
      steps.push_back(ProgramStep::Of(task, positions.count));
      return;
    }
    PreparedPhases prepared = PreparePhases(delta);
    steps.push_back(std::move(prepared.step));
    PolarAngleTask task;
    task.plan = &plan;
    task.phases = prepared.phases.get();
    task.heads = table_heads;
    task.positions = at.axes[0];
    task.dtype = dtype;
    task.cos = cos;
    task.sin = sin;
    steps.push_back(ProgramStep::Of(task, positions.count));
    steps.back().held = std::move(prepared.phases);
  }

  static void AddFrequencies(const Plan& plan, std::byte* out, std::vector<ProgramStep>& steps) {
    const std::vector<double>& all = std::get<AnglePlan>(plan).inv_freq;
    steps.push_back(ProgramStep::Of(
        [&all, out](RowRange, const CancelFlag*) {
          std::memcpy(out, all.data(), all.size() * sizeof(double));
          return absl::OkStatus();
        },
        1, 1));
  }
};

absl::Status AddArray(Slot slot, DType dtype, std::vector<int64_t> shape, const Limits& limits, Work* work) {
  const auto elements =
      CountElements("table", {shape[0], shape.size() > 1 ? shape[1] : 1, shape.size() > 2 ? shape[2] : 1}, limits);
  if (!elements.ok()) return elements.status();
  WorkArray array;
  array.slot = slot;
  array.dtype = dtype;
  array.shape = std::move(shape);
  array.bytes = *elements * SizeOf(dtype);
  work->outputs.push_back(std::move(array));
  return absl::OkStatus();
}

// Fields of the window that this scheme has no use for.
absl::Status CheckWindow(const v1::TableWindow& window, const EncodingSpec& spec) {
  const bool is_rope = std::holds_alternative<RopeSpec>(spec);
  for (const auto& [field, number, type] :
       {std::tuple("table.form", static_cast<int>(window.form()), v1::TableForm_descriptor()),
        std::tuple("table.role", static_cast<int>(window.role()), v1::TensorRole_descriptor())}) {
    if (auto status = CheckEnum(field, number, type); !status.ok()) return status;
  }
  if (is_rope && window.role() == v1::TENSOR_ROLE_UNSPECIFIED) {
    return InvalidField("table.role", "nothing", "TENSOR_ROLE_QUERY, TENSOR_ROLE_KEY: xPos's tables differ");
  }
  if (window.indices()) return InvalidField("table.indices", "true", "unset: only learned tables have numbered rows");
  if (!is_rope && window.form() > v1::TABLE_FORM_HALF) {
    return InvalidField("table.form", v1::TableForm_Name(window.form()), "TABLE_FORM_HALF for this scheme");
  }
  if (!is_rope && window.inverse()) {
    return InvalidField("table.inverse", "true", "unset: this scheme's tables are no rotations to undo");
  }
  if (std::holds_alternative<FopeSpec>(spec) && window.role() != v1::TENSOR_ROLE_UNSPECIFIED) {
    return InvalidField("table.role", v1::TensorRole_Name(window.role()), "unset: queries and keys share this table");
  }
  if (std::holds_alternative<FopeSpec>(spec) && window.include_inv_freq()) {
    return InvalidField("table.include_inv_freq", "true", "unset: the scheme mixes its frequencies");
  }
  return absl::OkStatus();
}

// Widths and factors by scheme.
absl::Status UseSpec(const v1::PrecomputeItem& message, const EncodingSpec& spec, RotationTableWork& work) {
  if (const auto* pope = std::get_if<PopeSpec>(&spec)) {
    work.pairs = pope->head_dim;
    if (!work.is_key || !pope->delta) return absl::OkStatus();
    work.delta = pope->delta;
    if (pope->delta->shape.size() == 2) work.table_heads = pope->delta->shape[0];
    return absl::OkStatus();
  }
  if (const auto* fope = std::get_if<FopeSpec>(&spec)) {
    work.pairs = fope->head_dim / 2;
    work.table_heads = fope->cos_coef->shape[0];
    return absl::OkStatus();
  }
  const auto& rope = std::get<RopeSpec>(spec);
  if (rope.axes) return InvalidField("spec.rope.axes", "together with xpos", "one axis with xpos");
  work.pairs = *rope.rotary_dim / 2;
  std::optional<int64_t> length;
  if (message.has_sequence_length()) length = message.sequence_length();
  absl::StatusOr<XposFactors> xpos = XposOf(*rope.xpos, length);
  if (!xpos.ok()) return xpos.status();
  work.xpos = *xpos;
  return absl::OkStatus();
}

absl::Status AddOutputs(const v1::TableWindow& window, const EncodingSpec& spec, const Limits& limits,
                        RotationTableWork* work) {
  const int64_t columns = work->form == TableForm::kHalf ? work->pairs : 2 * work->pairs;
  std::vector<int64_t> shape = {work->positions.count, columns};
  const auto* pope = std::get_if<PopeSpec>(&spec);
  const bool has_heads = std::holds_alternative<FopeSpec>(spec) ||
                         (pope != nullptr && work->is_key && pope->delta && pope->delta->shape.size() == 2);
  if (has_heads) shape.insert(shape.begin() + 1, work->table_heads);
  absl::Status status;
  if (work->form == TableForm::kConcatenated) {
    status = AddArray(Slot::kTable, work->dtype, shape, limits, work);
  } else {
    status = AddArray(Slot::kCos, work->dtype, shape, limits, work);
    if (status.ok()) status = AddArray(Slot::kSin, work->dtype, shape, limits, work);
  }
  if (status.ok() && window.include_inv_freq()) {
    status = AddArray(Slot::kInvFreq, DType::kF64, {work->pairs}, limits, work);
  }
  return status;
}

std::string KeyOf(const RotationTableWork& work) {
  std::string key = absl::StrCat("rotation table,", work.is_key, ",", work.inverse, ",", static_cast<int>(work.form), ",");
  if (work.xpos) {
    const double base = work.xpos->scale_base;
    key.append(reinterpret_cast<const char*>(&base), sizeof(base));
    absl::StrAppend(&key, ",", work.xpos->center, ",");
  }
  if (work.delta) absl::StrAppend(&key, static_cast<int>(work.delta->dtype), ",", work.delta->digest, ",");
  return key + KeyOf(work.positions);
}

}  // namespace

bool HasRoles(const EncodingSpec& spec) {
  const auto* rope = std::get_if<RopeSpec>(&spec);
  return rope != nullptr ? rope->xpos.has_value()
                         : std::holds_alternative<PopeSpec>(spec) || std::holds_alternative<FopeSpec>(spec);
}

ParsedWork ParseRotationTableWork(const v1::PrecomputeItem& message, const TableSource& source, ParseContext& context) {
  const v1::TableWindow& window = message.table();
  const EncodingSpec& spec = source.spec.spec;
  if (auto status = CheckWindow(window, spec); !status.ok()) return status;
  const auto work = std::make_shared<RotationTableWork>();
  if (message.dtype() != v1::DTYPE_UNSPECIFIED) {
    if (message.dtype() < v1::DTYPE_F64 || message.dtype() > v1::DTYPE_BF16) {
      return InvalidField("dtype", absl::StrCat(static_cast<int>(message.dtype())),
                          "DTYPE_F64, DTYPE_F32, DTYPE_F16, DTYPE_BF16");
    }
    work->dtype = static_cast<DType>(message.dtype());
  }
  work->is_key = window.role() == v1::TENSOR_ROLE_KEY;
  work->inverse = window.inverse();
  if (window.form() != v1::TABLE_FORM_UNSPECIFIED) work->form = static_cast<TableForm>(window.form());
  if (auto status = UseSpec(message, spec, *work); !status.ok()) return status;
  absl::StatusOr<ParsedPositions> parsed = ParsePositions(window.positions(), "table.positions", std::nullopt, context);
  if (!parsed.ok()) return parsed.status();
  if (parsed->set.axes() > 1 || (work->xpos && !parsed->set.is_plain())) {
    return InvalidField("table.positions", "fractional positions or several axes",
                        work->xpos ? "whole positions of one axis with xpos" : "one axis here");
  }
  work->positions = std::move(parsed->set);
  if (work->xpos) {
    const absl::Status status = CheckXposReach(*work->xpos, work->positions, work->dtype, "table.positions", "the table");
    if (!status.ok()) return status;
  }
  if (auto status = AddOutputs(window, spec, context.limits, work.get()); !status.ok()) return status;
  if (work->form != TableForm::kHalf) work->scratch_bytes = 2 * work->positions.count * work->pairs * SizeOf(work->dtype);
  work->position_bytes = work->positions.bytes();
  work->key = KeyOf(*work);
  work->warnings = WarningsFor(source, work->positions.last(), "table.positions");
  work->sources = {source};
  return work;
}

}  // namespace phasor::server
