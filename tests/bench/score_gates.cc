// S1, S2: attention scores against a plain blocked matrix product in f64 of the same sizes, from the same tensors.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "kernels/backend.h"
#include "kernels/cpu/cpu_target.h"
#include "tests/bench/gates.h"

namespace phasor::bench {
namespace {

constexpr int64_t kHeads = 4, kTokens = 512, kDim = 64;

#if defined(__x86_64__)

// out = x·yᵀ in f64, register tiles of 4 × 2 vectors over packed panels: the textbook's loops. x, y: [tokens, heads, dim].
#define PHASOR_PLAIN_PRODUCT(NAME, TARGET, BYTES)                                                                   \
  __attribute__((target(TARGET))) void NAME(const float* x, const float* y, double* out) {                          \
    typedef double V __attribute__((vector_size(BYTES)));                                                           \
    constexpr int64_t kLanes = BYTES / 8, kColumns = 2 * kLanes;                                                    \
    std::vector<double> rows(kTokens* kDim);                                                                        \
    alignas(64) double columns[kDim * kColumns];                                                                    \
    for (int64_t h = 0; h < kHeads; ++h) {                                                                          \
      for (int64_t i = 0; i < kTokens; ++i) {                                                                       \
        for (int64_t d = 0; d < kDim; ++d) rows[i / 4 * 4 * kDim + d * 4 + i % 4] = x[(i * kHeads + h) * kDim + d]; \
      }                                                                                                             \
      for (int64_t j = 0; j < kTokens; j += kColumns) {                                                             \
        for (int64_t c = 0; c < kColumns; ++c) {                                                                    \
          for (int64_t d = 0; d < kDim; ++d) columns[d * kColumns + c] = y[((j + c) * kHeads + h) * kDim + d];      \
        }                                                                                                           \
        for (int64_t i = 0; i < kTokens; i += 4) {                                                                  \
          V sum[8] = {};                                                                                            \
          const double* row = rows.data() + i * kDim;                                                               \
          const V* column = reinterpret_cast<const V*>(columns);                                                    \
          for (int64_t d = 0; d < kDim; ++d, row += 4, column += 2) {                                               \
            const V a = column[0], b = column[1];                                                                   \
            for (int r = 0; r < 4; ++r) {                                                                           \
              sum[2 * r] += row[r] * a;                                                                             \
              sum[2 * r + 1] += row[r] * b;                                                                         \
            }                                                                                                       \
          }                                                                                                         \
          for (int r = 0; r < 4; ++r) {                                                                             \
            __builtin_memcpy(out + (h * kTokens + i + r) * kTokens + j, &sum[2 * r], 2 * sizeof(V));                \
          }                                                                                                         \
        }                                                                                                           \
      }                                                                                                             \
    }                                                                                                               \
  }
PHASOR_PLAIN_PRODUCT(PlainProduct512, "avx512f,fma", 64)
PHASOR_PLAIN_PRODUCT(PlainProduct256, "avx2,fma", 32)
#undef PHASOR_PLAIN_PRODUCT

#endif

struct Fixture {
  std::unique_ptr<Backend> backend = *CreateBackend("cpu");
  std::vector<float> q = std::vector<float>(kTokens * kHeads * kDim, 0.5f), k = q;
  std::vector<double> table = std::vector<double>(kHeads * 2 * kTokens * kDim, 0.25);
  std::vector<double> scores = std::vector<double>(kHeads * kTokens * kTokens);
  std::vector<int64_t> positions;
  Fixture() {
    for (int64_t i = 0; i < kTokens; ++i) positions.push_back(i);
  }

  ScoreShape shape() const { return {1, kHeads, kTokens, kTokens, kDim}; }
  HeadVectors Vectors(const std::vector<float>& x) const { return {DType::kF32, x.data(), 0, kHeads * kDim, kDim}; }
  ScoreProductTask Product() {
    ScoreProductTask task;
    task.shape = shape();
    task.q.q = Vectors(q);
    task.k.k = Vectors(k);
    task.scores = scores.data();
    return task;
  }
  // Transformer-XL's, both signs of the distance.
  RelativeProductTask Relative(bool of_keys) {
    RelativeProductTask task;
    task.shape = shape();
    task.of_keys = of_keys;
    task.q.q = Vectors(q);
    task.k.k = Vectors(k);
    task.positions = {positions.data(), positions.data(), 0, 0};
    task.rows.first = 1 - kTokens;
    task.rows.last = kTokens - 1;
    task.rows.origin = kTokens - 1;
    task.table = table.data();
    task.table_head_stride = 2 * kTokens * kDim;
    task.scores = scores.data();
    return task;
  }
};

Fixture& Shared() {
  static Fixture fixture;
  return fixture;
}

void Register(const std::string& name, const std::string& target, std::function<void()> body) {
  benchmark::RegisterBenchmark(name.c_str(), [body = std::move(body), target](benchmark::State& state) {
    if (!ForceCpuTarget(target).ok()) state.SkipWithError("no such target");
    for (auto _ : state) {
      body();
      benchmark::ClobberMemory();
    }
    (void)ForceCpuTarget("auto");
  })->UseRealTime();
}

}  // namespace

void AddScoreGates(GateList& gates) {
#if defined(__x86_64__)
  const std::vector<std::string> targets = CpuTargets();
  for (const std::string target : {"avx3", "avx2"}) {
    if (std::find(targets.begin(), targets.end(), target) == targets.end()) {
      gates.Note(absl::StrCat("S1, S2 on ", target, ": not measured, this CPU does not have it"));
      continue;
    }
    const std::string plain = absl::StrCat("plain_product_", target);
    const auto product = target == "avx3" ? &PlainProduct512 : &PlainProduct256;
    Register(plain, target, [product] { product(Shared().q.data(), Shared().k.data(), Shared().scores.data()); });
    // In the slices that a server runs.
    const auto add = [&](const std::string& id, const std::string& what, const std::string& name,
                         std::function<Task()> make) {
      Register(name, target, [make = std::move(make)] {
        const Task task = make();
        const int64_t rows = kHeads * kTokens, slice = RowsPerSlice(task);
        for (int64_t row = 0; row < rows; row += slice) {
          (void)Shared().backend->Run(task, {row, std::min(rows, row + slice)}, nullptr);
        }
      });
      gates.Add({id, absl::StrCat(what, ", ", target), name, plain, 2.0});
    };
    add("S1", "scores f32 512 × 512 × 64", absl::StrCat("scores_", target), [] { return Task(Shared().Product()); });
    add("S2", "relative term 512 × 512 × 64", absl::StrCat("relative_scores_", target),
        [] { return Task(Shared().Relative(false)); });
    add("S2", "relative term of keys 512 × 512 × 64", absl::StrCat("relative_key_scores_", target),
        [] { return Task(Shared().Relative(true)); });
  }
#else
  gates.Note("S1, S2: not measured, the plain product is written for x86-64");
#endif
}

}  // namespace phasor::bench
