// G3, G4, G5: counts of wrong values, which must be 0.
#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/cpu_target.h"
#include "tests/bench/gates.h"
#include "tests/kernels/cpu/angle_oracle.h"

namespace phasor::bench {
namespace {

using phasor::testing::AngleConfig;
using phasor::testing::AngleOracle;

struct Table {
  std::vector<std::byte> cos, sin;
};

Table Build(const Backend& backend, const AnglePlan& plan, PositionSource positions, RowRange rows, int64_t total,
            DType dtype) {
  Table table;
  table.cos.resize(static_cast<size_t>(total * plan.pairs() * SizeOf(dtype)));
  table.sin.resize(table.cos.size());
  const AngleTask task{.plan = &plan,
                       .positions = positions,
                       .dtype = dtype,
                       .cos = table.cos.data(),
                       .sin = table.sin.data(),
                       .row_stride = plan.pairs()};
  (void)backend.Run(task, rows, nullptr);
  return table;
}

uint64_t BitsAt(const std::vector<std::byte>& bytes, int64_t index, DType dtype) {
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + index * SizeOf(dtype), static_cast<size_t>(SizeOf(dtype)));
  return bits;
}

// Entries that differ from the correctly rounded value, of `rows` positions from `start`.
double CountMisrounded(const Backend& backend, const AngleConfig& config, int64_t start, int64_t rows, DType dtype) {
  const AnglePlan plan = phasor::testing::MakePlan(config);
  const Table table = Build(backend, plan, {.start = start}, {0, rows}, rows, dtype);
  AngleOracle oracle(config, start);
  double wrong = 0;
  for (int64_t row = 0; row < rows; ++row, oracle.Step()) {
    for (int64_t pair = 0; pair < config.pairs; ++pair) {
      const int64_t index = row * config.pairs + pair;
      wrong += BitsAt(table.cos, index, dtype) != phasor::testing::RoundOracle(oracle.cos(pair), config.factor, dtype);
      wrong += BitsAt(table.sin, index, dtype) != phasor::testing::RoundOracle(oracle.sin(pair), config.factor, dtype);
    }
  }
  return wrong;
}

double CountExactMode() {
  const std::unique_ptr<Backend> backend = *CreateBackend("cpu");
  double wrong = 0;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const double base : {1e4, 5e5, 1e6}) {
      for (const int64_t start : {int64_t{0}, int64_t{1} << 20, (int64_t{1} << 31) - 8192}) {
        wrong +=
            CountMisrounded(*backend, {.base = base, .factor = base == 1e6 ? 1.1386294361119891 : 1.0}, start, 8192, dtype);
      }
    }
  }
  return wrong;
}

double CountCompatMode() {
  const std::unique_ptr<Backend> backend = *CreateBackend("cpu");
  const AngleConfig config{.base = 5e5};
  const AnglePlan plan = phasor::testing::MakePlan(config, Precision::kCompatF32);
  double wrong = 0;
  constexpr int64_t kRows = 256;
  for (const int64_t start : {int64_t{0}, int64_t{131072}, int64_t{1} << 24, (int64_t{1} << 31) - kRows}) {
    const Table table = Build(*backend, plan, {.start = start}, {0, kRows}, kRows, DType::kF32);
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t pair = 0; pair < config.pairs; ++pair) {
        const float angle = static_cast<float>(start + row) * plan.inv_freq_f32[static_cast<size_t>(pair)];
        for (const bool sine : {false, true}) {
          const float want = phasor::testing::CompatByMpfr(angle, sine);
          uint32_t bits = 0;
          std::memcpy(&bits, &want, 4);
          wrong += BitsAt(sine ? table.sin : table.cos, row * config.pairs + pair, DType::kF32) != bits;
        }
      }
    }
  }
  return wrong;
}

// Bytes that differ between one run of a table and the same made in random pieces, by ids, on two threads, and on every
// instruction set that this CPU has.
double CountDifferingBytes() {
  const std::unique_ptr<Backend> backend = *CreateBackend("cpu");
  const AnglePlan plan = phasor::testing::MakePlan({.base = 5e5, .factor = 1.25});
  constexpr int64_t kRows = 8192, kStart = 1000003;
  double differing = 0;
  const auto compare = [&](const Table& a, const Table& b) {
    for (size_t i = 0; i < a.cos.size(); ++i) differing += (a.cos[i] != b.cos[i]) + (a.sin[i] != b.sin[i]);
  };
  std::mt19937 random(1);
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
    const int64_t total = dtype == DType::kF64 ? 256 : kRows;
    const Table whole = Build(*backend, plan, {.start = kStart}, {0, total}, total, dtype);
    Table pieces = whole;
    std::fill(pieces.cos.begin(), pieces.cos.end(), std::byte{0xa5});
    std::fill(pieces.sin.begin(), pieces.sin.end(), std::byte{0xa5});
    const AngleTask task{.plan = &plan,
                         .positions = {.start = kStart},
                         .dtype = dtype,
                         .cos = pieces.cos.data(),
                         .sin = pieces.sin.data(),
                         .row_stride = plan.pairs()};
    std::thread other([&] { (void)backend->Run(task, {total / 2, total}, nullptr); });
    for (int64_t begin = 0; begin < total / 2;) {
      const int64_t end = std::min<int64_t>(total / 2, begin + 1 + random() % 200);
      (void)backend->Run(task, {begin, end}, nullptr);
      begin = end;
    }
    other.join();
    compare(whole, pieces);
    std::vector<int64_t> ids(static_cast<size_t>(total));
    for (int64_t i = 0; i < total; ++i) ids[static_cast<size_t>(i)] = kStart + i;
    compare(whole, Build(*backend, plan, {.ids = ids}, {0, total}, total, dtype));
    for (const std::string& target : CpuTargets()) {
      if (!ForceCpuTarget(target).ok()) continue;
      compare(whole, Build(*backend, plan, {.start = kStart}, {0, total}, total, dtype));
    }
    (void)ForceCpuTarget("auto");
  }
  return differing;
}

}  // namespace

void AddExactnessGates(GateList& gates) {
  gates.AddCount("G3", "values of 28 M not correctly rounded, exact", CountExactMode);
  gates.AddCount("G4", "values of 131 k not correctly rounded, compat_f32", CountCompatMode);
  gates.AddCount("G5", "bytes that differ over splits, ids, threads, ISA", CountDifferingBytes);
}

}  // namespace phasor::bench
