// Schedules that make given frequencies, as specs to be verified.
#ifndef PHASOR_SERVER_KNOWLEDGE_ANGLE_SCHEDULES_H_
#define PHASOR_SERVER_KNOWLEDGE_ANGLE_SCHEDULES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/encodings/spec.h"

namespace phasor::server {

// Measured frequencies, radians per position, one per pair, from the first.
struct FrequencyList {
  std::vector<double> value;
  std::vector<double> error;  // relative, one standard deviation; ≥ 1: not known
  double floor = 4e-15;       // relative, what the frequencies themselves were rounded to
  double rounding = 0;        // relative, what float32 angles add to the error of a frequency
  double amplitude = 1, amplitude_error = 0;
  std::optional<int64_t> sequence_length;

  int64_t pairs() const { return static_cast<int64_t>(value.size()); }
  // Five deviations: nothing right lies beyond.
  double tolerance(size_t i) const { return 5 * error[i] + floor; }
  bool is_known(size_t i) const { return error[i] < 0.3 && value[i] > 0; }
};

struct Candidate {
  EncodingSpec spec;
  std::optional<int64_t> sequence_length;
  std::string note;
  bool keeps_amplitude = false;  // the table must have the spec's own attention factor
};

// ln frequency = intercept − slope·i over pairs [begin, end) that are known.
struct Line {
  double intercept = 0, slope = 0, intercept_error = 0, slope_error = 0;
  double worst = 0;  // largest deviation over the tolerance; ≤ 1: they lie on it
  int64_t used = 0;
};
Line FitLine(const FrequencyList& list, int64_t begin, int64_t end);
// The same through ln frequency = 0 at pair 0.
Line FitLineFromOne(const FrequencyList& list, int64_t begin, int64_t end);

// Rotary schedules, plainest first. Attention factors are left to SetAmplitude.
std::vector<Candidate> RopeCandidates(const FrequencyList& list);
// Those with a ramp between kept and divided frequencies: YaRN, Llama 3. Part of the above.
void AddRampCandidates(const FrequencyList& list, std::vector<Candidate>& out);
// NTK-aware and dynamic scaling whose plain base is this. Part of the above.
void AddNtkCandidates(const FrequencyList& list, double base, double error, std::vector<Candidate>& out);
// Su's mixed form, the pixel form and a prefix of live pairs. Part of the above.
void AddRareCandidates(const FrequencyList& list, std::vector<Candidate>& out);

// Sinusoidal tables and timesteps of `columns` columns; `cos_first` and `interleaved` say how they stand, `zero_column` that
// the last column is zeros.
struct AbsoluteForm {
  int64_t columns = 0;
  bool cos_first = false, interleaved = false, zero_column = false;
};
std::vector<Candidate> AbsoluteCandidates(const FrequencyList& list, const AbsoluteForm& form);

// θ divided by a list of factors that people wrote, where measured ones are that round.
std::vector<Candidate> FactorCandidates(const FrequencyList& list);

// Bases that these could have been raised from, for the first pairs or the last ones.
std::vector<double> BaseCandidates(const FrequencyList& list);

// Frequencies as they are.
RopeSpec GivenFrequencies(const std::vector<double>& frequencies);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_ANGLE_SCHEDULES_H_
