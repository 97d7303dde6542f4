// How long a thread wants to run before others do.
#ifndef PHASOR_SERVER_TIME_SLICE_H_
#define PHASOR_SERVER_TIME_SLICE_H_

#include <chrono>

namespace phasor::server {

// Threads that parse and answer want little, and at once; threads that build want much, and can wait: who wakes up with less
// to do interrupts them. Shares of a processor stay as they are.
inline constexpr std::chrono::microseconds kShortSlice{300};
inline constexpr std::chrono::microseconds kLongSlice{20'000};

// Of the calling thread. A wish: Linux before 6.12 and other systems have one length for all.
void AskForTimeSlice(std::chrono::microseconds slice);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_TIME_SLICE_H_
