// Values that the file gives, or else the class.
#ifndef PHASOR_SERVER_RESOLVE_CLASS_VALUES_H_
#define PHASOR_SERVER_RESOLVE_CLASS_VALUES_H_

#include <string_view>
#include <vector>

#include "server/resolve/family.h"

namespace phasor::server {

inline constexpr double kTwoPi = 6.283185307179586476925;

struct WholeRange {
  int64_t low = 1, high = 0;  // both may be taken
};

// A whole number of the object, a part of the model's file, or the class's with a note in `defaults`. One outside the range
// is a problem, and the class's is answered.
int64_t OrOfClass(const Model& model, const JsonObject& object, std::string_view key, WholeRange range, int64_t of_class,
                  std::vector<Note>& defaults);

// Fails at the key: a word that is none of the allowed ones, which may be long.
void FailWord(const Model& model, const JsonObject& object, std::string_view key, std::string_view word,
              std::string_view allowed);

// Takes back what Canonicalize says of an attention_factor that somebody gives: this one is the reader's own.
void ForgetAttentionFactor(CanonicalSpec& spec);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RESOLVE_CLASS_VALUES_H_
