// The gates of performance.md §9 on a device, in one run: each is a ratio against a floor of the same device, medians of 9.
// deploy/gpu-check.sh runs it. Prints one line a gate, and with --json=FILE the same as data.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/cudart_driver.h"
#include "kernels/cuda/launch_params.h"
#include "kernels/cuda/lowering.h"
#include "kernels/encodings/encoding.h"

namespace phasor::cuda {
namespace {

constexpr int kRounds = 9;
constexpr int64_t kBytes = int64_t{256} << 20;
constexpr int kBuffers = 4;  // more than any L2 holds

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorName(error));
  std::exit(1);
}

struct Gate {
  std::string name;
  double ratio;
  double limit;
  bool at_least;  // else at most
  bool holds() const { return at_least ? ratio >= limit : ratio <= limit; }
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Bench {
 public:
  Bench() {
    cudaDeviceProp properties;
    Check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
    std::printf("%s, compute capability %d.%d\n", properties.name, properties.major, properties.minor);
    resident_ =
        static_cast<int64_t>(properties.multiProcessorCount) * properties.maxThreadsPerMultiProcessor / kBlockThreads;
    Check(cudaStreamCreate(&stream_), "cudaStreamCreate");
    Check(cudaEventCreate(&begin_), "cudaEventCreate");
    Check(cudaEventCreate(&end_), "cudaEventCreate");
    for (auto& buffer : buffers_) Check(cudaMalloc(&buffer, kBytes), "cudaMalloc");
  }

  // Seconds of work that was put on the stream, a round at a time.
  double Time(const std::function<void(int round)>& work) {
    std::vector<double> seconds;
    work(0);
    for (int round = 1; round <= kRounds; ++round) {
      Check(cudaEventRecord(begin_, stream_), "cudaEventRecord");
      work(round);
      Check(cudaEventRecord(end_, stream_), "cudaEventRecord");
      Check(cudaEventSynchronize(end_), "cudaEventSynchronize");
      float ms = 0;
      Check(cudaEventElapsedTime(&ms, begin_, end_), "cudaEventElapsedTime");
      seconds.push_back(ms * 1e-3);
    }
    return Median(std::move(seconds));
  }

  template <typename Params>
  void Launch(const Params& params) {
    Check(LaunchParams(params, ShapeFor(params.works(), resident_), stream_), "launch");
  }
  void LaunchAll(const std::vector<KernelParams>& launches) {
    for (const KernelParams& params : launches) std::visit([&](const auto& p) { Launch(p); }, params);
  }

  std::byte* buffer(int i) const { return static_cast<std::byte*>(buffers_[i % kBuffers]); }
  cudaStream_t stream() const { return stream_; }

  double FillSeconds(int64_t bytes) {
    return Time([&](int round) { Check(cudaMemsetAsync(buffer(round), round, bytes, stream_), "cudaMemset"); });
  }
  double CopySeconds(int64_t bytes) {
    return Time([&](int round) {
      Check(cudaMemcpyAsync(buffer(round), buffer(round + 1), bytes, cudaMemcpyDeviceToDevice, stream_), "cudaMemcpy");
    });
  }

 private:
  int64_t resident_ = 1;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  void* buffers_[kBuffers] = {};
};

// What a first version does: a pair a thread, two bytes at a time.
__global__ void NaiveRotate(uint16_t* x, const float* cos, const float* sin, int64_t tokens, int heads, int pairs) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= tokens * heads * pairs) return;
  const int64_t pair = i % pairs, vector = i / pairs, token = vector / heads;
  uint16_t* const at = x + vector * 2 * pairs + pair;
  const float a = __uint_as_float(static_cast<uint32_t>(at[0]) << 16),
              b = __uint_as_float(static_cast<uint32_t>(at[pairs]) << 16);
  const float c = cos[token * pairs + pair], s = sin[token * pairs + pair];
  at[0] = static_cast<uint16_t>(__float_as_uint(__fmaf_rn(a, c, -__fmul_rn(b, s))) >> 16);
  at[pairs] = static_cast<uint16_t>(__float_as_uint(__fmaf_rn(b, c, __fmul_rn(a, s))) >> 16);
}
__global__ void Nothing() {}

RotateParams Rotation(std::byte* x, const float* table, int64_t tokens, int heads, int pairs) {
  RotateParams p;
  p.dtype = DType::kBF16;
  p.tokens = tokens;
  p.heads = heads;
  p.pairs = pairs;
  p.x = p.y = x;
  p.x_token_stride = p.y_token_stride = int64_t{2} * heads * pairs;
  p.x_head_stride = p.y_head_stride = 2 * pairs;
  p.cos = table;
  p.sin = table + tokens * pairs;
  p.table_stride = pairs;
  p.DecideVectors();
  return p;
}

