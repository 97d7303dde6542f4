#include "kernels/encodings/plan.h"

#include <algorithm>
#include <bit>
#include <string_view>

namespace phasor {
namespace {

// First byte of a key. Never reused for another layout.
enum class KeyKind : uint8_t {
  kExactAngles = 1,
  kCompatF32Angles = 2,
  kBias = 3,
  kExactAxesAngles = 10,
  kCompatF32AxesAngles = 11,
  kGather = 12,
  kFourier = 13,
  kGrid = 14,
  kFourierAxes = 15,
  kGridPoints = 16,
  kDistilled = 17,
  kWindowBias = 30,
  kContinuousWindowBias = 31,
  kFire = 32,
  kDynamicPositionBias = 33,
  kForgettingBias = 34,
  kTupe = 35,
  kBatchBias = 20,
  kBuckets = 21,
  kKerple = 22,
  kSandwich = 23,
  kMixedAngles = 50,
  kShaw = 40,
  kDeberta = 41,
  kSinusoidTerm = 42,
  kCope = 43,
  kDecomposed = 44,
};

// The kind, then what the plan is.
class KeyWriter : public KeyBytes {
 public:
  explicit KeyWriter(KeyKind kind) { Byte(static_cast<uint8_t>(kind)); }

  void Content(const WeightRef& weight) { AppendContent(weight, *this); }
  void Contents(const std::vector<WeightRef>& weights) {
    Int(static_cast<int64_t>(weights.size()));
    for (const WeightRef& weight : weights) Content(weight);
  }
};

void WriteAxes(const AnglePlan& plan, KeyWriter& writer) {
  if (plan.axes == 1) return;
  writer.Word(static_cast<uint8_t>(plan.axes));
  for (uint8_t axis : plan.axis_of_pair) writer.Word(axis);
}

std::string KeyOf(const AnglePlan& plan) {
  // Each precision keys what it computes from, and only that.
  if (plan.precision == Precision::kCompatF32) {
    KeyWriter writer(plan.axes == 1 ? KeyKind::kCompatF32Angles : KeyKind::kCompatF32AxesAngles);
    writer.Word(static_cast<uint64_t>(plan.pairs()));
    for (float f : plan.inv_freq_f32) writer.Float(f);
    writer.Float(plan.attention_factor_f32);
    WriteAxes(plan, writer);
    return std::move(writer).Take();
  }
  KeyWriter writer(plan.axes == 1 ? KeyKind::kExactAngles : KeyKind::kExactAxesAngles);
  writer.Word(static_cast<uint64_t>(plan.pairs()));
  for (const Turns& f : plan.frequencies) {
    for (uint64_t limb : f.limb) writer.Word(limb);
  }
  writer.Double(plan.attention_factor);
  WriteAxes(plan, writer);
  return std::move(writer).Take();
}

std::string KeyOf(const BiasPlan& plan) {
  KeyWriter writer(plan.batch > 0 ? KeyKind::kBatchBias : KeyKind::kBias);
  if (plan.batch > 0) writer.Word(static_cast<uint64_t>(plan.batch));
  writer.Word(static_cast<uint8_t>(plan.form));
  writer.Word(static_cast<uint64_t>(plan.vectors()));
  for (const DoubleDouble& slope : plan.slopes) writer.Double(slope);
  for (const DoubleDouble& slope : plan.future_slopes) writer.Double(slope);
  return std::move(writer).Take();
}

std::string KeyOf(const GatherPlan& plan) {
  KeyWriter writer(KeyKind::kGather);
  writer.Word(static_cast<uint64_t>(plan.rows));
  writer.Word(static_cast<uint64_t>(plan.dim));
  writer.Word(static_cast<uint8_t>(plan.table ? 1 : 0));
  if (plan.table) {
    writer.Word(static_cast<uint8_t>(plan.table->dtype));
    writer.Text(plan.table->digest);
  }
  writer.Double(plan.scale);
  writer.Word(static_cast<uint8_t>(plan.l2_normalize));
  return std::move(writer).Take();
}

std::string KeyOf(const FourierPlan& plan) {
  KeyWriter writer(plan.is_plain() ? KeyKind::kFourier : KeyKind::kFourierAxes);
  if (!plan.is_plain()) {
    writer.Word(static_cast<uint64_t>(plan.axes));
    writer.Word(static_cast<uint8_t>(plan.radians));
  }
  writer.Word(static_cast<uint8_t>(plan.precision));
  writer.Word(static_cast<uint8_t>(plan.log));
  writer.Word(static_cast<uint64_t>(plan.pairs()));
  for (double weight : plan.weights) writer.Double(weight);
  return std::move(writer).Take();
}

std::string KeyOf(const GridPlan& plan) {
  const bool extended = plan.grid.empty() || std::any_of(plan.parts.begin(), plan.parts.end(),
                                                         [](const GridPart& part) { return part.is_extended(); });
  KeyWriter writer(extended ? KeyKind::kGridPoints : KeyKind::kGrid);
  writer.Word(static_cast<uint64_t>(plan.grid.size()));
  for (int64_t points : plan.grid) writer.Word(static_cast<uint64_t>(points));
  writer.Word(static_cast<uint64_t>(plan.extra_rows));
  writer.Word(static_cast<uint64_t>(plan.parts.size()));
  for (const GridPart& part : plan.parts) {
    writer.Word(static_cast<uint8_t>(part.axis));
    writer.Double(part.divisor);
    writer.Double(part.scale);
    if (extended) {
      writer.Double(part.start);
      writer.Double(part.factor);
      writer.Word(static_cast<uint8_t>(part.interleaved));
    }
    writer.Text(KeyOf(part.angles));
  }
  return std::move(writer).Take();
}

std::string KeyOf(const MixedAnglePlan& plan) {
  KeyWriter writer(KeyKind::kMixedAngles);
  writer.Word(static_cast<uint64_t>(plan.frequencies.size()));
  for (const Turns& f : plan.frequencies) {
    for (uint64_t limb : f.limb) writer.Word(limb);
  }
  writer.Word(static_cast<uint64_t>(plan.pairs));
  writer.Content(plan.cos_coef);
  writer.Content(plan.sin_coef);
  return std::move(writer).Take();
}

void WriteWindow(const TokenWindow& window, KeyWriter& writer) {
  writer.Word(static_cast<uint64_t>(window.height));
  writer.Word(static_cast<uint64_t>(window.width));
  writer.Word(static_cast<uint8_t>(window.class_token));
}

std::string KeyOf(const WindowBiasPlan& plan) {
  KeyWriter writer(KeyKind::kWindowBias);
  WriteWindow(plan.window, writer);
  writer.Word(static_cast<uint64_t>(plan.num_heads));
  writer.Content(plan.table);
  return std::move(writer).Take();
}

std::string KeyOf(const ContinuousWindowBiasPlan& plan) {
  KeyWriter writer(KeyKind::kContinuousWindowBias);
  WriteWindow(plan.window, writer);
  writer.Word(static_cast<uint64_t>(plan.pretrained_height));
  writer.Word(static_cast<uint64_t>(plan.pretrained_width));
  writer.Contents(plan.weights);
  return std::move(writer).Take();
}

std::string KeyOf(const FirePlan& plan) {
  KeyWriter writer(KeyKind::kFire);
  writer.Double(plan.c);
  writer.Double(plan.threshold);
  writer.Double(plan.epsilon);
  writer.Contents(plan.weights);
  return std::move(writer).Take();
}

std::string KeyOf(const DynamicPositionBiasPlan& plan) {
  KeyWriter writer(KeyKind::kDynamicPositionBias);
  writer.Word(static_cast<uint8_t>(plan.log_distance));
  writer.Word(static_cast<uint8_t>(plan.layer_norm));
  writer.Contents(plan.weights);
  return std::move(writer).Take();
}

std::string KeyOf(const DistilledPlan& plan) {
  KeyWriter writer(KeyKind::kDistilled);
  writer.Int(plan.first_position);
  writer.Int(plan.num_positions);
  writer.Int(plan.angles.pairs());
  writer.Contents(plan.weights);
  return std::move(writer).Take();
}

std::string KeyOf(const ForgettingBiasPlan& plan) {
  KeyWriter writer(KeyKind::kForgettingBias);
  writer.Word(static_cast<uint8_t>(plan.logits));
  writer.Content(plan.gates);
  return std::move(writer).Take();
}

std::string KeyOf(const TupePlan& plan) {
  KeyWriter writer(KeyKind::kTupe);
  writer.Word(static_cast<uint64_t>(plan.num_buckets));
  writer.Word(static_cast<uint64_t>(plan.max_distance));
  writer.Contents(plan.weights);
  return std::move(writer).Take();
}

std::string KeyOf(const BucketPlan& plan) {
  KeyWriter writer(KeyKind::kBuckets);
  writer.Word(static_cast<uint64_t>(plan.num_buckets));
  writer.Word(static_cast<uint64_t>(plan.max_distance));
  writer.Word(static_cast<uint8_t>(plan.bidirectional ? 1 : 0));
  writer.Word(static_cast<uint64_t>(plan.num_heads));
  writer.Double(plan.scale);
  writer.Word(static_cast<uint8_t>(plan.table ? 1 : 0));
  writer.Content(plan.table);
  if (plan.distance_divisor != 1) writer.Word(static_cast<uint64_t>(plan.distance_divisor));
  return std::move(writer).Take();
}

std::string KeyOf(const KerplePlan& plan) {
  KeyWriter writer(KeyKind::kKerple);
  writer.Word(static_cast<uint8_t>(plan.power ? 1 : 0));
  writer.Word(static_cast<uint64_t>(plan.heads()));
  for (double r1 : plan.r1) writer.Double(r1);
  for (double r2 : plan.r2) writer.Double(r2);
  for (double p : plan.p) writer.Double(p);
  return std::move(writer).Take();
}

std::string KeyOf(const SandwichPlan& plan) {
  KeyWriter writer(KeyKind::kSandwich);
  writer.Word(static_cast<uint64_t>(plan.half_frequencies.size()));
  for (const Turns& f : plan.half_frequencies) {
    for (uint64_t limb : f.limb) writer.Word(limb);
  }
  writer.Word(static_cast<uint64_t>(plan.heads()));
  for (const DoubleDouble& factor : plan.factors) writer.Double(factor);
  return std::move(writer).Take();
}

std::string KeyOf(const ShawPlan& plan) {
  KeyWriter writer(KeyKind::kShaw);
  writer.Word(static_cast<uint64_t>(plan.clip));
  writer.Word(static_cast<uint8_t>(plan.query_term_too));
  writer.Word(static_cast<uint8_t>(plan.key_minus_query));
  writer.Content(plan.keys);
  writer.Content(plan.values);
  return std::move(writer).Take();
}

std::string KeyOf(const DebertaPlan& plan) {
  KeyWriter writer(KeyKind::kDeberta);
  writer.Word(static_cast<uint64_t>(plan.position_buckets));
  writer.Word(static_cast<uint64_t>(plan.max_relative_positions));
  writer.Word(static_cast<uint8_t>(plan.c2p));
  writer.Word(static_cast<uint8_t>(plan.p2c));
  writer.Content(plan.key_positions);
  writer.Content(plan.query_positions);
  return std::move(writer).Take();
}

std::string KeyOf(const SinusoidTermPlan& plan) {
  KeyWriter writer(KeyKind::kSinusoidTerm);
  writer.Word(static_cast<uint8_t>(plan.form));
  writer.Word(static_cast<uint8_t>(plan.clamp.has_value()));
  writer.Word(static_cast<uint64_t>(plan.clamp.value_or(0)));
  writer.Word(static_cast<uint8_t>(plan.unidirectional));
  writer.Text(plan.sinusoids ? KeyOf(*plan.sinusoids) : std::string());
  for (const WeightRef* weight : {&plan.projection, &plan.table, &plan.content_bias, &plan.position_bias, &plan.segment_bias,
                                  &plan.segment_embed, &plan.segments}) {
    writer.Content(*weight);
  }
  // Nothing where the parts above say it: keys stay what they were.
  const bool heads_follow = plan.table || plan.content_bias || plan.position_bias;
  if (plan.concatenated || plan.separate_cls || !heads_follow) {
    writer.Word(static_cast<uint8_t>(plan.concatenated));
    writer.Word(static_cast<uint8_t>(plan.separate_cls));
    writer.Word(static_cast<uint64_t>(plan.heads));
  }
  return std::move(writer).Take();
}

std::string KeyOf(const CopePlan& plan) {
  KeyWriter writer(KeyKind::kCope);
  writer.Word(static_cast<uint64_t>(plan.max_positions));
  writer.Content(plan.e);
  return std::move(writer).Take();
}

std::string KeyOf(const DecomposedPlan& plan) {
  KeyWriter writer(KeyKind::kDecomposed);
  for (int64_t side : {plan.query_height, plan.query_width, plan.key_height, plan.key_width}) {
    writer.Word(static_cast<uint64_t>(side));
  }
  writer.Content(plan.rel_pos_h);
  writer.Content(plan.rel_pos_w);
  return std::move(writer).Take();
}

struct ToDistancePlan {
  std::optional<DistancePlan> operator()(const BiasPlan& plan) const { return &plan; }
  std::optional<DistancePlan> operator()(const BucketPlan& plan) const {
    if (!plan.table) return std::nullopt;
    return &plan;
  }
  std::optional<DistancePlan> operator()(const KerplePlan& plan) const { return &plan; }
  std::optional<DistancePlan> operator()(const SandwichPlan& plan) const { return &plan; }
  template <typename Other>
  std::optional<DistancePlan> operator()(const Other&) const {
    return std::nullopt;
  }
};

}  // namespace

std::optional<DistancePlan> DistancePlanOf(const Plan& plan) { return std::visit(ToDistancePlan{}, plan); }

std::string PlanKey(const Plan& plan) {
  return std::visit([](const auto& p) { return KeyOf(p); }, plan);
}

}  // namespace phasor
