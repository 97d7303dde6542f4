// G1, G2, G4 (speed), G7, G8, G10, G11: kernels against memory.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "kernels/backend.h"
#include "kernels/core/narrow.h"
#include "kernels/cpu/cpu_target.h"
#include "kernels/encodings/encoding.h"
#include "tests/bench/floors.h"
#include "tests/bench/gates.h"

namespace phasor::bench {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr int64_t kPairs = 64, kHeads = 32, kHeadDim = 128;

// Shared by every benchmark; made on first use. Benchmarks run one at a time.
struct Fixture {
  std::unique_ptr<Backend> backend = *CreateBackend("cpu");
  AnglePlan exact = MakePlan(Precision::kExact), compat = MakePlan(Precision::kCompatF32);
  std::byte* a = TouchedMemory(512 * kMiB);
  std::byte* b = TouchedMemory(512 * kMiB);

  static AnglePlan MakePlan(Precision precision) {
    RopeSpec spec{.head_dim = 2 * kPairs, .base = 500000.0};
    spec.schedule = Llama3Schedule{8, 1, 4, 8192};
    return std::get<AnglePlan>(Resolve(*Canonicalize(spec), std::nullopt, precision)->plan);
  }
};

Fixture& Shared() {
  static Fixture fixture;
  return fixture;
}

void Floor(const std::string& name, std::function<void()> body) {
  benchmark::RegisterBenchmark(name.c_str(), [body = std::move(body)](benchmark::State& state) {
    for (auto _ : state) {
      body();
      benchmark::ClobberMemory();
    }
  })->UseRealTime();
}

// Runs a kernel on an instruction set ("auto": the best).
void Kernel(const std::string& name, const std::string& target, std::function<absl::Status()> body) {
  benchmark::RegisterBenchmark(name.c_str(), [body = std::move(body), target](benchmark::State& state) {
    if (const absl::Status status = ForceCpuTarget(target); !status.ok())
      state.SkipWithError(std::string(status.message()).c_str());
    for (auto _ : state) {
      if (const absl::Status status = body(); !status.ok()) {
        state.SkipWithError(std::string(status.message()).c_str());
        break;
      }
      benchmark::ClobberMemory();
    }
    (void)ForceCpuTarget("auto");
  })->UseRealTime();
}

// Two halves on two threads.
absl::Status OnTwoThreads(const std::function<absl::Status(RowRange)>& body, int64_t rows) {
  absl::Status first, second;
  OnTwoCores([&] { first = body({0, rows / 2}); }, [&] { second = body({rows / 2, rows}); });
  return first.ok() ? second : first;
}

AngleTask TableTask(const AnglePlan& plan, size_t bytes) {
  Fixture& f = Shared();
  return {.plan = &plan, .dtype = DType::kF32, .cos = f.a, .sin = f.a + bytes / 2, .row_stride = kPairs};
}

void AddTables(GateList& gates) {
  for (const size_t mib : {1, 64, 512}) {
    const size_t bytes = mib * kMiB;
    Floor(absl::StrCat("streaming_", mib, "MiB"), [bytes] { StreamingStores(Shared().a, bytes); });
    Floor(absl::StrCat("memset_", mib, "MiB"), [bytes] { std::memset(Shared().a, 1, bytes); });
  }
  const std::vector<std::string> targets = CpuTargets();
  for (const std::string target : {"avx3", "avx2"}) {
    if (std::find(targets.begin(), targets.end(), target) == targets.end()) {
      gates.Note(absl::StrCat("G1, G2 on ", target, ": not measured, this CPU does not have it"));
      continue;
    }
    for (const size_t mib : {1, 64, 512}) {
      const std::string name = absl::StrCat("table_", mib, "MiB_", target);
      const size_t bytes = mib * kMiB;
      const int64_t rows = static_cast<int64_t>(bytes / (2 * kPairs * sizeof(float)));
      Kernel(name, target,
             [bytes, rows] { return Shared().backend->Run(TableTask(Shared().exact, bytes), {0, rows}, nullptr); });
      const bool wide = target == "avx3";
      if (mib == 1) {
        gates.Add({"G2", absl::StrCat("exact f32 table 1 MiB, ", target), name, "memset_1MiB", wide ? 2.3 : 4.0});
      } else {
        gates.Add({"G1", absl::StrCat("exact f32 table ", mib, " MiB, ", target), name,
                   absl::StrCat("streaming_", mib, "MiB"), wide ? 1.25 : 1.5});
      }
    }
  }
  Kernel("table_64MiB_two_threads", "auto", [] {
    const AngleTask task = TableTask(Shared().exact, 64 * kMiB);
    return OnTwoThreads([&](RowRange rows) { return Shared().backend->Run(task, rows, nullptr); }, 131072);
  });
  Kernel("table_64MiB_one_thread", "auto",
         [] { return Shared().backend->Run(TableTask(Shared().exact, 64 * kMiB), {0, 131072}, nullptr); });
  gates.Add({"G11", "exact f32 table 64 MiB, two threads", "table_64MiB_two_threads", "table_64MiB_one_thread", 1.6, true});
  // What two threads can bring at all: memory may be busy with one.
  Floor("streaming_64MiB_two_threads", [] {
    OnTwoCores([] { StreamingStores(Shared().a, 32 * kMiB); }, [] { StreamingStores(Shared().a + 32 * kMiB, 32 * kMiB); });
  });
  gates.Add(
      {"G11", "(for comparison: streaming stores, two threads)", "streaming_64MiB_two_threads", "streaming_64MiB", 0, true});
  Floor("libm_table_1MiB", [] {
    float* out = reinterpret_cast<float*>(Shared().a);
    LibmTable(Shared().compat.inv_freq_f32.data(), 2048, kPairs, out, out + 2048 * kPairs);
  });
  Kernel("compat_table_1MiB", "auto",
         [] { return Shared().backend->Run(TableTask(Shared().compat, kMiB), {0, 2048}, nullptr); });
  gates.Add({"G4", "compat_f32 table 1 MiB, times faster than libm", "compat_table_1MiB", "libm_table_1MiB", 7, true});
}

RotateTask RotationOf(DType dtype, Pairing pairing, size_t bytes, bool in_place) {
  Fixture& f = Shared();
  RotateTask task;
  task.dtype = dtype;
  task.pairing = pairing;
  task.tokens = static_cast<int64_t>(bytes) / (kHeads * kHeadDim * SizeOf(dtype));
  task.heads = kHeads;
  task.head_dim = kHeadDim;
  task.pairs = kPairs;
  task.x = f.a;
  task.y = in_place ? f.a : f.b;
  task.x_token_stride = task.y_token_stride = kHeads * kHeadDim;
  task.x_head_stride = task.y_head_stride = kHeadDim;
  task.table_stride = kPairs;
  return task;
}

// Normal-range data in every type, and a table, in memory of their own.
struct Rotation {
  RotateTask task;
  std::vector<float> cos, sin;

