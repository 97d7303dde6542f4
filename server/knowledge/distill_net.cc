#include "server/knowledge/distill_net.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/core/philox.h"
#include "server/knowledge/least_squares.h"

namespace phasor::server {
namespace {

// Of the square of an activation, summed over the rows: far above the rounding of the sums, far below what can be seen.
constexpr double kRidge = 1e-13;
constexpr double kMostRidge = 1;
constexpr int64_t kLeastRows = 16;  // of a piece

std::vector<double> Zeros(int64_t count) { return std::vector<double>(static_cast<size_t>(count)); }

// Numbers in [0, 1), from words of Philox.
class Uniform {
 public:
  explicit Uniform(uint64_t seed) : seed_(seed) {}
  double operator()() {
    if (word_ == 4) {
      block_ = Philox(seed_, 0, next_++);
      word_ = 0;
    }
    return block_[word_++] * 0x1p-32;
  }

 private:
  const uint64_t seed_;
  uint64_t next_ = 0;
  PhiloxBlock block_{};
  size_t word_ = 4;
};

// [columns, rows] of [rows, columns], with the strides of both.
void Turn(const double* from, int64_t rows, int64_t columns, int64_t from_stride, int64_t to_stride,
          std::vector<double>* to) {
  to->assign(static_cast<size_t>(columns * to_stride), 0.0);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) (*to)[static_cast<size_t>(c * to_stride + r)] = from[r * from_stride + c];
  }
}

double PowerOfTwoNear(double size) {
  int exponent = 0;
  std::frexp(size, &exponent);
  return size > 0 ? std::ldexp(1.0, std::clamp(exponent, -500, 500)) : 1.0;
}

}  // namespace

TrainingNet::TrainingNet(const Grid& values, int64_t hidden, const CancelFlag* cancel, std::function<void()> between,
                         int64_t products_at_once)
    : cancel_(cancel),
      between_(std::move(between)),
      products_at_once_(products_at_once),
      rows_(values.rows),
      columns_(values.columns),
      hidden_(hidden),
      width_(PaddedToLanes(hidden)),
      wide_(PaddedToLanes(hidden + 1)),
      across_(PaddedToLanes(values.columns)),
      x_(Zeros(rows_)),
      target_(Zeros(rows_ * across_)),
      residual_(Zeros(rows_ * across_)),
      a1_(Zeros(rows_ * width_)),
      slope1_(Zeros(rows_ * width_)),
      a2_(Zeros(rows_ * wide_)),
      slope2_(Zeros(rows_ * wide_)),
      back_(Zeros(rows_ * wide_)),
      gram_(Zeros(wide_ * wide_)),
      last_(Zeros(wide_ * across_)) {
  double largest = 0;
  for (const double value : values.values) largest = std::max(largest, std::fabs(value));
  scale_ = PowerOfTwoNear(largest);
  ridge_ = kRidge * static_cast<double>(rows_);
  for (int64_t p = 0; p < rows_; ++p) {
    x_[p] = 2 * (static_cast<double>(p) / static_cast<double>(rows_ - 1)) - 1;
    for (int64_t c = 0; c < columns_; ++c) target_[p * across_ + c] = values.at(p, c) / scale_;
  }
}

std::vector<double> TrainingNet::Start(uint64_t seed) {
  std::vector<double> start = Zeros(size());
  Uniform uniform(seed);
  const double count = static_cast<double>(hidden_);
  for (int64_t i = 0; i < hidden_; ++i) {
    const double knot = 2 * (static_cast<double>(i) + uniform()) / count - 1;
    const double steepness = std::ldexp(1.0, static_cast<int>(7 * uniform()));  // 1 … 64
    const double slope = uniform() < 0.5 ? -steepness : steepness;
    start[w1() + i] = slope;
    start[b1() + i] = -slope * knot;
  }
  Forward(start);
  for (int64_t i = 0; i < hidden_; ++i) {
    double mean = 0, square = 0;
    for (int64_t p = 0; p < rows_; ++p) mean += a1_[p * width_ + i];
    mean /= static_cast<double>(rows_);
    for (int64_t p = 0; p < rows_; ++p) square += (a1_[p * width_ + i] - mean) * (a1_[p * width_ + i] - mean);
    const double spread = std::sqrt(square / static_cast<double>(rows_)) + 1e-3;
    for (int64_t j = 0; j < hidden_; ++j) {
      start[w2() + i * wide_ + j] = (2 * uniform() - 1) * 4 / (spread * std::sqrt(count));
    }
  }
  // Every unit of the second layer is 0 at its own point of the range.
  for (int64_t j = 0; j < hidden_; ++j) {
    const int64_t p =
        std::min(static_cast<int64_t>((static_cast<double>(j) + 0.5) / count * static_cast<double>(rows_)), rows_ - 1);
    double sum = 0;
    for (int64_t i = 0; i < hidden_; ++i) sum += a1_[p * width_ + i] * start[w2() + i * wide_ + j];
    start[b2() + j] = -sum;
  }
  return start;
}

