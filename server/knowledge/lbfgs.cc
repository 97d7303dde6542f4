#include "server/knowledge/lbfgs.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace phasor::server {
namespace {

constexpr size_t kPairs = 20;
constexpr double kDecrease = 1e-4;  // of what the slope promises, that a step must bring
constexpr int kMaxRetreats = 12;

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sums[8] = {};  // side by side, for vectors
  size_t i = 0;
  for (; i + 8 <= a.size(); i += 8) {
    for (size_t k = 0; k < 8; ++k) sums[k] += a[i + k] * b[i + k];
  }
  for (; i < a.size(); ++i) sums[i % 8] += a[i] * b[i];
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

void Add(double factor, const std::vector<double>& from, std::vector<double>* to) {
  for (size_t i = 0; i < from.size(); ++i) (*to)[i] += factor * from[i];
}

}  // namespace

// Two loops over the pairs give the quasi-Newton direction.
void Lbfgs::NewDirection() {
  direction_ = gradient_;
  std::vector<double> alphas(pairs_.size());
  for (size_t i = pairs_.size(); i-- > 0;) {
    alphas[i] = pairs_[i].rho * Dot(pairs_[i].s, direction_);
    Add(-alphas[i], pairs_[i].y, &direction_);
  }
  double size = 1;
  if (!pairs_.empty()) {
    const Pair& last = pairs_.back();
    size = 1 / (last.rho * Dot(last.y, last.y));
  }
  for (double& d : direction_) d *= size;
  for (size_t i = 0; i < pairs_.size(); ++i) {
    Add(alphas[i] - pairs_[i].rho * Dot(pairs_[i].y, direction_), pairs_[i].s, &direction_);
  }
  for (double& d : direction_) d = -d;
  slope_ = Dot(direction_, gradient_);
  // The first step is a guess: a hundredth of the point's size.
  length_ = pairs_.empty() ? 0.01 * std::sqrt(Dot(point_, point_) / std::max(Dot(gradient_, gradient_), 1e-300)) : 1;
  retreats_ = 0;
}

// A shorter step after a bad one; from a bad direction to the steepest one. False: that was bad too.
bool Lbfgs::Retreat() {
  if (++retreats_ <= kMaxRetreats) {
    length_ *= retreats_ < 3 ? 0.5 : 0.2;
    return true;
  }
  if (pairs_.empty()) return false;
  pairs_.clear();
  length_ = 0;
  return true;
}

void Lbfgs::Accept(double value, std::vector<double> gradient) {
  Pair pair;
  pair.s = direction_;
  for (double& s : pair.s) s *= length_;
  pair.y = gradient;
  Add(-1, gradient_, &pair.y);
  const double product = Dot(pair.s, pair.y);
  // Where the function curves the wrong way the pair would spoil the directions.
  if (product > 1e-12 * std::sqrt(Dot(pair.s, pair.s) * Dot(pair.y, pair.y))) {
    pair.rho = 1 / product;
    pairs_.push_back(std::move(pair));
    if (pairs_.size() > kPairs) pairs_.pop_front();
  }
  point_ = trial_;
  gradient_ = std::move(gradient);
  value_ = value;
  length_ = 0;
}

bool Lbfgs::Step(Differentiable function) {
  if (!started_) {
    started_ = true;
    return function(point_, &value_, &gradient_);
  }
  if (length_ == 0) {
    NewDirection();
    if (!(slope_ < 0) && !pairs_.empty()) {
      pairs_.clear();
      NewDirection();
    }
    if (!(slope_ < 0)) return false;
  }
  trial_ = point_;
  Add(length_, direction_, &trial_);
  if (trial_ == point_) return false;
  double value = 0;
  if (function(trial_, &value, &trial_gradient_) && value <= value_ + kDecrease * length_ * slope_) {
    Accept(value, std::move(trial_gradient_));
    return true;
  }
  return Retreat();
}

}  // namespace phasor::server
