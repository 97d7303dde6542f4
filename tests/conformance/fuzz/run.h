// A random piece of work for a spec: the steps a program would run, over memory with guards around it. Made anew from one
// seed for every backend, so that nothing but the backend differs.
#ifndef PHASOR_TESTS_CONFORMANCE_FUZZ_RUN_H_
#define PHASOR_TESTS_CONFORMANCE_FUZZ_RUN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "kernels/encodings/encoding.h"
#include "kernels/program.h"
#include "tests/conformance/fuzz/random.h"
#include "tests/kernels/cpu/guarded_buffer.h"

namespace phasor {

// A spec that a generator made.
struct FuzzSubject {
  EncodingSpec spec;  // canonical
  std::optional<int64_t> sequence_length;
  Precision precision = Precision::kExact;
  Resolved resolved;

  const Plan& plan() const { return resolved.plan; }
};

struct FuzzRun {
  std::string what;  // the kind of run and its numbers, for messages
  std::vector<std::unique_ptr<GuardedBuffer>> buffers;
  std::vector<std::unique_ptr<std::byte[]>> scratch;
  std::vector<std::shared_ptr<const void>> held;
  std::vector<ProgramStep> steps;
  // Not empty: the run has one step, every buffer holds its rows one after the other, and the reference, which is slow, runs
  // and answers for these rows alone.
  std::vector<RowRange> sampled;
  unsigned char scratch_fill = 0;

  // Memory for `count` elements at any address that they may have.
  void* Data(Rng& rng, int64_t count, int64_t element_size) {
    const int64_t misalignment = rng.OneIn(2) ? 0 : element_size * rng.Int(0, 63 / element_size);
    buffers.push_back(std::make_unique<GuardedBuffer>(count * element_size, misalignment));
    std::memset(buffers.back()->data(), 0xa5, static_cast<size_t>(count * element_size));  // what nobody writes stays alike
    return buffers.back()->data();
  }
  // The same, filled.
  void* Floats(Rng& rng, int64_t count, DType dtype, double scale, bool wild) {
    void* data = Data(rng, count, SizeOf(dtype));
    FillFloats(rng, dtype, count, scale, wild, data);
    return data;
  }
  // Aligned to 64 bytes; what it holds at first differs from backend to backend.
  std::byte* Scratch(int64_t bytes) {
    scratch.emplace_back(new std::byte[static_cast<size_t>(bytes) + 64]);
    std::byte* const data = scratch.back().get();
    std::memset(data, scratch_fill, static_cast<size_t>(bytes) + 64);
    return data + (64 - reinterpret_cast<uintptr_t>(data) % 64) % 64;
  }
  // A value that lives as long as the run.
  template <typename T>
  T& Hold(T value) {
    auto shared = std::make_shared<T>(std::move(value));
    held.push_back(shared);
    return *shared;
  }
};

// Positions of rows along one axis: a range, whole numbers or fractions, near and far, of both signs.
PositionSource RandomPositions(Rng& rng, int64_t rows, bool fractions, FuzzRun& run);

// The kinds of runs. Each adds its steps, or returns false where the spec has no such run.
bool AddAngleRun(const FuzzSubject& subject, Rng& rng, FuzzRun& run);
bool AddAbsoluteRun(const FuzzSubject& subject, Rng& rng, FuzzRun& run);
bool AddBiasRun(const FuzzSubject& subject, Rng& rng, FuzzRun& run);
bool AddScoreRun(const FuzzSubject& subject, Rng& rng, FuzzRun& run);
bool AddResizeRun(const FuzzSubject& subject, Rng& rng, FuzzRun& run);

// One of them that the spec has; nothing where this seed's numbers do not fit.
std::optional<FuzzRun> MakeFuzzRun(const FuzzSubject& subject, uint64_t seed, unsigned char scratch_fill);

// Runs every step in random pieces, one after the other in a random order.
absl::Status RunInPieces(const Backend& backend, const FuzzRun& run, Rng& rng);
// The reference's part.
absl::Status RunReference(const Backend& reference, const FuzzRun& run);
// Empty when both hold the same bytes and no guard was touched; else what differs.
std::string Difference(const FuzzRun& got, const FuzzRun& expected);

}  // namespace phasor

#endif  // PHASOR_TESTS_CONFORMANCE_FUZZ_RUN_H_