  explicit Rotation(const RotateTask& shape) : task(shape) {
    cos.resize(static_cast<size_t>(task.tokens * kPairs));
    sin.resize(cos.size());
    const AngleTask table{.plan = &Shared().exact, .cos = cos.data(), .sin = sin.data(), .row_stride = kPairs};
    (void)Shared().backend->Run(table, {0, task.tokens}, nullptr);
    task.cos = cos.data();
    task.sin = sin.data();
  }

  void FillInput() const {
    std::mt19937 random(1);
    std::vector<std::byte> pattern(size_t{1} << 20);
    VisitFloat(task.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      T* out = reinterpret_cast<T*>(pattern.data());
      for (size_t i = 0; i < pattern.size() / sizeof(T); ++i)
        out[i] = Narrow<T>(static_cast<double>(random()) / 4294967296.0 + 0.5);
    });
    const size_t bytes = static_cast<size_t>(task.tokens * kHeads * kHeadDim * SizeOf(task.dtype));
    for (size_t at = 0; at < bytes; at += pattern.size()) {
      std::memcpy(Shared().a + at, pattern.data(), std::min(pattern.size(), bytes - at));
    }
  }
};

void RotationBenchmark(const std::string& name, DType dtype, Pairing pairing, size_t bytes, bool in_place,
                       bool two_threads) {
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    const Rotation rotation(RotationOf(dtype, pairing, bytes, in_place));
    rotation.FillInput();
    for (auto _ : state) {
      const auto run = [&](RowRange rows) { return Shared().backend->Run(rotation.task, rows, nullptr); };
      const absl::Status status = two_threads ? OnTwoThreads(run, rotation.task.tokens) : run({0, rotation.task.tokens});
      if (!status.ok()) state.SkipWithError(std::string(status.message()).c_str());
      benchmark::ClobberMemory();
    }
  })->UseRealTime();
}

