// SIGTERM and SIGINT, taken by waiting for them rather than by handlers.
#ifndef PHASOR_SERVER_SIGNALS_H_
#define PHASOR_SERVER_SIGNALS_H_

namespace phasor::server {

// Blocks both in the calling thread and in every thread that it starts: call it first thing in main, so that a signal that
// comes during start-up waits instead of killing. SIGPIPE is ignored.
void BlockSignals();

// The next of the two, blocked before.
int WaitForSignal();

// From now on the next signal ends the process at once, with exit code 128 + its number.
void ExitOnNextSignal();

}  // namespace phasor::server

#endif  // PHASOR_SERVER_SIGNALS_H_
