// The schemes, one per file. schemes.cc lists them.
#ifndef PHASOR_KERNELS_ENCODINGS_SCHEMES_H_
#define PHASOR_KERNELS_ENCODINGS_SCHEMES_H_

#include "kernels/encodings/encoding.h"

namespace phasor {

extern const Scheme kRopeDefault;
extern const Scheme kRopeLinear;
extern const Scheme kRopeNtkAware;
extern const Scheme kRopeDynamicNtk;
extern const Scheme kRopeYarn;
extern const Scheme kRopeLlama3;
extern const Scheme kRopeLongRope;
extern const Scheme kRopeProportional;
extern const Scheme kRopeQwen1Ntk;
extern const Scheme kRopeNtkMixed;
extern const Scheme kRopeFreqFactors;
extern const Scheme kRopeInvFreq;
extern const Scheme kRopePixel;
extern const Scheme kPope;
extern const Scheme kFope;
extern const Scheme kSinusoidal;
extern const Scheme kTimestep;
extern const Scheme kGaussianFourier;
extern const Scheme kLearned;
extern const Scheme kGridSinusoidal;
extern const Scheme kDistilled;
extern const Scheme kAlibi;
extern const Scheme kWindowBias;
extern const Scheme kContinuousWindowBias;
extern const Scheme kFire;
extern const Scheme kDynamicPositionBias;
extern const Scheme kForgettingBias;
extern const Scheme kTupe;
extern const Scheme kT5Bucket;
extern const Scheme kKerple;
extern const Scheme kSandwich;
extern const Scheme kShaw;
extern const Scheme kDeberta;
extern const Scheme kTransformerXl;
extern const Scheme kXlnet;
extern const Scheme kConformer;
extern const Scheme kCope;
extern const Scheme kDecomposed;

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_SCHEMES_H_
