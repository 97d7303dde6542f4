// Times of work on a device, by its own clock.
#ifndef PHASOR_TESTS_BENCH_CUDA_DEVICE_BENCH_CUH_
#define PHASOR_TESTS_BENCH_CUDA_DEVICE_BENCH_CUH_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/cudart_driver.h"
#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/launch_params.h"
#include "tests/bench/cuda/device_report.h"

namespace phasor::cuda {

// A gate's program ends here: others are processes of their own.
inline void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s: %s\n", what, cudaGetErrorName(error), cudaGetErrorString(error));
  std::exit(1);
}

// Buffers of numbers, which take turns so that none is in a cache when its turn comes.
class Bench {
 public:
  static constexpr int64_t kBytes = int64_t{256} << 20;
  static constexpr int kBuffers = 4;
  static constexpr int kRounds = 9;
  using Work = std::function<void(int round)>;

  Bench() {
    // As the backend has it: launches are of the same shape.
    auto devices = MakeCudartDriver()->Devices();
    if (!devices.ok() || devices->front().id != 0) {
      std::fprintf(stderr, "the kernels do not run on device 0: %s\n", std::string(devices.status().message()).c_str());
      std::exit(1);
    }
    info_ = devices->front();
    Check(cudaStreamCreate(&stream_), "cudaStreamCreate");
    Check(cudaEventCreate(&begin_), "cudaEventCreate");
    Check(cudaEventCreate(&end_), "cudaEventCreate");
    // A MiB of floats and bf16 numbers between 0.5 and 2, of either sign, again and again.
    std::mt19937 random(1);
    std::vector<uint32_t> numbers(1 << 18);
    for (uint32_t& number : numbers) number = 0x3f003f00u | (random() & 0x80ff80ffu);
    const auto part = static_cast<int64_t>(numbers.size() * sizeof(uint32_t));
    for (auto& buffer : buffers_) {
      Check(cudaMalloc(&buffer, kBytes), "cudaMalloc");
      for (int64_t at = 0; at < kBytes; at += part) {
        Check(cudaMemcpy(static_cast<std::byte*>(buffer) + at, numbers.data(), static_cast<size_t>(part),
                         cudaMemcpyHostToDevice),
              "cudaMemcpy");
      }
    }
  }

  std::byte* buffer(int i) const { return static_cast<std::byte*>(buffers_[i % kBuffers]); }
  cudaStream_t stream() const { return stream_; }
  const DeviceInfo& info() const { return info_; }

  template <typename Params>
  void Launch(const Params& params) {
    Check(LaunchParams(params, ShapeFor(params.works(), info_.resident_blocks), stream_), "launch");
  }
  void LaunchAll(const std::vector<KernelParams>& launches) {
    for (const KernelParams& params : launches) std::visit([&](const auto& p) { Launch(p); }, params);
  }

  // Seconds of each, medians of rounds in which they take turns; before that, until clocks are up.
  std::vector<double> Seconds(const std::vector<Work>& works) {
    constexpr int kWarmRounds = 5;
    std::vector<std::vector<double>> seconds(works.size());
    for (int round = -kWarmRounds; round < kRounds; ++round) {
      for (size_t i = 0; i < works.size(); ++i) {
        const double took = Once([&] { works[i](round + kWarmRounds); });
        if (round >= 0) seconds[i].push_back(took);
      }
    }
    std::vector<double> medians;
    for (std::vector<double>& each : seconds) medians.push_back(Median(std::move(each)));
    return medians;
  }

  // The same of work that is put on the stream once and then repeated by the device alone: what the host takes to launch it
  // is not in it.
  std::vector<double> SecondsOfGraphs(const std::vector<Work>& works) {
    std::vector<cudaGraphExec_t> graphs;
    for (const Work& work : works) {
      cudaGraph_t graph;
      cudaGraphExec_t executable;
      // Once outside: a kernel's first launch loads it, which a capture does not allow everywhere.
      work(0);
      Check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
      Check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
      work(0);
      Check(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
      Check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
      Check(cudaGraphDestroy(graph), "cudaGraphDestroy");
      graphs.push_back(executable);
    }
    std::vector<Work> replays;
    for (const cudaGraphExec_t graph : graphs) {
      replays.emplace_back([this, graph](int) { Check(cudaGraphLaunch(graph, stream_), "cudaGraphLaunch"); });
    }
    std::vector<double> seconds = Seconds(replays);
    for (const cudaGraphExec_t graph : graphs) Check(cudaGraphExecDestroy(graph), "cudaGraphExecDestroy");
    return seconds;
  }

  Work Fill() {
    return [this](int round) { Check(cudaMemsetAsync(buffer(round), round, kBytes, stream_), "cudaMemset"); };
  }
  Work Copy() {
    return [this](int round) {
      Check(cudaMemcpyAsync(buffer(round), buffer(round + 1), kBytes, cudaMemcpyDeviceToDevice, stream_), "cudaMemcpy");
    };
  }

 private:
  double Once(const std::function<void()>& work) {
    Check(cudaEventRecord(begin_, stream_), "cudaEventRecord");
    work();
    Check(cudaEventRecord(end_, stream_), "cudaEventRecord");
    Check(cudaEventSynchronize(end_), "cudaEventSynchronize");
    float ms = 0;
    Check(cudaEventElapsedTime(&ms, begin_, end_), "cudaEventElapsedTime");
    return ms * 1e-3;
  }

  DeviceInfo info_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  void* buffers_[kBuffers] = {};
};

}  // namespace phasor::cuda

#endif  // PHASOR_TESTS_BENCH_CUDA_DEVICE_BENCH_CUH_
