// The gates on a device, each a ratio against a floor of the same device in the same run;
// deploy/gpu-check.sh runs it, one process a group, so that none that fails takes others with it.
//
//   device_gates --list                       names of the groups, one a line
//   device_gates --group=NAME [--json=FILE]   its rows, also appended to FILE; exit code 1: not all hold, 2: no usable
//   device
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/cudart_driver.h"
#include "kernels/cuda/lowering.h"
#include "kernels/encodings/encoding.h"
#include "tests/bench/cuda/device_bench.cuh"
#include "tests/bench/cuda/host_gates.h"

namespace phasor::cuda {
namespace {

constexpr int kHeads = 32, kPairs = 64;

using Rows = std::vector<ReportRow>;

double GigabytesPerSecond(int64_t bytes, double seconds) { return static_cast<double>(bytes) / seconds * 1e-9; }

// What a first version does: a pair a thread, two bytes at a time, offsets in 32 bits.
__global__ void NaiveRotate(uint16_t* x, const float* cos, const float* sin, uint32_t tokens, uint32_t heads,
                            uint32_t pairs) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= tokens * heads * pairs) return;
  const uint32_t pair = i % pairs, vector = i / pairs, token = vector / heads;
  uint16_t* const at = x + vector * 2 * pairs + pair;
  const float a = __uint_as_float(static_cast<uint32_t>(at[0]) << 16),
              b = __uint_as_float(static_cast<uint32_t>(at[pairs]) << 16);
  const float c = cos[token * pairs + pair], s = sin[token * pairs + pair];
  at[0] = static_cast<uint16_t>(__float_as_uint(__fmaf_rn(a, c, -__fmul_rn(b, s))) >> 16);
  at[pairs] = static_cast<uint16_t>(__float_as_uint(__fmaf_rn(b, c, __fmul_rn(a, s))) >> 16);
}
__global__ void Nothing() {}

// cos, then sin, of angles that leave numbers as large as they are.
std::vector<float> Table(int64_t tokens) {
  std::vector<float> table(static_cast<size_t>(2 * tokens * kPairs));
  const auto half = table.size() / 2;
  for (size_t i = 0; i < half; ++i) {
    table[i] = static_cast<float>(std::cos(0.37 * static_cast<double>(i % 4099)));
    table[half + i] = static_cast<float>(std::sin(0.37 * static_cast<double>(i % 4099)));
  }
  return table;
}
const float* TableOnDevice(const std::vector<float>& table) {
  void* to = nullptr;
  Check(cudaMalloc(&to, table.size() * sizeof(float)), "cudaMalloc");
  Check(cudaMemcpy(to, table.data(), table.size() * sizeof(float), cudaMemcpyHostToDevice), "cudaMemcpy");
  return static_cast<const float*>(to);
}

RotateParams Rotation(std::byte* x, std::byte* y, const float* table, int64_t table_tokens, int64_t tokens, DType dtype,
                      bool halves) {
  RotateParams p;
  p.dtype = dtype;
  p.reads_halves = p.writes_halves = halves;
  p.tokens = tokens;
  p.heads = kHeads;
  p.pairs = kPairs;
  p.x = x;
  p.y = y;
  p.x_token_stride = p.y_token_stride = int64_t{2} * kHeads * kPairs;
  p.x_head_stride = p.y_head_stride = 2 * kPairs;
  p.cos = table;
  p.sin = table + table_tokens * kPairs;
  p.table_stride = kPairs;
  p.DecideVectors();
  return p;
}