void RotateGates(Bench& bench, std::vector<Gate>* gates) {
  constexpr int kHeads = 32, kPairs = 64;
  const int64_t tokens = kBytes / (kHeads * kPairs * 4);
  float* table = nullptr;
  Check(cudaMalloc(&table, 2 * tokens * kPairs * sizeof(float)), "cudaMalloc");
  Check(cudaMemset(table, 0, 2 * tokens * kPairs * sizeof(float)), "cudaMemset");
  const double copy = bench.CopySeconds(kBytes);
  const double ours =
      bench.Time([&](int round) { bench.Launch(Rotation(bench.buffer(round), table, tokens, kHeads, kPairs)); });
  const int64_t works = tokens * kHeads * kPairs;
  const double naive = bench.Time([&](int round) {
    NaiveRotate<<<static_cast<unsigned>((works + 255) / 256), 256, 0, bench.stream()>>>(
        reinterpret_cast<uint16_t*>(bench.buffer(round)), table, table + tokens * kPairs, tokens, kHeads, kPairs);
  });
  gates->push_back({"rotate bf16 in place, of a device copy", copy / ours, 0.80, true});
  gates->push_back({"rotate, a naive kernel's time", naive / ours, 1.6, true});

  constexpr int kMany = 200;
  const double empty = bench.Time([&](int) {
    for (int i = 0; i < kMany; ++i) Nothing<<<1, 128, 0, bench.stream()>>>();
  });
  const double little = bench.Time([&](int) {
    for (int i = 0; i < kMany; ++i) bench.Launch(Rotation(bench.buffer(0), table, 64, kHeads, kPairs));
  });
  gates->push_back({"rotate 64 tokens, µs over an empty kernel", (little - empty) / kMany * 1e6, 2, false});
  Check(cudaFree(table), "cudaFree");
}

