// Phasor's kernels behind a C ABI, for the comparisons of peers.py only: ctypes loads it into the process of the peers. No
// part of the product: nothing is installed, and names and arguments change with the script. Functions that can fail return
// 0 when they did not; phasor_peer_error tells why.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "kernels/backend.h"
#include "kernels/encodings/encoding.h"
#include "tests/bench/floors.h"

#define PHASOR_PEER extern "C" __attribute__((visibility("default")))

namespace phasor::bench {
namespace {

thread_local std::string last_error;

int Told(const absl::Status& status) {
  last_error = status.ok() ? "" : status.ToString();
  return status.ok() ? 0 : 1;
}

const Backend& Cpu() {
  static const std::unique_ptr<Backend> backend = *CreateBackend("cpu");
  return *backend;
}

// Rows in as many ranges as there are threads, each a multiple of 64 rows but for the last.
absl::Status OnThreads(int threads, int64_t rows, const std::function<absl::Status(RowRange)>& body) {
  if (threads <= 1) return body({0, rows});
  const int64_t each = (rows / threads + 63) / 64 * 64;
  std::vector<absl::Status> statuses(static_cast<size_t>(threads));
  std::vector<std::thread> others;
  const auto part = [&](int64_t i) {
    const RowRange range{std::min(rows, i * each), i + 1 == threads ? rows : std::min(rows, (i + 1) * each)};
    if (range.begin < range.end) statuses[static_cast<size_t>(i)] = body(range);
  };
  for (int i = 1; i < threads; ++i) others.emplace_back(part, i);
  part(0);
  for (std::thread& other : others) other.join();
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status RunTask(const Task& task, int64_t rows, int threads) {
  return OnThreads(threads, rows, [&](RowRange range) { return Cpu().Run(task, range, nullptr); });
}

// Null on failure. Lives as long as the process.
const Resolved* ResolveForever(const EncodingSpec& spec) {
  const absl::StatusOr<CanonicalSpec> canonical = Canonicalize(spec);
  if (Told(canonical.status()) != 0) return nullptr;
  absl::StatusOr<Resolved> resolved = Resolve(*canonical, std::nullopt, Precision::kExact);
  if (Told(resolved.status()) != 0) return nullptr;
  return new Resolved(*std::move(resolved));
}

}  // namespace

PHASOR_PEER const char* phasor_peer_error() { return last_error.c_str(); }

// "avx2" and the like.
PHASOR_PEER const char* phasor_peer_description() {
  static const std::string text = Cpu().description();
  return text.c_str();
}

// A pooled buffer: huge pages where there are any, touched, aligned; lives as long as the process.
PHASOR_PEER void* phasor_peer_memory(int64_t bytes) { return TouchedMemory(static_cast<size_t>(bytes)); }

// Floors. bytes: a multiple of 64.
PHASOR_PEER void phasor_peer_streaming(void* out, int64_t bytes) { StreamingStores(out, static_cast<size_t>(bytes)); }
PHASOR_PEER void phasor_peer_copy(void* out, const void* in, int64_t bytes) {
  std::memcpy(out, in, static_cast<size_t>(bytes));
}

// RoPE's plan, to build tables with. Null on failure.
PHASOR_PEER const void* phasor_peer_rope(int64_t head_dim, double base) {
  return ResolveForever(RopeSpec{.head_dim = head_dim, .base = base});
}

// cos and sin of positions 0 … rows − 1, [rows, head_dim/2] each, f32, exact.
PHASOR_PEER int phasor_peer_table(const void* rope, int64_t rows, float* cos_out, float* sin_out, int threads) {
  const auto* plan = std::get_if<AnglePlan>(&static_cast<const Resolved*>(rope)->plan);
  if (plan == nullptr) return Told(absl::InvalidArgumentError("no plan of angles"));
  const AngleTask task{.plan = plan, .dtype = DType::kF32, .cos = cos_out, .sin = sin_out, .row_stride = plan->pairs()};
  return Told(RunTask(task, rows, threads));
}

// x, y: [tokens, heads, head_dim] of a DType; cos, sin: [tokens, head_dim/2], f32. y == x: in place.
PHASOR_PEER int phasor_peer_rotate(int dtype, int interleaved, const void* x, void* y, const float* cos_in,
                                   const float* sin_in, int64_t tokens, int64_t heads, int64_t head_dim, int threads) {
  RotateTask task;
  task.dtype = static_cast<DType>(dtype);
  if (!IsFloat(task.dtype)) return Told(absl::InvalidArgumentError("not a type of floats"));
  task.pairing = interleaved != 0 ? Pairing::kInterleaved : Pairing::kHalfSplit;
  task.tokens = tokens;
  task.heads = heads;
  task.head_dim = head_dim;
  task.pairs = task.table_stride = head_dim / 2;
  task.x = x;
  task.y = y;
  task.x_token_stride = task.y_token_stride = heads * head_dim;
  task.x_head_stride = task.y_head_stride = head_dim;
  task.cos = cos_in;
  task.sin = sin_in;
  return Told(RunTask(task, tokens, threads));
}

PHASOR_PEER const void* phasor_peer_alibi(int64_t heads) { return ResolveForever(AlibiSpec{.num_heads = heads}); }

// T5's bidirectional bias; table: [buckets, heads].
PHASOR_PEER const void* phasor_peer_t5(int64_t buckets, int64_t heads, const double* table) {
  T5BucketSpec spec;
  spec.num_buckets = buckets;
  spec.table = MakeWeight({buckets, heads}, std::vector<double>(table, table + buckets * heads));
  return ResolveForever(spec);
}

// The full bias [heads, size, size], f32: first its vector of values by distance, then the matrix.
PHASOR_PEER int phasor_peer_bias(const void* bias, int64_t size, float* out, int threads) {
  const std::optional<DistancePlan> plan = DistancePlanOf(static_cast<const Resolved*>(bias)->plan);
  if (!plan) return Told(absl::InvalidArgumentError("no plan of a bias by distance"));
  const int64_t heads = HeadsOf(*plan), distances = 2 * size - 1;
  std::vector<float> vector(static_cast<size_t>(heads * distances));
  const BiasVectorTask values{.plan = *plan,
                              .dtype = DType::kF32,
                              .first_distance = 1 - size,
                              .heads = heads,
                              .out = vector.data(),
                              .head_stride = distances};
  if (const absl::Status status = Cpu().Run(values, {0, distances}, nullptr); !status.ok()) return Told(status);
  const ToeplitzTask matrix{.element_size = 4,
                            .heads = heads,
                            .queries = size,
                            .keys = size,
                            .vector = vector.data(),
                            .vector_stride = distances,
                            .out = out};
  return Told(RunTask(matrix, heads * size, threads));
}

}  // namespace phasor::bench