bool TrainingNet::Multiply(int64_t rows, int64_t columns, int64_t inner, MatrixView a, const double* b, int64_t b_stride,
                           double* c, int64_t c_stride) {
  const int64_t at_once = std::max(kLeastRows, products_at_once_ / (columns * inner));
  for (int64_t row = 0; row < rows; row += at_once) {
    if (between_) between_();
    if (cancel_ != nullptr && cancel_->load(std::memory_order_relaxed)) return false;
    AddProduct(std::min(at_once, rows - row), columns, inner, {a.at + row * a.row_stride, a.row_stride, a.column_stride}, b,
               b_stride, c + row * c_stride, c_stride);
  }
  return true;
}

bool TrainingNet::Forward(const std::vector<double>& parameters) {
  const double* const at = parameters.data();
  for (int64_t p = 0; p < rows_; ++p) {
    for (int64_t i = 0; i < width_; ++i) a1_[p * width_ + i] = at[w1() + i] * x_[p] + at[b1() + i];
    std::copy_n(at + b2(), wide_, a2_.begin() + p * wide_);
  }
  SiluWithSlope(a1_.data(), rows_ * width_, a1_.data(), slope1_.data());
  if (!Multiply(rows_, wide_, hidden_, {a1_.data(), width_, 1}, at + w2(), wide_, a2_.data(), wide_)) return false;
  SiluWithSlope(a2_.data(), rows_ * wide_, a2_.data(), slope2_.data());
  for (int64_t p = 0; p < rows_; ++p) {
    for (int64_t j = hidden_; j < wide_; ++j) slope2_[p * wide_ + j] = 0;
    a2_[p * wide_ + hidden_] = 1;
  }
  return true;
}

// At the start the ridge is raised until the system can be solved, which it cannot always where there are fewer rows than
// units; later it stays, since it is part of what is minimised.
bool TrainingNet::SolveLast() {
  for (;;) {
    std::fill(gram_.begin(), gram_.end(), 0.0);
    if (!Multiply(wide_, wide_, rows_, {a2_.data(), 1, wide_}, a2_.data(), wide_, gram_.data(), wide_)) return false;
    for (int64_t j = 0; j <= hidden_; ++j) gram_[j * wide_ + j] += ridge_;
    if (Cholesky(hidden_ + 1, wide_, gram_.data())) break;
    if (settled_ || ridge_ > kMostRidge * static_cast<double>(rows_)) return false;
    ridge_ *= 10;
  }
  settled_ = true;
  std::fill(last_.begin(), last_.end(), 0.0);
  if (!Multiply(wide_, across_, rows_, {a2_.data(), 1, wide_}, target_.data(), across_, last_.data(), across_)) return false;
  SolveCholesky(hidden_ + 1, wide_, gram_.data(), across_, across_, last_.data());
  return true;
}

