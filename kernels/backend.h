// Backends run plans. One coarse interface: a task (a plan, its input and where the result goes), a range of its rows, and a
// cancel flag. Callers cut large work into ranges; the bits never depend on the cut, the thread, the instruction set or the
// backend.
#ifndef PHASOR_KERNELS_BACKEND_H_
#define PHASOR_KERNELS_BACKEND_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "kernels/core/dtype.h"
#include "kernels/encodings/plan.h"
#include "kernels/tasks/add_tasks.h"
#include "kernels/tasks/bias_tasks.h"
#include "kernels/tasks/mask_tasks.h"
#include "kernels/tasks/polar_tasks.h"
#include "kernels/tasks/position_source.h"
#include "kernels/tasks/score_tasks.h"
#include "kernels/tasks/shared_table.h"
#include "kernels/tasks/store_hint.h"
#include "kernels/tasks/table_tasks.h"
#include "kernels/tasks/window_tasks.h"

namespace phasor {

// Half-open range of a task's rows.
struct RowRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// Row r, pair i: cos[r·row_stride + i] = A·cos(position_r·inv_freq_i) and sin likewise, each [rows, pairs] of `dtype`. With
// a plan of several axes the position is that of the pair's axis. inverse: cos/A and sin/A instead of A·cos and A·sin (what
// an inverse rotation needs; sin keeps its sign). An exact zero is +0 in every precision. `cos` or `sin` may be null: that
// half is not written. Addresses need the alignment of the element only; 64-byte alignment and a row_stride that is a
// multiple of 64 bytes allow streaming stores.
struct AngleTask {
  const AnglePlan* plan = nullptr;
  PositionSource positions;                              // axis 0
  std::array<PositionSource, kMaxAxes - 1> more_axes{};  // axes 1, 2 …, as many as the plan has
  DType dtype = DType::kF32;                             // IsFloat
  bool inverse = false;
  void* cos = nullptr;
  void* sin = nullptr;
  int64_t row_stride = 0;  // elements, ≥ pairs
  StoreHint hint = StoreHint::kAuto;

