// K1 to K3: what knowledge calls cost, in milliseconds of one core. They have no floor to be compared with: somebody waits.
#include <algorithm>
#include <cmath>
#include <ctime>
#include <functional>
#include <limits>
#include <vector>

#include "phasor/v1/catalog_service.pb.h"

#include "kernels/cpu/cpu_backend.h"
#include "server/knowledge/calls.h"
#include "tests/bench/gates.h"

namespace phasor::bench {
namespace {

constexpr int kRepetitions = 9;

double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Median of the calling thread's time; NaN where a call fails.
std::vector<Measurement> MedianMilliseconds(const std::function<bool()>& call) {
  std::vector<double> seconds;
  for (int i = 0; i < kRepetitions; ++i) {
    const double before = ThreadSeconds();
    if (!call()) return {{std::numeric_limits<double>::quiet_NaN(), 0}};
    seconds.push_back(ThreadSeconds() - before);
  }
  std::sort(seconds.begin(), seconds.end());
  return {{1e3 * seconds[kRepetitions / 2], seconds[kRepetitions / 2]}};
}

// Cosines beside sines of Llama 3.1's global schedule: by libm, as somebody else's library makes them.
v1::DiagnoseRequest LlamaTable(int64_t rows, int64_t pairs) {
  std::vector<float> values;
  for (int64_t row = 0; row < rows; ++row) {
    for (int half = 0; half < 2; ++half) {
      for (int64_t pair = 0; pair < pairs; ++pair) {
        double frequency = std::pow(500000.0, -static_cast<double>(pair) / static_cast<double>(pairs));
        const double wavelength = 2 * 3.14159265358979323846 / frequency;
        if (wavelength > 8192) {
          frequency /= 8;
        } else if (wavelength > 2048) {
          const double share = (8192 / wavelength - 1) / 3;
          frequency = (1 - share) * frequency / 8 + share * frequency;
        }
        const double angle = static_cast<double>(row) * frequency;
        values.push_back(static_cast<float>(half == 0 ? std::cos(angle) : std::sin(angle)));
      }
    }
  }
  v1::DiagnoseRequest request;
  v1::Tensor& tensor = *request.mutable_table()->add_tensors();
  tensor.set_dtype(v1::DTYPE_F32);
  tensor.add_shape(rows);
  tensor.add_shape(2 * pairs);
  tensor.set_data(values.data(), values.size() * sizeof(float));
  return request;
}

}  // namespace

void AddKnowledgeGates(GateList& gates) {
  gates.AddMeasured({{"K1", "recommend, a language model 8k to 128k", "5 ms of one core", 5}}, [] {
    const auto backend = MakeCpuBackend();
    const server::Limits limits;
    v1::RecommendRequest request;
    request.set_task(v1::MODEL_TASK_LANGUAGE_MODEL);
    request.set_trained_length(8192);
    request.set_wanted_length(131072);
    request.set_tuning(v1::TUNING_SHORT);
    return MedianMilliseconds([&] { return server::Recommend({*backend, nullptr, limits}, request).ok(); });
  });
  gates.AddMeasured({{"K2", "diagnose a [4096, 128] f32 table", "250 ms of one core", 250}}, [] {
    const auto backend = MakeCpuBackend();
    const server::Limits limits;
    const v1::DiagnoseRequest request = LlamaTable(4096, 64);
    return MedianMilliseconds([&] {
      const auto answer = server::Diagnose({*backend, nullptr, limits}, request);
      return answer.ok() && !answer->hypotheses().empty() && answer->hypotheses(0).reproduces();
    });
  });
  gates.AddMeasured({{"K3", "compare two 128-wide rotations over 4096 positions", "250 ms of one core", 250}}, [] {
    const auto backend = MakeCpuBackend();
    const server::Limits limits;
    v1::CompareSpecsRequest request;
    request.mutable_a()->mutable_spec()->mutable_rope()->set_head_dim(128);
    v1::RopeSpec& rope = *request.mutable_b()->mutable_spec()->mutable_rope();
    rope.set_head_dim(128);
    rope.mutable_linear()->set_factor(4);
    return MedianMilliseconds([&] { return server::CompareSpecs({*backend, nullptr, limits}, request).ok(); });
  });
}

}  // namespace phasor::bench
