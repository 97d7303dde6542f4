// What somebody wants of a position encoding, and what the model has now.
#ifndef PHASOR_SERVER_KNOWLEDGE_WISHES_H_
#define PHASOR_SERVER_KNOWLEDGE_WISHES_H_

#include <cstdint>
#include <optional>

#include "kernels/encodings/encoding.h"

namespace phasor::server {

// Numbered as the wire's enums.
enum class Task : uint8_t { kLanguageModel = 1, kEncoder = 2, kVision = 3, kSpeech = 4, kTimeSeries = 5, kRetrieval = 6 };
enum class Target : uint8_t { kAny = 1, kOnnx = 2, kTensorRt = 3, kNpu = 4 };
enum class Tuning : uint8_t { kNone = 1, kShort = 2, kFull = 3 };

// Families of what a model has now, as far as they decide what can be done with it.
enum class CurrentKind : uint8_t {
  kNothing = 0,
  kRope = 1,           // plain frequencies
  kYarn = 2,           // scaled already
  kLlama3 = 3,         //
  kLinear = 4,         //
  kDynamicNtk = 5,     // follows the length by itself
  kOtherRope = 6,      // another schedule
  kGridRope = 7,       // plain frequencies, every axis with its own
  kSinusoidal = 8,     // rows by a formula
  kLearned = 9,        // rows of a table
  kGrid = 10,          // sinusoids over a grid
  kAlibi = 11,         // straight lines
  kDistanceBias = 12,  // another bias or term by distance
  kWindow = 13,        // bias over a window of an image
  kDataBias = 14,      // bias that depends on the activations
  kOther = 15,
};
CurrentKind KindOf(const EncodingSpec& spec);

// Lengths 1 … 2^31, head_dim and num_heads 1 … 65536.
struct Wishes {
  Task task = Task::kLanguageModel;
  int64_t trained_length = 1;
  int64_t wanted_length = 1;
  int64_t head_dim = 128;
  int64_t num_heads = 32;
  std::optional<int64_t> memory_limit_bytes;
  Target target = Target::kAny;
  Tuning tuning = Tuning::kNone;
  std::optional<EncodingSpec> current;  // canonical
  bool current_is_assumed = false;      // nobody said it: what such models usually have

  double ratio() const { return static_cast<double>(wanted_length) / static_cast<double>(trained_length); }
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_WISHES_H_
