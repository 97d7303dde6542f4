// Decimal strings and MPFR numbers, for expectations that owe nothing to the code under test.
#ifndef PHASOR_TESTS_KERNELS_ENCODINGS_DECIMAL_H_
#define PHASOR_TESTS_KERNELS_ENCODINGS_DECIMAL_H_

#include <mpfr.h>

#include <string>

namespace phasor {

// A 300-bit MPFR number that frees itself.
class Mpfr {
 public:
  Mpfr() { mpfr_init2(value_, 300); }
  explicit Mpfr(const std::string& decimal) : Mpfr() { mpfr_set_str(value_, decimal.c_str(), 10, MPFR_RNDN); }
  explicit Mpfr(double d) : Mpfr() { mpfr_set_d(value_, d, MPFR_RNDN); }
  Mpfr(Mpfr&& other) noexcept : Mpfr() { mpfr_swap(value_, other.value_); }
  Mpfr& operator=(Mpfr&&) = delete;
  ~Mpfr() { mpfr_clear(value_); }

  mpfr_ptr get() { return value_; }
  mpfr_srcptr get() const { return value_; }
  double ToDouble() const { return mpfr_get_d(value_, MPFR_RNDN); }
  // In double: |this − other| / |other|; 0 when both are zero.
  double RelativeError(const Mpfr& other) const {
    Mpfr difference;
    mpfr_sub(difference.get(), value_, other.value_, MPFR_RNDN);
    if (mpfr_zero_p(difference.get())) return 0;
    mpfr_div(difference.get(), difference.get(), other.value_, MPFR_RNDN);
    mpfr_abs(difference.get(), difference.get(), MPFR_RNDN);
    return difference.ToDouble();
  }

 private:
  mpfr_t value_;
};

}  // namespace phasor

#endif  // PHASOR_TESTS_KERNELS_ENCODINGS_DECIMAL_H_
