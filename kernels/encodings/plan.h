// What backends run. Many schemes resolve to few plans: a table of angles (cos and sin) or a bias that depends on the
// distance. Two spellings of one thing give equal plans; equal plans give equal bits.
#ifndef PHASOR_KERNELS_ENCODINGS_PLAN_H_
#define PHASOR_KERNELS_ENCODINGS_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kernels/core/double_double.h"
#include "kernels/encodings/plan_angle.h"
#include "kernels/encodings/plan_bias.h"
#include "kernels/encodings/plan_polar.h"
#include "kernels/encodings/plan_tables.h"
#include "kernels/encodings/plan_terms.h"
#include "kernels/encodings/plan_window.h"
#include "kernels/encodings/spec.h"

namespace phasor {

using Plan =
    std::variant<AnglePlan, BiasPlan, MixedAnglePlan, GatherPlan, FourierPlan, GridPlan, WindowBiasPlan,
                 ContinuousWindowBiasPlan, FirePlan, DynamicPositionBiasPlan, ForgettingBiasPlan, TupePlan, BucketPlan,
                 KerplePlan, SandwichPlan, ShawPlan, DebertaPlan, SinusoidTermPlan, CopePlan, DecomposedPlan, DistilledPlan>;

// The plan as one of values by distance; nothing where it is none, or has no values (indices only).
std::optional<DistancePlan> DistancePlanOf(const Plan& plan);

// The canonical bytes of everything in a plan that decides output bits, and nothing else: equal plans and only they have
// equal keys. Used whole as a cache key and as the input of fingerprints; stable across processes of one numerics version.
std::string PlanKey(const Plan& plan);

// Any change of an output bit anywhere raises this number; it is part of every fingerprint.
inline constexpr int kNumericsVersion = 1;

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_PLAN_H_
