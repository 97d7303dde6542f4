#include "kernels/encodings/cards/card_list.h"

#include <algorithm>

namespace phasor {
namespace {

// In the order of schemes.cc.
constexpr const CardDetails* kCards[] = {&kRopeDefaultCard,
                                         &kRopeLinearCard,
                                         &kRopeNtkAwareCard,
                                         &kRopeDynamicNtkCard,
                                         &kRopeYarnCard,
                                         &kRopeLlama3Card,
                                         &kRopeLongropeCard,
                                         &kRopeProportionalCard,
                                         &kRopeQwen1NtkCard,
                                         &kRopeNtkMixedCard,
                                         &kRopeFreqFactorsCard,
                                         &kRopeInvFreqCard,
                                         &kRopePixelCard,
                                         &kPopeCard,
                                         &kFopeCard,
                                         &kSinusoidalCard,
                                         &kTimestepCard,
                                         &kGaussianFourierCard,
                                         &kLearnedCard,
                                         &kGridSinusoidalCard,
                                         &kDistilledCard,
                                         &kAlibiCard,
                                         &kWindowBiasCard,
                                         &kContinuousWindowBiasCard,
                                         &kFireCard,
                                         &kDynamicPositionBiasCard,
                                         &kForgettingBiasCard,
                                         &kTupeCard,
                                         &kT5BucketCard,
                                         &kKerpleCard,
                                         &kSandwichCard,
                                         &kShawCard,
                                         &kDebertaCard,
                                         &kTransformerXlCard,
                                         &kXlnetCard,
                                         &kConformerCard,
                                         &kCopeCard,
                                         &kDecomposedCard};

}  // namespace

std::span<const CardDetails* const> AllCardDetails() { return kCards; }

const CardDetails* FindCardDetails(std::string_view scheme) {
  const auto* const found = std::ranges::find(kCards, scheme, &CardDetails::scheme);
  return found == std::end(kCards) ? nullptr : *found;
}

}  // namespace phasor
