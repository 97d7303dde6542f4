// A program that uses the installed library: the table of Llama-3.1-8B, one value of it.
#include <kernels/backend.h>
#include <kernels/encodings/encoding.h>

#include <cstdio>
#include <vector>

int main() {
  phasor::RopeSpec llama{.head_dim = 128, .base = 500000, .schedule = phasor::Llama3Schedule{8, 1, 4, 8192}};
  const auto spec = phasor::Canonicalize(llama);
  if (!spec.ok()) return 1;
  const auto resolved = phasor::Resolve(*spec, std::nullopt, phasor::Precision::kExact);
  const auto backend = phasor::CreateBackend("auto");
  if (!resolved.ok() || !backend.ok()) return 1;
  std::vector<float> cos(64);
  phasor::AngleTask task{.plan = &std::get<phasor::AnglePlan>(resolved->plan), .positions = {.start = 131071}};
  task.cos = cos.data();
  task.row_stride = 64;
  if (!(*backend)->Run(task, {0, 1}, nullptr).ok()) return 1;
  std::printf("%.9g\n", cos[32]);
}
