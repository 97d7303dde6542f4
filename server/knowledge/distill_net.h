// The perceptron that is trained: its numbers, its error on the rows of a table, and the gradient of that.
#ifndef PHASOR_SERVER_KNOWLEDGE_DISTILL_NET_H_
#define PHASOR_SERVER_KNOWLEDGE_DISTILL_NET_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/training.h"
#include "kernels/encodings/perceptron.h"
#include "server/knowledge/numbers.h"

namespace phasor::server {

// Of the table's own numbers: errors are in its units.
struct NetError {
  double loss = 0;  // what is minimised: the mean square, in units of `scale`², and the ridge
  double rms = 0, max = 0;
};

// Rows are positions p, x = 2·(p/(rows − 1)) − 1. Parameters, padded by zeros to whole vectors: w1 [width], b1 [width], w2
// transposed [hidden, wide], b2 [wide]. The last layer belongs to the evaluation, not to the parameters: it is the best one.
class TrainingNet {
 public:
  // `cancel` may be null; it must outlive the net. `between`, where there is one, is called between pieces of the products,
  // a few hundredths of a second apart.
  TrainingNet(const Grid& values, int64_t hidden, const CancelFlag* cancel, std::function<void()> between = nullptr,
              int64_t products_at_once = int64_t{1} << 26);

  // Where training starts: units of both layers change their slope at points spread over the range.
  std::vector<double> Start(uint64_t seed);

  // Errors and their gradient by the parameters. False: not finite, without a best last layer, or cancelled, which
  // is looked at between pieces of products.
  bool Evaluate(const std::vector<double>& parameters, NetError* error, std::vector<double>* gradient);

  // With the last layer of the evaluation before.
  Perceptron Make(const std::vector<double>& parameters) const;

  // Bytes that a net of this size takes, about.
  static int64_t Bytes(int64_t rows, int64_t columns, int64_t hidden);

 private:
  // AddProduct in pieces of rows, whose sums are the same. False: cancelled.
  bool Multiply(int64_t rows, int64_t columns, int64_t inner, MatrixView a, const double* b, int64_t b_stride, double* c,
                int64_t c_stride);
  bool Forward(const std::vector<double>& parameters);
  bool SolveLast();
  bool Measure(NetError* error);
  bool Backward(const std::vector<double>& parameters, std::vector<double>* gradient);

  int64_t w1() const { return 0; }
  int64_t b1() const { return width_; }
  int64_t w2() const { return 2 * width_; }
  int64_t b2() const { return 2 * width_ + hidden_ * wide_; }
  int64_t size() const { return b2() + wide_; }

  const CancelFlag* const cancel_;
  const std::function<void()> between_;
  const int64_t products_at_once_;
  const int64_t rows_, columns_, hidden_;
  const int64_t width_, wide_, across_;  // hidden, hidden + 1 and columns, padded
  double scale_ = 1;                     // a power of two, about the size of the table's numbers
  double ridge_ = 0;
  bool settled_ = false;                   // the ridge is
  std::vector<double> x_;                  // [rows]
  std::vector<double> target_, residual_;  // [rows, across], in units of scale
  std::vector<double> a1_, slope1_;        // [rows, width]
  std::vector<double> a2_, slope2_;        // [rows, wide]; column `hidden` of a2 is 1
  std::vector<double> back_;               // [rows, wide]
  std::vector<double> gram_;               // [wide, wide]
  std::vector<double> last_;               // [wide, across]: weights of the last layer transposed, then its bias
  std::vector<double> turned_;             // a layer the other way round
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_DISTILL_NET_H_
