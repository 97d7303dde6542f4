// count_misrounded [VALUES [THREADS]]: counts entries of exact tables that are not the correctly rounded value, against
// 192-bit arithmetic that shares no code with the kernels. A long run for people, about 15 million values a second and
// thread; tests run windows of it. Exits with 1 when a value is wrong.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/core/dtype.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/cpu/angle_oracle.h"

namespace phasor::testing {
namespace {

constexpr int64_t kRows = 16384;
constexpr DType kTypes[] = {DType::kF32, DType::kF32, DType::kBF16, DType::kF16};  // f32 is what is used most

struct Work {
  AngleConfig config;
  int64_t first;
  DType dtype;
};

// Configurations of models, and windows: the first rows, around 2^20 and 2^31, negative ones, anywhere.
Work MakeWork(uint64_t number) {
  std::mt19937_64 random(number);
  const AngleConfig configs[] = {{10000, 64},
                                 {500000, 64},
                                 {1e6, 64, 4, 1.1386294361119891},
                                 {5e8, 64, 1, 0.7071067811865476},
                                 {10000, 32, 8},
                                 {150000, 32, 32, 1.3465735902799727},
                                 {1e6, 128},
                                 {25000, 48, 1, 3.0000001}};
  Work work{configs[random() % std::size(configs)], 0, kTypes[number % std::size(kTypes)]};
  const int64_t limit = (int64_t{1} << 31) - kRows - 1;
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  switch (number % 6) {
    case 0:
      work.first = below(1 << 17);
      break;
    case 1:
      work.first = (int64_t{1} << 20) - below(4 * kRows);
      break;
    case 2:
      work.first = limit - below(1 << 20);
      break;
    case 3:
      work.first = -below(1 << 17);
      break;
    default:
      work.first = below(2 * limit) - limit;
  }
  return work;
}

int64_t CountWrong(const Backend& backend, const Work& work) {
  const AnglePlan plan = MakePlan(work.config);
  const int64_t size = SizeOf(work.dtype);
  std::vector<uint8_t> cos(static_cast<size_t>(kRows * plan.pairs() * size)), sin(cos);
  AngleTask task;
  task.plan = &plan;
  task.positions.start = work.first;
  task.dtype = work.dtype;
  task.cos = cos.data();
  task.sin = sin.data();
  task.row_stride = plan.pairs();
  if (!backend.Run(task, RowRange{0, kRows}, nullptr).ok()) return kRows;

  AngleOracle oracle(work.config, work.first);
  const auto bits_at = [size](const std::vector<uint8_t>& bytes, int64_t index) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + index * size, static_cast<size_t>(size));
    return bits;
  };
  int64_t wrong = 0;
  for (int64_t row = 0; row < kRows; ++row, oracle.Step()) {
    for (int64_t i = 0; i < plan.pairs(); ++i) {
      const int64_t index = row * plan.pairs() + i;
      wrong += bits_at(cos, index) != RoundOracle(oracle.cos(i), work.config.factor, work.dtype);
      wrong += bits_at(sin, index) != RoundOracle(oracle.sin(i), work.config.factor, work.dtype);
    }
  }
  return wrong;
}

int Run(int64_t values, int threads) {
  const std::unique_ptr<Backend> backend = MakeCpuBackend();
  std::atomic<uint64_t> next{0};
  std::atomic<int64_t> checked{0}, wrong{0};
  const auto work = [&] {
    while (checked.load() < values) {
      const Work window = MakeWork(next.fetch_add(1));
      const int64_t count = CountWrong(*backend, window);
      if (count != 0) {
        std::printf("%lld wrong: positions from %lld, %s, %s\n", static_cast<long long>(count),
                    static_cast<long long>(window.first), std::string(Name(window.dtype)).c_str(),
                    window.config.ToString().c_str());
      }
      wrong += count;
      checked += 2 * kRows * window.config.pairs;
    }
  };
  std::vector<std::thread> pool;
  for (int t = 1; t < threads; ++t) pool.emplace_back(work);
  work();
  for (std::thread& thread : pool) thread.join();
  std::printf("%s: %lld wrong of %lld\n", backend->description().c_str(), static_cast<long long>(wrong.load()),
              static_cast<long long>(checked.load()));
  return wrong.load() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace phasor::testing

int main(int argc, char** argv) {
  const int64_t values = argc > 1 ? std::atoll(argv[1]) : 1'000'000'000;
  const int threads = argc > 2 ? std::max(1, std::atoi(argv[2])) : 1;
  return phasor::testing::Run(values, threads);
}