// Whether `bytes` of the device are what the CPU makes of the task, which writes them to `out`. A figure that is 1, or an
// error.
ReportRow SameBits(const Bench& bench, const char* name, const std::byte* device, const Task& task, RowRange rows,
                   const std::byte* out, int64_t bytes) {
  ReportRow row{std::string(name) + ": the CPU's bits", RowKind::kFigure, 1};
  std::vector<std::byte> got(static_cast<size_t>(bytes));
  Check(cudaStreamSynchronize(bench.stream()), "cudaStreamSynchronize");
  Check(cudaMemcpy(got.data(), device, got.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
  const absl::Status status = (*CreateBackend("cpu"))->Run(task, rows, nullptr);
  const auto differs = std::mismatch(got.begin(), got.end(), out);
  if (!status.ok()) row.error = std::string(status.message());
  if (differs.first != got.end()) row.error = "others from byte " + std::to_string(differs.first - got.begin()) + " on";
  return row;
}

// The bits of a rotation of a bench's buffer in place, as the gate times it.
ReportRow RotatesAsTheCpu(Bench& bench, const std::vector<float>& table, const float* on_device, int64_t tokens) {
  std::vector<std::byte> x(Bench::kBytes);
  Check(cudaStreamSynchronize(bench.stream()), "cudaStreamSynchronize");
  Check(cudaMemcpy(x.data(), bench.buffer(0), x.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
  bench.Launch(Rotation(bench.buffer(0), bench.buffer(0), on_device, tokens, tokens, DType::kBF16, true));
  RotateTask task;
  task.dtype = DType::kBF16;
  task.tokens = tokens;
  task.heads = kHeads;
  task.head_dim = 2 * kPairs;
  task.pairs = kPairs;
  task.x = task.y = x.data();
  task.x_token_stride = task.y_token_stride = 2 * kHeads * kPairs;
  task.x_head_stride = task.y_head_stride = 2 * kPairs;
  task.table_stride = kPairs;
  task.cos = table.data();
  task.sin = table.data() + tokens * kPairs;
  return SameBits(bench, "rotate bf16 halves in place", bench.buffer(0), task, {0, tokens}, x.data(), Bench::kBytes);
}

Rows RotateGates() {
  Bench bench;
  const int64_t tokens = Bench::kBytes / (kHeads * kPairs * 4);
  const std::vector<float> host_table = Table(tokens);
  const float* const table = TableOnDevice(host_table);
  const auto rotate = [&](DType dtype, bool halves, bool in_place) -> Bench::Work {
    const int64_t own = tokens * 2 / SizeOf(dtype);
    return [&bench, table, tokens, own, dtype, halves, in_place](int round) {
      std::byte* const x = bench.buffer(round);
      bench.Launch(Rotation(x, in_place ? x : bench.buffer(round + 1), table, tokens, own, dtype, halves));
    };
  };
  const int64_t works = tokens * kHeads * kPairs;
  const auto naive = [&](int round) {
    NaiveRotate<<<static_cast<unsigned>((works + 255) / 256), 256, 0, bench.stream()>>>(
        reinterpret_cast<uint16_t*>(bench.buffer(round)), table, table + tokens * kPairs, static_cast<uint32_t>(tokens),
        kHeads, kPairs);
  };
  const auto s = bench.Seconds({bench.Copy(), rotate(DType::kBF16, true, true), naive, rotate(DType::kBF16, false, true),
                                rotate(DType::kBF16, true, false), rotate(DType::kF32, true, true)});
  const auto of_copy = [&](const char* name, double seconds) {
    return ReportRow{name, RowKind::kAtLeast, s[0] / seconds, 0.80};
  };
  return {{"device copy, GB/s read and written", RowKind::kFigure, GigabytesPerSecond(2 * Bench::kBytes, s[0])},
          of_copy("rotate bf16 halves in place, of a device copy", s[1]),
          {"rotate bf16, a naive kernel's time ÷ ours", RowKind::kAtLeast, s[2] / s[1], 1.6},
          of_copy("rotate bf16 interleaved in place, of a device copy", s[3]),
          of_copy("rotate bf16 halves out of place, of a device copy", s[4]),
          of_copy("rotate f32 halves in place, of a device copy", s[5]),
          RotatesAsTheCpu(bench, host_table, table, tokens)};
}

// By the device alone, many times over: µs each.
constexpr int kRepeats = 200;

Rows SmallGates() {
  Bench bench;
  const float* const table = TableOnDevice(Table(64));
  const auto rotate = [&](int64_t tokens) -> Bench::Work {
    return [&bench, table, tokens](int) {
      const RotateParams p = Rotation(bench.buffer(0), bench.buffer(0), table, 64, tokens, DType::kBF16, true);
      for (int i = 0; i < kRepeats; ++i) bench.Launch(p);
    };
  };
  const auto empty = [&](int) {
    for (int i = 0; i < kRepeats; ++i) Nothing<<<1, kBlockThreads, 0, bench.stream()>>>();
  };
  const auto s = bench.SecondsOfGraphs({empty, rotate(1), rotate(64)});
  const auto over = [&](double seconds) { return (seconds - s[0]) / kRepeats * 1e6; };
  return {{"rotate 64 tokens, µs over an empty kernel", RowKind::kAtMost, over(s[2]), 2},
          {"rotate 1 token, µs over an empty kernel", RowKind::kAtMost, over(s[1]), 2},
          {"an empty kernel, µs", RowKind::kFigure, s[0] / kRepeats * 1e6}};
}

Rows GroupGates() {
  constexpr int kRequests = 256;
  Bench bench;
  const float* const table = TableOnDevice(Table(1));
  std::vector<RotateParams> requests;
  for (int i = 0; i < kRequests; ++i) {
    std::byte* const x = bench.buffer(0) + i * int64_t{kHeads} * kPairs * 4;
    requests.push_back(Rotation(x, x, table, 1, 1, DType::kBF16, true));
  }
  const std::vector<KernelParams> groups = GroupsOf(requests);
  constexpr int kTimes = 50;
  const auto s = bench.SecondsOfGraphs({[&](int) {
                                          for (int i = 0; i < kTimes; ++i) bench.Launch(requests[0]);
                                        },
                                        [&](int) {
                                          for (int i = 0; i < kTimes; ++i) bench.LaunchAll(groups);
                                        }});
  Rows rows = {{"256 requests of 1 token in grouped launches, ÷ one", RowKind::kAtMost, s[1] / s[0], 3}};
  for (ReportRow& row : GroupFigures(MakeCudartDriver(), {})) rows.push_back(std::move(row));
  return rows;
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
    Check(cudaMalloc(&to, static_cast<size_t>(std::max<int64_t>(constant.bytes, 1))), "cudaMalloc");
    Check(cudaMemcpy(to, constant.host, static_cast<size_t>(constant.bytes), cudaMemcpyHostToDevice), "cudaMemcpy");
    constants.push_back(static_cast<std::byte*>(to));
  }
  const Transfers moves = (*lowered)->TransfersOf(rows);
  for (const Strip& strip : moves.outputs) {
    outputs.push_back(out);
    out += (strip.bytes() + 255) / 256 * 256;
  }
  return (*lowered)->Launches(rows, {constants, inputs, outputs});
}

// `task` writes Bench::kBytes from `out` on: first on the device, then on the CPU, and there must be the same.
Rows OfAFill(Bench& bench, const char* name, RowKind kind, const Task& task, RowRange rows, const std::byte* out) {
  std::vector<std::vector<KernelParams>> launches;
  for (int i = 0; i < Bench::kBuffers; ++i) launches.push_back(OnDevice(task, rows, bench.buffer(i)));
  const auto s = bench.Seconds(
      {bench.Fill(), [&](int round) { bench.LaunchAll(launches[static_cast<size_t>(round % Bench::kBuffers)]); }});
  bench.LaunchAll(launches[0]);
  return {{name, kind, s[0] / s[1], 0.85}, SameBits(bench, name, bench.buffer(0), task, rows, out, Bench::kBytes)};
}

Rows TableGates() {
  Bench bench;
  RopeSpec rope;
  rope.head_dim = 128;
  rope.base = 500000;
  const auto canonical = Canonicalize(EncodingSpec{rope});
  const auto resolved = Resolve(*canonical, std::nullopt, Precision::kExact);
  const auto& plan = std::get<AnglePlan>(resolved->plan);
  AngleTask angle;
  angle.plan = &plan;
  angle.row_stride = plan.pairs();
  std::vector<std::byte> out(Bench::kBytes);
  angle.cos = out.data();
  angle.sin = out.data() + Bench::kBytes / 2;
  const auto fill = bench.Seconds({bench.Fill()});
  // The recurrence is in f64: elsewhere the ratio says more of the device than of the kernel.
  const RowKind kind = HasFastDoubles(bench.info().major, bench.info().minor) ? RowKind::kAtLeast : RowKind::kFigure;
  Rows result =
      OfAFill(bench, "exact table f32, of a fill", kind, angle, {0, Bench::kBytes / (plan.pairs() * 8)}, out.data());
  result.push_back({"device fill, GB/s", RowKind::kFigure, GigabytesPerSecond(Bench::kBytes, fill[0])});
  return result;
}

Rows BiasGates() {
  Bench bench;
  ToeplitzTask bias;
  bias.heads = 16;
  bias.queries = bias.keys = 2048;
  bias.vector_stride = 4095;
  std::vector<float> vector(16 * 4095);
  for (size_t i = 0; i < vector.size(); ++i) vector[i] = -0.25f * static_cast<float>(i % 4095);
  bias.vector = vector.data();
  std::vector<std::byte> out(Bench::kBytes);
  bias.out = out.data();
  return OfAFill(bench, "Toeplitz bias f32, of a fill", RowKind::kAtLeast, bias, {0, 16 * 2048}, out.data());
}

Rows HostGates() { return HostPathGate(MakeCudartDriver(), {}); }
Rows BreakEven() { return BreakEvenFigure(MakeCudartDriver(), {}); }

constexpr struct {
  std::string_view name;
  Rows (*run)();
} kGroups[] = {{"rotate", &RotateGates}, {"small", &SmallGates}, {"table", &TableGates},    {"bias", &BiasGates},
               {"host", &HostGates},     {"group", &GroupGates}, {"break-even", &BreakEven}};

int Run(std::string_view name, std::string_view json) {
  for (const auto& group : kGroups) {
    if (group.name != name) continue;
    bool hold = true;
    for (const ReportRow& row : group.run()) {
      Report(row, json);
      hold &= row.holds();
    }
    return hold ? 0 : 1;
  }
  std::fprintf(stderr, "no group \"%s\": see --list\n", std::string(name).c_str());
  return 64;
}

}  // namespace
}  // namespace phasor::cuda

int main(int argc, char** argv) {
  std::string_view group, json;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--list") {
      for (const auto& each : phasor::cuda::kGroups) std::printf("%s\n", std::string(each.name).c_str());
      return 0;
    }
    if (argument.starts_with("--json=")) json = argument.substr(7);
    if (argument.starts_with("--group=")) group = argument.substr(8);
  }
  if (absl::Status usable = phasor::cuda::MakeCudartDriver()->Devices().status(); !usable.ok()) {
    std::fprintf(stderr, "no usable device: %s\n", std::string(usable.message()).c_str());
    return 2;
  }
  return phasor::cuda::Run(group, json);
}
