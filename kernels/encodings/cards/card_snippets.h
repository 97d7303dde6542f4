// Programs that make the numbers of a card's example, whole: what they share is written here, the rest is the card's.
#ifndef PHASOR_KERNELS_ENCODINGS_CARDS_CARD_SNIPPETS_H_
#define PHASOR_KERNELS_ENCODINGS_CARDS_CARD_SNIPPETS_H_

#include <string>

#include "kernels/encodings/cards/card_details.h"

namespace phasor {

// Python with torch, float64: ends with `result`, a dict of tensors.
std::string PytorchSnippet(const CardDetails& card);

// C++ against the installed library: prints the same numbers one to a line, in the order of `result`.
std::string CppSnippet(const CardDetails& card);

// The phasor tool from a shell: writes the same arrays to out.npz. Where it needs arrays, Python's own library makes them.
std::string PhasorSnippet(const CardDetails& card);

// Element `index` of an input.
double ExampleValue(const ExampleInput& input, int64_t index);

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_CARDS_CARD_SNIPPETS_H_
