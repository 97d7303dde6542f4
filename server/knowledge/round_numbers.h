// Numbers that people write, near numbers that were measured.
#ifndef PHASOR_SERVER_KNOWLEDGE_ROUND_NUMBERS_H_
#define PHASOR_SERVER_KNOWLEDGE_ROUND_NUMBERS_H_

#include <span>
#include <vector>

namespace phasor::server {

// The number with the fewest decimal digits within value ± error; value itself where that needs more than 15.
double Roundest(double value, double error);

// How many significant decimal digits a number needs, up to 17.
int DigitsOf(double value);
// The nearest number of so many significant decimal digits, 1 … 17.
double WithDigits(double value, int digits);

// Bases that configurations use, likeliest first.
std::span<const double> KnownBases();

// Candidates for a measured number: the listed ones within the error, then the roundest, then the measured one; no doubles.
std::vector<double> Candidates(double value, double error, std::span<const double> known);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_ROUND_NUMBERS_H_
