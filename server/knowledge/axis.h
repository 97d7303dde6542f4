// Axes of pictures: from numbers to pixels, with ticks that people like.
#ifndef PHASOR_SERVER_KNOWLEDGE_AXIS_H_
#define PHASOR_SERVER_KNOWLEDGE_AXIS_H_

#include <string>
#include <vector>

namespace phasor::server {

struct Tick {
  double value = 0;
  std::string label;
};

class Axis {
 public:
  // low < high (both > 0 where logarithmic; equal ones are moved apart); pixels of the two ends.
  Axis(double low, double high, bool logarithmic, double pixel_low, double pixel_high);

  // Where a value lies; values beyond the ends lie beyond them.
  double Pixel(double value) const;
  bool Shows(double value) const { return value >= low_ && value <= high_; }
  // Steps of 1, 2 or 5 times a power of ten, at most about `most` of them (≥ 2); logarithmic: powers of ten, or 1, 2 and 5
  // of each where there is room.
  std::vector<Tick> Ticks(int most) const;

  double low() const { return low_; }
  double high() const { return high_; }
  bool logarithmic() const { return logarithmic_; }

 private:
  double low_, high_;
  bool logarithmic_;
  double pixel_low_, pixel_high_;
};

// A number for people: "0", "65536", "0.25", "1e-7", with a true minus sign.
std::string Label(double value);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_AXIS_H_
