// Cuts scratch memory into arrays.
#ifndef PHASOR_KERNELS_PROGRAM_SCRATCH_H_
#define PHASOR_KERNELS_PROGRAM_SCRATCH_H_

#include <cstddef>
#include <cstdint>

namespace phasor {

// Arrays one after the other, each aligned to 64 bytes beside an aligned start. Over a null start it only counts.
class ScratchCutter {
 public:
  explicit ScratchCutter(std::byte* start) : start_(start) {}

  std::byte* Bytes(int64_t bytes) {
    std::byte* at = start_ == nullptr ? nullptr : start_ + used_;
    used_ += (bytes + 63) / 64 * 64;
    return at;
  }
  double* Doubles(int64_t count) { return reinterpret_cast<double*>(Bytes(count * static_cast<int64_t>(sizeof(double)))); }
  int64_t used() const { return used_; }

 private:
  std::byte* start_;
  int64_t used_ = 0;
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_PROGRAM_SCRATCH_H_