// What two threads can bring a rotation in place at all.
void AddTwoThreadFloors(GateList& gates) {
  constexpr size_t kBytes = 64 * kMiB, kHalf = kBytes / 2;
  Floor("memcpy_64MiB", [] { std::memcpy(Shared().b, Shared().a, kBytes); });
  Floor("memcpy_64MiB_two_threads", [] {
    OnTwoCores([] { std::memcpy(Shared().b, Shared().a, kHalf); },
               [] { std::memcpy(Shared().b + kHalf, Shared().a + kHalf, kHalf); });
  });
  gates.Add({"G11", "(for comparison: memcpy, two threads)", "memcpy_64MiB_two_threads", "memcpy_64MiB", 0, true});
  Floor("touch_64MiB", [] { AddOneInPlace(Shared().a, kBytes); });
  Floor("touch_64MiB_two_threads",
        [] { OnTwoCores([] { AddOneInPlace(Shared().a, kHalf); }, [] { AddOneInPlace(Shared().a + kHalf, kHalf); }); });
  gates.Add(
      {"G11", "(for comparison: one addition in place, two threads)", "touch_64MiB_two_threads", "touch_64MiB", 0, true});
}

void AddRotations(GateList& gates) {
  const auto size_name = [](size_t kib) { return kib < 1024 ? absl::StrCat(kib, "KiB") : absl::StrCat(kib / 1024, "MiB"); };
  for (const size_t kib : {512, 32768, 262144}) {
    const size_t bytes = kib * 1024;
    const std::string memcpy_name = absl::StrCat("memcpy_", size_name(kib));
    Floor(memcpy_name, [bytes] { std::memcpy(Shared().b, Shared().a, bytes); });
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      for (const Pairing pairing : {Pairing::kHalfSplit, Pairing::kInterleaved}) {
        const std::string what = absl::StrCat(
            std::string(Name(dtype)), pairing == Pairing::kHalfSplit ? " half-split " : " interleaved ", size_name(kib));
        const std::string in_place = absl::StrCat("rotate in place ", what), out = absl::StrCat("rotate ", what);
        RotationBenchmark(in_place, dtype, pairing, bytes, true, false);
        const double limit = dtype == DType::kF32 ? 1.05 : kib < 1024 ? 1.7 : 1.1;
        gates.Add({"G7", in_place, in_place, memcpy_name, limit});
        if (kib < 1024) continue;
        RotationBenchmark(out, dtype, pairing, bytes, false, false);
        gates.Add({"G8", absl::StrCat("rotate out of place ", what), out, memcpy_name, kib == 32768 ? 0.9 : 1.3});
      }
    }
  }
  AddTwoThreadFloors(gates);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const std::string name = absl::StrCat("rotate in place ", std::string(Name(dtype)), " 64MiB");
    RotationBenchmark(absl::StrCat(name, " one thread"), dtype, Pairing::kHalfSplit, 64 * kMiB, true, false);
    RotationBenchmark(absl::StrCat(name, " two threads"), dtype, Pairing::kHalfSplit, 64 * kMiB, true, true);
    gates.Add({"G11", absl::StrCat(name, ", two threads"), absl::StrCat(name, " two threads"),
               absl::StrCat(name, " one thread"), 1.6, true});
  }
}

void AddBiases(GateList& gates) {
  for (const auto& [queries, mib] : {std::pair<int64_t, size_t>{1024, 32}, {2048, 128}}) {
    constexpr int64_t kBiasHeads = 8;
    const std::string name = absl::StrCat("toeplitz_", mib, "MiB"), floor = absl::StrCat("streaming_bias_", mib, "MiB");
    const size_t bytes = mib * kMiB;
    Floor(floor, [bytes] { StreamingStores(Shared().a, bytes); });
    Kernel(name, "auto", [queries = queries] {
      const ToeplitzTask task{.element_size = 4,
                              .heads = kBiasHeads,
                              .queries = queries,
                              .keys = queries,
                              .vector = Shared().b,
                              .vector_stride = 2 * queries - 1,
                              .out = Shared().a};
      return Shared().backend->Run(task, {0, kBiasHeads * queries}, nullptr);
    });
    gates.Add({"G10", absl::StrCat("ALiBi [8, ", queries, ", ", queries, "] f32, ", mib, " MiB"), name, floor, 1.1});
  }
}

