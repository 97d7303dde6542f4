// The cards' details, one for a scheme. card_list.cc lists them.
#ifndef PHASOR_KERNELS_ENCODINGS_CARDS_CARD_LIST_H_
#define PHASOR_KERNELS_ENCODINGS_CARDS_CARD_LIST_H_

#include "kernels/encodings/cards/card_details.h"

namespace phasor {

extern const CardDetails kRopeDefaultCard;
extern const CardDetails kRopeLinearCard;
extern const CardDetails kRopeNtkAwareCard;
extern const CardDetails kRopeDynamicNtkCard;
extern const CardDetails kRopeYarnCard;
extern const CardDetails kRopeLlama3Card;
extern const CardDetails kRopeLongropeCard;
extern const CardDetails kRopeProportionalCard;
extern const CardDetails kRopeQwen1NtkCard;
extern const CardDetails kRopeNtkMixedCard;
extern const CardDetails kRopeFreqFactorsCard;
extern const CardDetails kRopeInvFreqCard;
extern const CardDetails kRopePixelCard;
extern const CardDetails kPopeCard;
extern const CardDetails kFopeCard;
extern const CardDetails kSinusoidalCard;
extern const CardDetails kTimestepCard;
extern const CardDetails kGaussianFourierCard;
extern const CardDetails kLearnedCard;
extern const CardDetails kGridSinusoidalCard;
extern const CardDetails kDistilledCard;
extern const CardDetails kAlibiCard;
extern const CardDetails kWindowBiasCard;
extern const CardDetails kContinuousWindowBiasCard;
extern const CardDetails kFireCard;
extern const CardDetails kDynamicPositionBiasCard;
extern const CardDetails kForgettingBiasCard;
extern const CardDetails kTupeCard;
extern const CardDetails kT5BucketCard;
extern const CardDetails kKerpleCard;
extern const CardDetails kSandwichCard;
extern const CardDetails kShawCard;
extern const CardDetails kDebertaCard;
extern const CardDetails kTransformerXlCard;
extern const CardDetails kXlnetCard;
extern const CardDetails kConformerCard;
extern const CardDetails kCopeCard;
extern const CardDetails kDecomposedCard;

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_CARDS_CARD_LIST_H_
