#include "tests/bench/case_costs.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <variant>
#include <vector>

#include "kernels/backend.h"
#include "kernels/encodings/encoding.h"
#include "kernels/program/window_bias.h"
#include "tests/bench/floors.h"
#include "tests/conformance/cases.h"

namespace phasor::bench {
namespace {

constexpr int64_t kBytes = int64_t{8} << 20;

// The median of nine runs, seconds.
double Median(const std::function<bool()>& body, bool* ok) {
  std::vector<double> seconds;
  for (int i = 0; i < 9; ++i) {
    const auto start = std::chrono::steady_clock::now();
    *ok = body() && *ok;
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

// A task that fills about kBytes, and its rows.
struct Filling {
  Task task;
  int64_t rows = 0;
  int64_t bytes = 0;
};

Filling FillingOf(const Plan& plan, DType dtype, std::byte* out) {
  Filling filling;
  if (const auto* angle = std::get_if<AnglePlan>(&plan)) {
    const int64_t row_bytes = 2 * angle->pairs() * SizeOf(dtype);
    filling.rows = std::max<int64_t>(1, kBytes / row_bytes);
    filling.bytes = filling.rows * row_bytes;
    AngleTask task;
    task.plan = angle;
    task.dtype = dtype;
    task.cos = out;
    task.sin = out + filling.bytes / 2;
    task.row_stride = angle->pairs();
    filling.task = task;
    return filling;
  }
  const std::optional<DistancePlan> bias = DistancePlanOf(plan);
  if (!bias) return filling;
  const int64_t heads = VectorsOf(*bias);
  filling.rows = std::max<int64_t>(1, kBytes / (heads * SizeOf(dtype)));
  filling.bytes = filling.rows * heads * SizeOf(dtype);
  BiasVectorTask task;
  task.plan = *bias;
  task.dtype = dtype;
  task.first_distance = -filling.rows / 2;
  task.heads = heads;
  task.out = out;
  task.head_stride = filling.rows;
  filling.task = task;
  return filling;
}

// A bias that is made by several steps: that of 512 queries and keys, or of its window, and of as many heads as fit.
struct BiasProgram {
  std::vector<int64_t> positions;
  std::vector<std::byte> scratch;
  std::vector<ProgramStep> steps;
  int64_t bytes = 0;
};

void MakeProgram(const Case& c, const Plan& plan, DType dtype, std::byte* out, BiasProgram* program) {
  const auto canonical = Canonicalize(c.spec);
  const auto traits = canonical.ok() ? TraitsOf(canonical->spec) : std::nullopt;
  if (!traits) return;
  int64_t rows = traits->tokens > 0 ? traits->tokens : 512;
  if (traits->query_rows > 0) rows = std::min({rows, traits->query_rows, traits->key_rows});
  program->positions.resize(static_cast<size_t>(rows));
  std::iota(program->positions.begin(), program->positions.end(), 0);
  const int64_t heads = std::clamp<int64_t>(kBytes / (rows * rows * SizeOf(dtype)), 1, traits->heads);
  program->scratch.resize(static_cast<size_t>(BiasScratchBytes(canonical->spec, dtype, heads, rows, rows)) + 64);
  program->bytes = heads * rows * rows * SizeOf(dtype);
  const BiasPart part{.dtype = dtype,
                      .heads = heads,
                      .query_positions = program->positions,
                      .key_positions = program->positions,
                      .out = out};
  const uintptr_t at = reinterpret_cast<uintptr_t>(program->scratch.data());
  AppendBiasSteps(plan, part, program->scratch.data() + (64 - at % 64) % 64, &program->steps);
}

bool PrintCase(const Case& c, const Backend& backend, std::byte* out) {
  bool ok = true;
  Plan plan;
  const double resolve = Median(
      [&] {
        const auto canonical = Canonicalize(c.spec);
        if (!canonical.ok()) return false;
        auto resolved = Resolve(*canonical, c.sequence_length, Precision::kExact);
        if (resolved.ok()) plan = std::move(resolved->plan);
        return resolved.ok();
      },
      &ok);
  if (!ok) {
    std::printf("%-44s does not resolve\n", c.name.c_str());
    return false;
  }
  std::printf("%-44s %-6s plan %7.3f ms", c.name.c_str(), std::string(backend.name()).c_str(), resolve * 1e3);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Filling filling = FillingOf(plan, dtype, out);
    BiasProgram program;
    if (filling.rows == 0) MakeProgram(c, plan, dtype, out, &program);
    if (filling.rows == 0) filling.bytes = program.bytes;
    if (filling.bytes == 0) break;  // a scheme that only works on tensors
    const auto run = [&] {
      return (filling.rows == 0 ? RunProgram(backend, program.steps) : backend.Run(filling.task, {0, filling.rows}, nullptr))
          .ok();
    };
    const double floor = Median([&] { return std::memset(out, 1, static_cast<size_t>(filling.bytes)) != nullptr; }, &ok);
    const double seconds = Median(run, &ok);
    std::printf("   %s %6.2f GB/s, %6.2f x memset", std::string(Name(dtype)).c_str(),
                static_cast<double>(filling.bytes) / seconds / 1e9, seconds / floor);
  }
  std::printf("%s\n", ok ? "" : "   FAILED");
  return ok;
}

}  // namespace

bool PrintCaseCosts() {
  std::byte* out = TouchedMemory(kBytes + (1 << 20));
  bool ok = true;
  for (const BackendInfo& info : ListBackends()) {
    if (!info.usable || info.name == "reference") continue;
    const auto backend = CreateBackend(info.name);
    if (!backend.ok()) return false;
    for (const Case& c : ConformanceCases()) ok = PrintCase(c, **backend, out) && ok;
  }
  return ok;
}

}  // namespace phasor::bench
