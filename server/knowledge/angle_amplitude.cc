#include "server/knowledge/angle_amplitude.h"

#include <cmath>
#include <utility>

#include "server/knowledge/round_numbers.h"

namespace phasor::server {

std::vector<double> AmplitudesOf(const Estimates& e, int64_t columns) {
  std::vector<double> known{1.0, 1 / std::sqrt(static_cast<double>(columns))};
  for (double factor : {2.0, 4.0, 8.0, 16.0, 32.0, 40.0, 64.0}) {
    known.push_back(0.1 * std::log(factor) + 1);
    for (double length : {4096.0, 8192.0, 2048.0}) known.push_back(std::sqrt(1 + std::log(factor) / std::log(length)));
  }
  // What is not known to the digits of a double may be of a float32 library, whose factor is rounded itself.
  const double rounding = e.amplitude_error > 1e-10 * e.amplitude ? 7e-8 : 1e-15;
  return Candidates(e.amplitude, 4 * e.amplitude_error + rounding * e.amplitude, known);
}

std::vector<EncodingSpec> WithAmplitude(const EncodingSpec& spec, double own, const Estimates& e, int64_t columns) {
  const double error = 4 * e.amplitude_error + 1e-15 * e.amplitude;
  // A factor in float32 is off by half a unit itself.
  if (std::fabs(own - e.amplitude) <= error + 7e-8 * own || !std::isfinite(error)) return {spec};
  std::vector<EncodingSpec> specs;
  for (double amplitude : AmplitudesOf(e, columns)) {
    EncodingSpec with = spec;
    if (auto* rope = std::get_if<RopeSpec>(&with)) {
      rope->attention_factor = amplitude;
    } else if (auto* sinusoidal = std::get_if<SinusoidalSpec>(&with)) {
      sinusoidal->scale = amplitude;
    } else {
      return {};
    }
    specs.push_back(std::move(with));
  }
  return specs;
}

}  // namespace phasor::server