  const PositionSource& axis(int64_t a) const { return a == 0 ? positions : more_axes[static_cast<size_t>(a - 1)]; }
};

// Rotates `tokens` × `heads` vectors. Rows are tokens. For token t, head h: x at x + t·x_token_stride + h·x_head_stride
// (elements of dtype; channels are contiguous), pair i is (i, i + n) or (2i, 2i + 1) of channels [0, 2n), n = pairs (with
// kInterleavedToHalf the second where it is read and the first where it is written; the inverse the other way round):
//   y_a = x_a·c − x_b·s,  y_b = x_b·c + x_a·s   (direction +1)
//   y_a = x_a·c + x_b·s,  y_b = x_b·c − x_a·s   (inverse)
// with c = cos[row·table_stride + i], row = t (or table_rows[t]). Computed as fma(x_a, c, −(x_b·s)) and so on in
// ComputeType; 16-bit results are rounded once, to nearest even; a NaN result is the canonical quiet NaN. Channels [2n,
// head_dim) are copied when y != x. y == x with equal strides: in place; any other overlap of x and y is not allowed.
struct RotateTask {
  DType dtype = DType::kF32;  // IsFloat
  Pairing pairing = Pairing::kHalfSplit;
  bool inverse = false;
  int64_t tokens = 0;
  int64_t heads = 0;
  int64_t head_dim = 0;  // ≥ 2·pairs
  int64_t pairs = 0;
  const void* x = nullptr;
  void* y = nullptr;
  int64_t x_token_stride = 0, x_head_stride = 0;
  int64_t y_token_stride = 0, y_head_stride = 0;
  const void* cos = nullptr;  // double for f64, float for f32, f16 and bf16
  const void* sin = nullptr;
  int64_t table_stride = 0;             // elements between table rows
  std::span<const int32_t> table_rows;  // empty: row t
  StoreHint hint = StoreHint::kAuto;
  const SharedTable* shared = nullptr;  // where cos and sin lie, if that has a name; read by devices only
};

// Distances as rows: out[h·head_stride + r] = RN(value of head first_head + h at key − query = d), d = first_distance + r,
// or distances[r] where those are given. Where the plan has a batch, heads of batch row b begin at b·(the plan's heads).
struct BiasVectorTask {
  DistancePlan plan = static_cast<const BiasPlan*>(nullptr);
  DType dtype = DType::kF32;   // IsFloat
  int64_t first_distance = 0;  // |distance| < 2^32
  int64_t first_head = 0;
  int64_t heads = 0;
  void* out = nullptr;
  int64_t head_stride = 0;                  // elements
  std::span<const int64_t> distances = {};  // empty: consecutive ones
};

// A Toeplitz matrix from its vector. Rows are (head, query) pairs: row r is head r / queries, query r % queries, and
// out[r·keys + k] = vector[head·vector_stride + (queries − 1 − query) + k]. Element bits are copied, so `element_size` is
// all that matters of the type (2, 4 or 8).
struct ToeplitzTask {
  int64_t element_size = 4;
  int64_t heads = 0;
  int64_t queries = 0;
  int64_t keys = 0;
  const void* vector = nullptr;  // [heads, queries + keys − 1]
  int64_t vector_stride = 0;     // elements, ≥ queries + keys − 1
  void* out = nullptr;           // [heads, queries, keys]
  StoreHint hint = StoreHint::kAuto;
};

// Columns of a table assembled from its cos and sin halves. Rows are table rows; element bits are copied.
enum class TableForm : uint8_t {
  kHalf = 1,                   // cos [n], sin [n] as they are
  kDuplicated = 2,             // cos [c_0 … c_{n−1}, c_0 … c_{n−1}], sin likewise
  kInterleavedDuplicated = 3,  // cos [c_0, c_0, c_1, c_1, …], sin likewise
  kConcatenated = 4,           // one array [c_0 … c_{n−1}, s_0 … s_{n−1}]
  kSinCosInterleaved = 5,      // one array [s_0, c_0, s_1, c_1, …] cut to `columns`
  kSinCosConcatenated = 6,     // one array [s_0 …, c_0 …]: ceil(columns/2) sines, then floor(columns/2) cosines
};
struct AssembleTask {
  TableForm form = TableForm::kDuplicated;
  int64_t element_size = 4;
  int64_t pairs = 0;
  int64_t columns = 0;  // width of an output row; a column that the form does not fill is zero
  const void* cos = nullptr;
  const void* sin = nullptr;
  int64_t table_stride = 0;             // elements between rows of cos and sin
  std::span<const int32_t> table_rows;  // empty: row r
  void* out = nullptr;                  // [rows, columns]; of kDuplicated and kInterleavedDuplicated: the cos array
  void* out_sin = nullptr;              // the sin array of those two forms, else null
  StoreHint hint = StoreHint::kAuto;
};

using Task =
    std::variant<AngleTask, RotateTask, BiasVectorTask, ToeplitzTask, AssembleTask, WindowTask, PerceptronTask,
                 PairPerceptronTask, SumDifferenceTask, PositionProductTask, MaskTask, BiasMatrixTask, ScoreProductTask,
                 RelativeProductTask, GridProductTask, ContextualPositionTask, ScoreSumTask, ScoreOutputTask,
                 RelativeValueTask, GatherRowsTask, FourierRowsTask, AddTask, PolarAngleTask, MixedAngleTask, PolarTask>;

// Why a device left work to the CPU.
enum class CpuReason : uint8_t {
  kSmall,      // fewer bytes than a device is worth
  kTask,       // devices have no such kernel
  kLayout,     // its tensors cannot be moved without touching bytes between their vectors
  kDtype,      // no kernel for the type
  kPositions,  // none for such positions
  kMemory,     // the device had no memory for it
};
inline constexpr int kCpuReasons = 6;
// "small", "task", "layout", "dtype", "positions", "memory".
std::string_view Name(CpuReason reason);

// What a caller and the backends that work for it tell each other. True: the caller has no more use for the work. It is
// looked at between small pieces; Run returns CANCELLED soon, and what was written so far stays.
class CancelFlag : public std::atomic<bool> {
 public:
  using std::atomic<bool>::atomic;
  using std::atomic<bool>::operator=;

  // Backends that may run work in two places note where they did; others note nothing.
  void NoteDevice() const { places_.fetch_or(kDeviceBit, std::memory_order_relaxed); }
  void NoteCpu(CpuReason reason) const { places_.fetch_or(1u << static_cast<int>(reason), std::memory_order_relaxed); }
  bool ran_on_device() const { return (places_.load(std::memory_order_relaxed) & kDeviceBit) != 0; }
  bool ran_on_cpu(CpuReason reason) const {
    return (places_.load(std::memory_order_relaxed) >> static_cast<int>(reason) & 1) != 0;
  }

