// Which starts leave every pair of a table some frequency, whatever the schedule.
#ifndef PHASOR_SERVER_KNOWLEDGE_ANGLE_REGIONS_H_
#define PHASOR_SERVER_KNOWLEDGE_ANGLE_REGIONS_H_

#include <cstdint>
#include <vector>

#include "server/knowledge/angle_estimate.h"
#include "server/knowledge/angle_layout.h"

namespace phasor::server {

// A pair that turns evenly has an angle of phase + frequency·x at row anchor + x. Every value was rounded once, so it leaves
// an arc for the angle of its row, and all rows together leave a convex region of (frequency, phase). A start asks for
// phase ≡ frequency·(start + anchor) mod 2π: a line, which crosses the region or does not. What no region lets pass cannot
// be the table, but for pairs too slow or too coarse to have a region, which let everything pass.
class TurnRegions {
 public:
  // `float32`: angles were rounded to float32 first, which widens arcs the more the later a start is.
  TurnRegions(const PairTable& table, const Estimates& estimates, bool float32);

  bool Allows(int64_t start);
  // Starts from 0 to `highest` that are allowed: at most so many, the first ones and then some of all others, latest first.
  std::vector<int64_t> Starts(int64_t highest, size_t most);

 private:
  struct Point {
    double frequency = 0, phase = 0;  // beside the estimate
  };
  struct Region {
    bool is_open = false;  // lets everything pass
    double frequency = 0, phase = 0;
    std::vector<Point> corners;  // none: nothing is left
  };

  Region RegionOf(int64_t pair, double more) const;
  bool Clip(std::vector<Point>& corners, double x, double low, double high) const;
  void Meet(Region& region, int64_t row, int64_t pair, double more, double reach_frequency, double reach_phase) const;
  const Region& At(size_t order, int level);
  bool Passes(const Region& region, double position) const;
  int LevelOf(double position) const;

  const PairTable& table_;
  const Estimates& estimates_;
  bool float32_;
  double amplitude_ = 1, slack_ = 0;
  std::vector<int64_t> order_;  // pairs, those that decide most first
  std::vector<std::vector<Region>> levels_;
  std::vector<std::vector<bool>> made_;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_ANGLE_REGIONS_H_
