// The conformance cases as measurements: what each scheme costs on each backend.
#ifndef PHASOR_TESTS_BENCH_CASE_COSTS_H_
#define PHASOR_TESTS_BENCH_CASE_COSTS_H_

namespace phasor::bench {

// Prints, for every case of tests/conformance and every usable backend: time of the plan, and of 8 MiB of its table or bias
// vector in f32 and bf16 against memset of the same bytes. Returns false when a case fails to run. The reference backend is
// left out: it is an oracle.
bool PrintCaseCosts();

}  // namespace phasor::bench

#endif  // PHASOR_TESTS_BENCH_CASE_COSTS_H_