bool TrainingNet::Measure(NetError* error) {
  for (size_t i = 0; i < target_.size(); ++i) residual_[i] = -target_[i];
  if (!Multiply(rows_, across_, wide_, {a2_.data(), wide_, 1}, last_.data(), across_, residual_.data(), across_))
    return false;
  double squares = 0, largest = 0, weights = 0;
  for (int64_t p = 0; p < rows_; ++p) {
    double row = 0;
    for (int64_t c = 0; c < columns_; ++c) {
      const double r = residual_[p * across_ + c];
      row += r * r;
      largest = std::max(largest, std::fabs(r));
    }
    squares += row;
  }
  for (const double w : last_) weights += w * w;
  const double numbers = static_cast<double>(rows_ * columns_);
  *error = {(squares + ridge_ * weights) / numbers, std::sqrt(squares / numbers) * scale_, largest * scale_};
  return std::isfinite(error->loss);
}

bool TrainingNet::Backward(const std::vector<double>& parameters, std::vector<double>* gradient) {
  gradient->assign(static_cast<size_t>(size()), 0.0);
  const double factor = 2 / static_cast<double>(rows_ * columns_);
  // By the second layer's sums.
  Turn(last_.data(), wide_, columns_, across_, wide_, &turned_);
  std::fill(back_.begin(), back_.end(), 0.0);
  if (!Multiply(rows_, wide_, columns_, {residual_.data(), across_, 1}, turned_.data(), wide_, back_.data(), wide_)) {
    return false;
  }
  double* const to = gradient->data();
  for (int64_t p = 0; p < rows_; ++p) {
    for (int64_t j = 0; j < wide_; ++j) {
      double& d = back_[p * wide_ + j];
      d *= slope2_[p * wide_ + j] * factor;
      to[b2() + j] += d;
    }
  }
  if (!Multiply(hidden_, wide_, rows_, {a1_.data(), 1, width_}, back_.data(), wide_, to + w2(), wide_)) return false;
  // By the first layer's: its activations are not needed any more.
  Turn(parameters.data() + w2(), hidden_, hidden_, wide_, width_, &turned_);
  std::fill(a1_.begin(), a1_.end(), 0.0);
  if (!Multiply(rows_, width_, hidden_, {back_.data(), wide_, 1}, turned_.data(), width_, a1_.data(), width_)) return false;
  for (int64_t p = 0; p < rows_; ++p) {
    for (int64_t i = 0; i < hidden_; ++i) {
      const double d = a1_[p * width_ + i] * slope1_[p * width_ + i];
      to[w1() + i] += d * x_[p];
      to[b1() + i] += d;
    }
  }
  return true;
}

bool TrainingNet::Evaluate(const std::vector<double>& parameters, NetError* error, std::vector<double>* gradient) {
  if (!Forward(parameters) || !SolveLast() || !Measure(error) || !Backward(parameters, gradient)) return false;
  for (const double g : *gradient) {
    if (!std::isfinite(g)) return false;
  }
  return true;
}

Perceptron TrainingNet::Make(const std::vector<double>& parameters) const {
  Perceptron perceptron;
  perceptron.activation = Activation::kSilu;
  PerceptronLayer first, second, last;
  first.inputs = 1;
  first.outputs = second.inputs = second.outputs = last.inputs = hidden_;
  last.outputs = columns_;
  const auto at = [&](int64_t begin) { return parameters.begin() + begin; };
  first.weight.assign(at(w1()), at(w1() + hidden_));
  first.bias.assign(at(b1()), at(b1() + hidden_));
  for (int64_t j = 0; j < hidden_; ++j) {
    for (int64_t i = 0; i < hidden_; ++i) second.weight.push_back(parameters[w2() + i * wide_ + j]);
  }
  second.bias.assign(at(b2()), at(b2() + hidden_));
  for (int64_t c = 0; c < columns_; ++c) {
    for (int64_t j = 0; j < hidden_; ++j) last.weight.push_back(last_[j * across_ + c] * scale_);
    last.bias.push_back(last_[hidden_ * across_ + c] * scale_);
  }
  perceptron.layers = {std::move(first), std::move(second), std::move(last)};
  return perceptron;
}

int64_t TrainingNet::Bytes(int64_t rows, int64_t columns, int64_t hidden) {
  const int64_t width = PaddedToLanes(hidden), wide = PaddedToLanes(hidden + 1), across = PaddedToLanes(columns);
  return 8 * (rows * (1 + 2 * across + 2 * width + 3 * wide) + 2 * wide * (wide + across));
}

}  // namespace phasor::server