// x + PE in place, the encodings of 512 positions shared by every batch row, against a copy of as many bytes.
void AddAdditions(GateList& gates) {
  constexpr int64_t kTokens = 512, kDim = 1024;
  for (const size_t mib : {32, 128}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const std::string what = absl::StrCat("add in place ", std::string(Name(dtype)), " ", mib, "MiB");
      Kernel(what, "auto", [dtype, mib] {
        const auto batch = static_cast<int64_t>(mib * kMiB) / (kTokens * kDim * SizeOf(dtype));
        AddTask task;
        task.dtype = dtype;
        task.batch = batch;
        task.tokens = kTokens;
        task.dim = kDim;
        task.x = task.y = Shared().a;
        task.x_token_stride = task.y_token_stride = kDim;
        task.x_batch_stride = task.y_batch_stride = kTokens * kDim;
        task.scale = 1;
        task.pe = {Shared().b, 0, kDim};
        return Shared().backend->Run(task, {0, batch * kTokens}, nullptr);
      });
      const std::string floor = absl::StrCat("copy_", mib, "MiB_for_additions_", std::string(Name(dtype)));
      Floor(floor, [mib] { std::memcpy(Shared().b, Shared().a, mib * kMiB); });
      gates.Add({"G12", what, what, floor, 1.1});
    }
  }
}

// Biases by positions that are no range, and with masks, in the one pass that writes them.
void AddComposedBiases(GateList& gates) {
  constexpr int64_t kBiasHeads = 8, kSize = 2048;
  static std::vector<int32_t> padded, scattered;
  static std::vector<uint8_t> there(kSize, 1);
  std::mt19937 random(5);
  for (int64_t k = 0; k < kSize; ++k) {
    padded.push_back(static_cast<int32_t>(std::max<int64_t>(k - 300, 0)));
    scattered.push_back(static_cast<int32_t>(random() % kSize));
    there[static_cast<size_t>(k)] = random() % 8 == 0 ? 0 : 1;
  }
  static MaskRule causal, window, holes;
  causal.causal = window.causal = holes.causal = true;
  window.window_before = 512;
  holes.key_padding = there.data();
  struct Case {
    const char* what;
    const int32_t* positions;
    const MaskRule* mask;
    double limit;
  };
  for (const Case& c : {Case{"padded positions", padded.data(), nullptr, 1.5},
                        {"scattered positions", scattered.data(), nullptr, 1.5},
                        {"causal", nullptr, &causal, 1.5},
                        {"causal window", nullptr, &window, 1.5},
                        {"causal with padding", nullptr, &holes, 1.5}}) {
    const std::string name = absl::StrCat("composed bias, ", c.what);
    Kernel(name, "auto", [c] {
      const BiasMatrixTask task{.heads = kBiasHeads,
                                .queries = kSize,
                                .keys = kSize,
                                .vector = Shared().b,
                                .vector_head_stride = 2 * kSize - 1,
                                .first_distance = 1 - kSize,
                                .key_positions = c.positions,
                                .mask = c.mask,
                                .out = Shared().a};
      return Shared().backend->Run(task, {0, kBiasHeads * kSize}, nullptr);
    });
    gates.Add({"G13", absl::StrCat("bias [8, 2048, 2048] f32, ", c.what), name, "streaming_bias_128MiB", c.limit});
  }
}

// Tables gathered by the rule of a window: large ones that stream, and Swin's and BEiT's own.
void AddWindows(GateList& gates) {
  struct Shape {
    TokenWindow window;
    int64_t heads, element_size;
    double limit;
    const char* what;
  };
  // A row of a 7x7 window is three lines long: cutting it costs as much as writing it.
  for (const Shape& shape :
       {Shape{{24, 24, false}, 24, 4, 1.5, "24x24 f32"}, Shape{{24, 24, true}, 48, 2, 1.5, "24x24 + 1 bf16"},
        Shape{{12, 12, false}, 400, 2, 1.5, "12x12 bf16"}, Shape{{7, 7, false}, 3328, 4, 1.5, "7x7 f32"}}) {
    const int64_t tokens = shape.window.tokens();
    const size_t bytes = static_cast<size_t>(shape.heads * tokens * tokens * shape.element_size);
    const std::string name = absl::StrCat("window ", shape.what), floor = absl::StrCat("streaming window ", shape.what);
    Floor(floor, [bytes] { StreamingStores(Shared().a, bytes); });
    Kernel(name, "auto", [shape, tokens] {
      const WindowTask task{.element_size = shape.element_size,
                            .window = shape.window,
                            .heads = shape.heads,
                            .table = Shared().b,
                            .table_stride = shape.window.table_rows(),
                            .out = Shared().a};
      return Shared().backend->Run(task, {0, shape.heads * tokens}, nullptr);
    });
    gates.Add({"G10", absl::StrCat("gathered window ", shape.what, ", ", bytes / kMiB, " MiB"), name, floor, shape.limit});
  }
}

}  // namespace

void AddKernelGates(GateList& gates) {
  AddTables(gates);
  AddRotations(gates);
  AddBiases(gates);
  AddAdditions(gates);
  AddComposedBiases(gates);
  AddWindows(gates);
}

}  // namespace phasor::bench