// The launches of a task whose output is on the device: `out` takes the place of its outputs, one behind the other.
std::vector<KernelParams> OnDevice(const Task& task, RowRange rows, std::byte* out) {
  auto lowered = Lower(task);
  if (!lowered.ok()) {
    std::fprintf(stderr, "%s\n", std::string(lowered.status().message()).c_str());
    std::exit(1);
  }
  std::vector<std::byte*> constants, inputs, outputs;
  for (const Constant& constant : (*lowered)->constants()) {
    void* to = nullptr;
    Check(cudaMalloc(&to, std::max<int64_t>(constant.bytes, 1)), "cudaMalloc");
    Check(cudaMemcpy(to, constant.host, constant.bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
    constants.push_back(static_cast<std::byte*>(to));
  }
  const Transfers moves = (*lowered)->TransfersOf(rows);
  for (const Strip& strip : moves.outputs) {
    outputs.push_back(out);
    out += (strip.bytes() + 255) / 256 * 256;
  }
  return (*lowered)->Launches(rows, {constants, inputs, outputs});
}

void TableGates(Bench& bench, std::vector<Gate>* gates) {
  RopeSpec rope;
  rope.head_dim = 128;
  rope.base = 500000;
  const auto canonical = Canonicalize(EncodingSpec{rope});
  const auto resolved = Resolve(*canonical, std::nullopt, Precision::kExact);
  const auto& plan = std::get<AnglePlan>(resolved->plan);
  const int64_t rows = kBytes / (plan.pairs() * 8);
  const double fill = bench.FillSeconds(kBytes);
  AngleTask angle;
  angle.plan = &plan;
  angle.row_stride = plan.pairs();
  // Addresses of the host are asked for, and none is touched.
  angle.cos = bench.buffer(0);
  angle.sin = bench.buffer(0) + kBytes / 2;
  std::vector<std::vector<KernelParams>> tables;
  for (int i = 0; i < kBuffers; ++i) tables.push_back(OnDevice(angle, {0, rows}, bench.buffer(i)));
  const double table = bench.Time([&](int round) { bench.LaunchAll(tables[round % kBuffers]); });
  gates->push_back({"table f32, of a fill", fill / table, 0.85, true});

  ToeplitzTask bias;
  bias.heads = 16;
  bias.queries = bias.keys = 2048;
  bias.vector_stride = 4095;
  const std::vector<float> vector(16 * 4095);
  bias.vector = vector.data();
  bias.out = bench.buffer(0);
  std::vector<std::vector<KernelParams>> matrices;
  for (int i = 0; i < kBuffers; ++i) matrices.push_back(OnDevice(bias, {0, 16 * 2048}, bench.buffer(i)));
  const double toeplitz = bench.Time([&](int round) { bench.LaunchAll(matrices[round % kBuffers]); });
  gates->push_back({"Toeplitz bias f32, of a fill", fill / toeplitz, 0.85, true});
}

double HostSeconds(const std::function<void()>& work) {
  std::vector<double> seconds;
  work();
  for (int round = 0; round < kRounds; ++round) {
    timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    work();
    clock_gettime(CLOCK_MONOTONIC, &end);
    seconds.push_back(static_cast<double>(end.tv_sec - begin.tv_sec) +
                      static_cast<double>(end.tv_nsec - begin.tv_nsec) * 1e-9);
  }
  return Median(std::move(seconds));
}

void HostGates(Bench& bench, std::vector<Gate>* gates) {
  BackendOptions options;
  options.min_device_bytes = 0;
  auto backend = CreateBackend("cuda", options);
  if (!backend.ok()) std::exit(1);
  void* host = nullptr;
  Check(cudaHostAlloc(&host, kBytes, cudaHostAllocPortable), "cudaHostAlloc");
  std::memset(host, 0, kBytes);
  constexpr int kHeads = 32, kPairs = 64;
  RotateTask task;
  task.dtype = DType::kBF16;
  task.tokens = kBytes / (kHeads * kPairs * 4);
  task.heads = kHeads;
  task.head_dim = 2 * kPairs;
  task.pairs = kPairs;
  task.x = task.y = host;
  task.x_token_stride = task.y_token_stride = 2 * kHeads * kPairs;
  task.x_head_stride = task.y_head_stride = 2 * kPairs;
  task.table_stride = 0;  // one row for all: the table is none of the matter
  const std::vector<float> row(kPairs, 0.5f);
  task.cos = task.sin = row.data();
  const auto in = HostSeconds([&] { Check(cudaMemcpy(bench.buffer(0), host, kBytes, cudaMemcpyHostToDevice), "copy in"); });
  const auto out =
      HostSeconds([&] { Check(cudaMemcpy(host, bench.buffer(0), kBytes, cudaMemcpyDeviceToHost), "copy out"); });
  bool ok = true;
  const auto whole = HostSeconds([&] { ok &= (*backend)->Run(task, {0, task.tokens}, nullptr).ok(); });
  gates->push_back({"host to host, the slower pinned copy's time", whole / std::max(in, out), 1.25, false});

  task.tokens = 4;
  std::vector<Task> many;
  for (int i = 0; i < 256; ++i) {
    task.x = task.y = static_cast<std::byte*>(host) + i * 65536;
    many.push_back(task);
  }
  const std::vector<int64_t> rows(256, task.tokens);
  const auto one = HostSeconds([&] { ok &= (*backend)->Run(many[0], {0, task.tokens}, nullptr).ok(); });
  const auto group = HostSeconds([&] { ok &= (*backend)->RunAll(many, rows, nullptr).ok(); });
  gates->push_back({"256 small rotations together, one's time", group / one, 3, false});
  if (!ok) std::exit(1);
  Check(cudaFreeHost(host), "cudaFreeHost");
}

int Report(const std::vector<Gate>& gates, const char* json) {
  std::FILE* const file = json == nullptr ? nullptr : std::fopen(json, "w");
  if (file != nullptr) std::fputs("[\n", file);
  bool hold = true;
  for (size_t i = 0; i < gates.size(); ++i) {
    const Gate& gate = gates[i];
    hold &= gate.holds();
    std::printf("%-48s %8.3f  %s %.2f  %s\n", gate.name.c_str(), gate.ratio, gate.at_least ? "≥" : "≤", gate.limit,
                gate.holds() ? "holds" : "MISSED");
    if (file == nullptr) continue;
    std::fprintf(file, "  {\"gate\": \"%s\", \"ratio\": %.4f, \"limit\": %.2f, \"holds\": %s}%s\n", gate.name.c_str(),
                 gate.ratio, gate.limit, gate.holds() ? "true" : "false", i + 1 < gates.size() ? "," : "");
  }
  if (file != nullptr) {
    std::fputs("]\n", file);
    std::fclose(file);
  }
  return hold ? 0 : 1;
}

}  // namespace
}  // namespace phasor::cuda

int main(int argc, char** argv) {
  const char* json = nullptr;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--json=", 7) == 0) json = argv[i] + 7;
  }
  if (absl::Status usable = phasor::cuda::MakeCudartDriver()->Devices().status(); !usable.ok()) {
    std::fprintf(stderr, "no usable device: %s\n", std::string(usable.message()).c_str());
    return 2;
  }
  phasor::cuda::Bench bench;
  std::vector<phasor::cuda::Gate> gates;
  phasor::cuda::RotateGates(bench, &gates);
  phasor::cuda::TableGates(bench, &gates);
  phasor::cuda::HostGates(bench, &gates);
  return phasor::cuda::Report(gates, json);
}
