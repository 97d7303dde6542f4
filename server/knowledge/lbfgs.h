// Minimising a smooth function of many numbers with limited memory (L-BFGS; Nocedal 1980, "Updating quasi-Newton matrices
// with limited storage").
#ifndef PHASOR_SERVER_KNOWLEDGE_LBFGS_H_
#define PHASOR_SERVER_KNOWLEDGE_LBFGS_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/functional/function_ref.h"

namespace phasor::server {

// The value of the function and its gradient at a point. False: it has none there.
using Differentiable = absl::FunctionRef<bool(const std::vector<double>& at, double* value, std::vector<double>* gradient)>;

// One search: Step evaluates once. The sums have a fixed order.
class Lbfgs {
 public:
  explicit Lbfgs(std::vector<double> start) : point_(std::move(start)) {}

  // Evaluates the next point that is tried. False: nothing better can be found from here, and nothing was evaluated; or the
  // function has no value at the start.
  bool Step(Differentiable function);

 private:
  struct Pair {
    std::vector<double> s, y;  // steps of the point and of the gradient
    double rho = 0;            // 1/(s·y)
  };

  void NewDirection();
  bool Retreat();
  void Accept(double value, std::vector<double> gradient);

  std::vector<double> point_, gradient_;  // the best so far
  double value_ = 0;
  bool started_ = false;
  std::deque<Pair> pairs_;
  std::vector<double> direction_, trial_, trial_gradient_;
  double slope_ = 0;   // of the function along the direction, below 0
  double length_ = 0;  // of the trial along it; 0: a new direction is needed
  int retreats_ = 0;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_LBFGS_H_