 private:
  static constexpr uint32_t kDeviceBit = uint32_t{1} << 31;
  mutable std::atomic<uint32_t> places_{0};
};

// What a backend of devices counts; cumulative but for memory.
struct DeviceStats {
  int id = 0;
  std::string name;                                          // "NVIDIA H200"
  std::string compute_capability;                            // "9.0"
  std::string uuid;                                          // "GPU-4a1f…": the same in every process, unlike id
  int64_t total_bytes = 0, free_bytes = 0;                   // of the device's memory
  int64_t used_bytes = 0, kept_bytes = 0, budget_bytes = 0;  // of this process: in use, kept for the next use, at most
  int64_t table_bytes = 0, tables = 0, table_hits = 0, table_uploads = 0, table_evictions = 0;
  double copy_in_seconds = 0, kernel_seconds = 0, copy_out_seconds = 0;  // measured by the device
  int64_t bytes_in = 0, bytes_out = 0, launches = 0;
  int64_t grouped_launches = 0, grouped_tasks = 0;  // launches that served several tasks, and those tasks
};
struct BackendStats {
  std::vector<DeviceStats> devices;
  std::array<int64_t, kCpuReasons> left_to_cpu{};  // runs, by reason
  int64_t out_of_memory = 0, device_lost = 0, other_errors = 0;
  int64_t unpinned = 0;  // blocks of host memory that could not be pinned
};

// Keeps pages of the host's memory where they are, so that devices reach them without a detour. Thread-safe.
class HostPinning {
 public:
  virtual ~HostPinning() = default;
  // Whole pages, not pinned yet. False: they are as they were, which is slower and no error.
  virtual bool Pin(std::byte* memory, int64_t bytes) const = 0;
  // What was pinned, by its first byte; before the memory goes.
  virtual void Unpin(std::byte* memory) const = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  // "cpu", "reference", "cuda".
  virtual std::string_view name() const = 0;
  // What it runs on, for logs: "avx512 (AVX3)", "scalar".
  virtual std::string description() const = 0;
  // Runs rows [rows.begin, rows.end) of the task on the calling thread. Thread-safe; no state is kept between calls but for
  // per-plan set-up caches. Arguments are the caller's duty, checked by assertion in debug builds only; a position out of
  // range or a null output is INVALID_ARGUMENT all the same. `cancel` may be null. Errors: CANCELLED, INVALID_ARGUMENT,
  // UNIMPLEMENTED.
  virtual absl::Status Run(const Task& task, RowRange rows, const CancelFlag* cancel) const = 0;
  // Runs all rows of several tasks that do not depend on one another, on the calling thread. Errors: the first one; the
  // others' outputs are undefined then.
  virtual absl::Status RunAll(std::span<const Task> tasks, std::span<const int64_t> rows, const CancelFlag* cancel) const;
  // Rows that callers give Run at once: about a millisecond's work, at least 1.
  virtual int64_t RowsPerSlice(const Task& task) const;
  // Bytes of input that are best worked on in one go: what fits in a core's cache, or what fills a device's pipeline.
  virtual int64_t BytesAtOnce() const { return int64_t{256} << 10; }
  virtual BackendStats stats() const { return {}; }
  // What makes host memory quick to copy from and to; null where that makes no difference. May outlive the backend.
  virtual std::shared_ptr<const HostPinning> pinning() const { return nullptr; }
};

// Backends in priority order, each with whether it can run here and why not.
struct BackendInfo {
  std::string_view name;
  bool usable;
  std::string reason;  // of not being usable
};
std::vector<BackendInfo> ListBackends();

// Of backends that have devices; the others need none.
struct BackendOptions {
  std::vector<int> devices;                       // ids; empty: all
  int64_t device_bytes = 0;                       // of each device's memory, at most; 0: half of what is free at the start
  int64_t min_device_bytes = int64_t{512} << 10;  // work that moves less stays on the CPU
  bool cpu_when_out_of_memory = true;             // else RESOURCE_EXHAUSTED
  // Called once, on the thread that noticed: a device's state is lost, and with it this backend; Run answers UNAVAILABLE
  // from now on.
  std::function<void(const absl::Status&)> on_device_lost;
};

// "auto": the first usable one. A name that is unknown or not usable: FAILED_PRECONDITION that lists the names.
absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(std::string_view name, const BackendOptions& options = {});

// What the work of a call with those notes ran on: the backend's name, or for one that has two places "cuda", "cpu:small"
// (why the CPU), "cuda,cpu:task,layout". Where nothing was noted (nothing had to be computed): the name.
std::string PlaceOfWork(const Backend& backend, const CancelFlag& notes);

// Rows that Run handles in about a millisecond or less on one core; callers that promise to react quickly cut by it. At
// least 1.
int64_t RowsPerSlice(const Task& task);

}  // namespace phasor

#endif  // PHASOR_KERNELS_BACKEND_H_
