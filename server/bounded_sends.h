// How much a program that has bounded_sends.cc hands to the kernel at a time.
#ifndef PHASOR_SERVER_BOUNDED_SENDS_H_
#define PHASOR_SERVER_BOUNDED_SENDS_H_

#include <cstddef>

namespace phasor::server {

// About half a millisecond of copying. A quarter of it costs large answers 15 %.
inline constexpr size_t kMostAtOnce = size_t{1} << 20;

}  // namespace phasor::server

#endif  // PHASOR_SERVER_BOUNDED_SENDS_H_
