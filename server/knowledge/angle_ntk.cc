// Schedules that raise the base.
#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "server/knowledge/angle_schedules.h"
#include "server/knowledge/round_numbers.h"

namespace phasor::server {
namespace {

// base' = base·s^(d/(d−2)) with a base and a factor that people use.
void AddAware(const FrequencyList& list, double base, double error, std::vector<Candidate>& out) {
  const double d = 2 * static_cast<double>(list.pairs());
  if (d <= 2 || DigitsOf(Roundest(base, error)) <= 3) return;
  // Factors that people use, those of Qwen among them, on a base that somebody wrote.
  for (double factor : {2.0, 4.0, 8.0, 16.0, 32.0, 3.0, 1.5, 40.0, 7.0, 15.0, 31.0}) {
    const double by = std::pow(factor, d / (d - 2)), original = Roundest(base / by, error / by);
    if (error > 1e-6 * base || DigitsOf(original) > 4) continue;
    RopeSpec rope;
    rope.head_dim = 2 * list.pairs();
    rope.base = original;
    rope.schedule = NtkAwareSchedule{factor};
    out.push_back({rope, std::nullopt,
                   absl::StrCat("dynamic NTK gives the same numbers where factor·L/M − (factor − 1) is ", factor,
                                ", and so does plain RoPE of base ", base)});
  }
  for (double original : KnownBases().first(12)) {
    if (base <= original * 1.01) continue;
    const double alpha = std::pow(base / original, (d - 2) / d), alpha_error = alpha * error / base;
    if (alpha_error > 0.01 * alpha) continue;
    for (double candidate : {Roundest(alpha, alpha_error), std::round(alpha * 32768) / 32768}) {
      if (std::fabs(candidate - alpha) > alpha_error || (candidate != Roundest(alpha, alpha_error) && alpha_error > 1e-6)) {
        continue;
      }
      if (DigitsOf(candidate) > 4 && alpha_error > 1e-7) continue;
      RopeSpec rope;
      rope.head_dim = 2 * list.pairs();
      rope.base = original;
      rope.schedule = NtkAwareSchedule{candidate};
      out.push_back({rope, std::nullopt,
                     absl::StrCat("dynamic NTK gives the same numbers where factor·L/M − (factor − 1) is ", candidate,
                                  ", and so does plain RoPE of base ", base)});
    }
  }
}

// base' = base·(s·L/M − (s − 1))^(d/(d−2)) with s and M that people use, where the base is known so well that only the right
// ones make L whole. Other ones with the same numbers do as well.
void AddDynamic(const FrequencyList& list, double raised, double error, double base, std::vector<Candidate>& out) {
  constexpr std::array kStretches{2.0, 4.0, 8.0, 16.0, 32.0, 1.5, 40.0, 3.0};
  constexpr std::array<int64_t, 8> kLengths{4096, 2048, 8192, 32768, 16384, 1024, 65536, 131072};
  constexpr size_t kMost = 12;
  const double d = 2 * static_cast<double>(list.pairs());
  if (raised <= base * 1.001) return;
  const double alpha = std::pow(raised / base, (d - 2) / d), alpha_error = alpha * error / raised;
  for (double factor : kStretches) {
    for (int64_t length : kLengths) {
      const double m = static_cast<double>(length), exact = (alpha + factor - 1) * m / factor, whole = std::round(exact);
      const double slack = alpha_error * m / factor + 1e-12 * exact;
      if (slack > 1e-3 || std::fabs(exact - whole) > slack || whole <= m || whole > 128 * m) continue;
      if (out.size() >= kMost) return;
      RopeSpec rope;
      rope.head_dim = 2 * list.pairs();
      rope.base = base;
      rope.schedule = DynamicNtkSchedule{factor, length};
      out.push_back({rope, static_cast<int64_t>(whole),
                     absl::StrCat("other factors and lengths with factor·L/M − (factor − 1) = ", alpha,
                                  " give the same numbers, and so does NTK-aware scaling by that")});
    }
  }
}

}  // namespace

void AddNtkCandidates(const FrequencyList& list, double base, double error, std::vector<Candidate>& out) {
  AddAware(list, base, error, out);
  if (list.pairs() < 2 || error > 1e-9 * base) return;
  for (double known : KnownBases()) AddDynamic(list, base, error, known, out);
  // Other bases of up to three digits.
  for (double unit = 1; unit <= 1e5; unit *= 10) {
    for (int number = 100; number <= 999; ++number) AddDynamic(list, base, error, number * unit, out);
  }
}

}  // namespace phasor::server
