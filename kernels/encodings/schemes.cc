#include "kernels/encodings/schemes.h"

namespace phasor {
namespace {

// The list. Constant-initialised: no scheme registers itself, so none can be lost by a linker.
constexpr const Scheme* kSchemes[] = {&kRopeDefault,
                                      &kRopeLinear,
                                      &kRopeNtkAware,
                                      &kRopeDynamicNtk,
                                      &kRopeYarn,
                                      &kRopeLlama3,
                                      &kRopeLongRope,
                                      &kRopeProportional,
                                      &kRopeQwen1Ntk,
                                      &kRopeNtkMixed,
                                      &kRopeFreqFactors,
                                      &kRopeInvFreq,
                                      &kRopePixel,
                                      &kPope,
                                      &kFope,
                                      &kSinusoidal,
                                      &kTimestep,
                                      &kGaussianFourier,
                                      &kLearned,
                                      &kGridSinusoidal,
                                      &kDistilled,
                                      &kAlibi,
                                      &kWindowBias,
                                      &kContinuousWindowBias,
                                      &kFire,
                                      &kDynamicPositionBias,
                                      &kForgettingBias,
                                      &kTupe,
                                      &kT5Bucket,
                                      &kKerple,
                                      &kSandwich,
                                      &kShaw,
                                      &kDeberta,
                                      &kTransformerXl,
                                      &kXlnet,
                                      &kConformer,
                                      &kCope,
                                      &kDecomposed};

struct ScheduleToScheme {
  const Scheme& operator()(const DefaultSchedule&) const { return kRopeDefault; }
  const Scheme& operator()(const LinearSchedule&) const { return kRopeLinear; }
  const Scheme& operator()(const NtkAwareSchedule&) const { return kRopeNtkAware; }
  const Scheme& operator()(const DynamicNtkSchedule&) const { return kRopeDynamicNtk; }
  const Scheme& operator()(const YarnSchedule&) const { return kRopeYarn; }
  const Scheme& operator()(const Llama3Schedule&) const { return kRopeLlama3; }
  const Scheme& operator()(const LongRopeSchedule&) const { return kRopeLongRope; }
  const Scheme& operator()(const ProportionalSchedule&) const { return kRopeProportional; }
  const Scheme& operator()(const Qwen1NtkSchedule&) const { return kRopeQwen1Ntk; }
  const Scheme& operator()(const NtkMixedSchedule&) const { return kRopeNtkMixed; }
  const Scheme& operator()(const FreqFactorsSchedule&) const { return kRopeFreqFactors; }
  const Scheme& operator()(const InvFreqSchedule&) const { return kRopeInvFreq; }
  const Scheme& operator()(const PixelSchedule&) const { return kRopePixel; }
};

struct SpecToScheme {
  const Scheme& operator()(const RopeSpec& rope) const { return std::visit(ScheduleToScheme{}, rope.schedule); }
  const Scheme& operator()(const PopeSpec&) const { return kPope; }
  const Scheme& operator()(const FopeSpec&) const { return kFope; }
  const Scheme& operator()(const SinusoidalSpec&) const { return kSinusoidal; }
  const Scheme& operator()(const AlibiSpec&) const { return kAlibi; }
  const Scheme& operator()(const TimestepSpec&) const { return kTimestep; }
  const Scheme& operator()(const GaussianFourierSpec&) const { return kGaussianFourier; }
  const Scheme& operator()(const LearnedSpec&) const { return kLearned; }
  const Scheme& operator()(const GridSinusoidalSpec&) const { return kGridSinusoidal; }
  const Scheme& operator()(const DistilledSpec&) const { return kDistilled; }
  const Scheme& operator()(const WindowBiasSpec&) const { return kWindowBias; }
  const Scheme& operator()(const ContinuousWindowBiasSpec&) const { return kContinuousWindowBias; }
  const Scheme& operator()(const FireSpec&) const { return kFire; }
  const Scheme& operator()(const DynamicPositionBiasSpec&) const { return kDynamicPositionBias; }
  const Scheme& operator()(const ForgettingBiasSpec&) const { return kForgettingBias; }
  const Scheme& operator()(const TupeSpec&) const { return kTupe; }
  const Scheme& operator()(const T5BucketSpec&) const { return kT5Bucket; }
  const Scheme& operator()(const KerpleSpec&) const { return kKerple; }
  const Scheme& operator()(const SandwichSpec&) const { return kSandwich; }
  const Scheme& operator()(const ShawSpec&) const { return kShaw; }
  const Scheme& operator()(const DebertaSpec&) const { return kDeberta; }
  const Scheme& operator()(const TransformerXlSpec&) const { return kTransformerXl; }
  const Scheme& operator()(const XlnetSpec&) const { return kXlnet; }
  const Scheme& operator()(const ConformerSpec&) const { return kConformer; }
  const Scheme& operator()(const CopeSpec&) const { return kCope; }
  const Scheme& operator()(const DecomposedSpec&) const { return kDecomposed; }
};

}  // namespace

std::span<const Scheme* const> Schemes() { return kSchemes; }

const Scheme& SchemeOf(const EncodingSpec& spec) { return std::visit(SpecToScheme{}, spec); }

const Scheme* FindScheme(std::string_view name) {
  for (const Scheme* scheme : kSchemes) {
    if (scheme->name == name) return scheme;
  }
  return nullptr;
}

}  // namespace phasor
