#include "server/knowledge/decision_table.h"

#include <variant>

namespace phasor::server {
namespace {

bool HeadHolds(HeadWidth head, int64_t width) {
  switch (head) {
    case HeadWidth::kAny:
      return true;
    case HeadWidth::kPairs:
      return width >= 4 && width % 2 == 0;
    case HeadWidth::kOdd:
      return width >= 5 && width % 2 == 1;
    case HeadWidth::kTwoAxes:
      return width >= 8 && width % 4 == 0;
  }
  return false;
}

bool StartHolds(Start start, const Wishes& wishes) {
  const bool existing = wishes.current.has_value() && wishes.tuning != Tuning::kFull;
  switch (start) {
    case Start::kAny:
      return true;
    case Start::kNew:
      return !existing;
    case Start::kExisting:
      return existing;
    case Start::kCurrent:
      return wishes.current.has_value();
  }
  return false;
}

struct ScheduleKind {
  CurrentKind operator()(const DefaultSchedule&) const { return CurrentKind::kRope; }
  CurrentKind operator()(const YarnSchedule&) const { return CurrentKind::kYarn; }
  CurrentKind operator()(const Llama3Schedule&) const { return CurrentKind::kLlama3; }
  CurrentKind operator()(const LinearSchedule&) const { return CurrentKind::kLinear; }
  CurrentKind operator()(const DynamicNtkSchedule&) const { return CurrentKind::kDynamicNtk; }
  template <typename Other>
  CurrentKind operator()(const Other&) const {
    return CurrentKind::kOtherRope;
  }
};

struct SpecKind {
  CurrentKind operator()(const RopeSpec& rope) const {
    const CurrentKind kind = std::visit(ScheduleKind{}, rope.schedule);
    const bool own_frequencies =
        rope.axes && (rope.axes->layout == AxisLayout::kReset || rope.axes->layout == AxisLayout::kSplitFrequencies);
    if (!own_frequencies) return kind;
    return kind == CurrentKind::kRope ? CurrentKind::kGridRope : CurrentKind::kOtherRope;
  }
  CurrentKind operator()(const SinusoidalSpec&) const { return CurrentKind::kSinusoidal; }
  CurrentKind operator()(const LearnedSpec&) const { return CurrentKind::kLearned; }
  CurrentKind operator()(const GridSinusoidalSpec&) const { return CurrentKind::kGrid; }
  CurrentKind operator()(const AlibiSpec&) const { return CurrentKind::kAlibi; }
  CurrentKind operator()(const T5BucketSpec&) const { return CurrentKind::kDistanceBias; }
  CurrentKind operator()(const KerpleSpec&) const { return CurrentKind::kDistanceBias; }
  CurrentKind operator()(const SandwichSpec&) const { return CurrentKind::kDistanceBias; }
  CurrentKind operator()(const FireSpec&) const { return CurrentKind::kDistanceBias; }
  CurrentKind operator()(const DynamicPositionBiasSpec&) const { return CurrentKind::kDistanceBias; }
  CurrentKind operator()(const ShawSpec&) const { return CurrentKind::kDistanceBias; }
  CurrentKind operator()(const DebertaSpec&) const { return CurrentKind::kDistanceBias; }
  CurrentKind operator()(const TransformerXlSpec&) const { return CurrentKind::kDistanceBias; }
  CurrentKind operator()(const XlnetSpec&) const { return CurrentKind::kDistanceBias; }
  CurrentKind operator()(const ConformerSpec&) const { return CurrentKind::kDistanceBias; }
  CurrentKind operator()(const WindowBiasSpec&) const { return CurrentKind::kWindow; }
  CurrentKind operator()(const ForgettingBiasSpec&) const { return CurrentKind::kDataBias; }
  CurrentKind operator()(const CopeSpec&) const { return CurrentKind::kDataBias; }
  template <typename Other>
  CurrentKind operator()(const Other&) const {
    return CurrentKind::kOther;
  }
};

}  // namespace

CurrentKind KindOf(const EncodingSpec& spec) { return std::visit(SpecKind{}, spec); }

bool Holds(const When& when, const Wishes& wishes) {
  const CurrentKind kind = wishes.current ? KindOf(*wishes.current) : CurrentKind::kNothing;
  return StartHolds(when.start, wishes) && Has(when.tasks, wishes.task) && Has(when.tunings, wishes.tuning) &&
         Has(when.targets, wishes.target) && Has(when.currents, kind) && wishes.ratio() > when.above_ratio &&
         wishes.ratio() <= when.up_to_ratio && wishes.wanted_length >= when.min_wanted &&
         wishes.wanted_length <= when.max_wanted && HeadHolds(when.head, wishes.head_dim);
}

}  // namespace phasor::server
