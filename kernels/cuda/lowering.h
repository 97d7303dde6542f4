// A task cut for a device: what a range of its rows reads and writes on the host, and the kernels in between.
#ifndef PHASOR_KERNELS_CUDA_LOWERING_H_
#define PHASOR_KERNELS_CUDA_LOWERING_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "kernels/backend.h"
#include "kernels/cuda/kernel_list.h"

namespace phasor::cuda {

// Host memory: `rows` rows of `row_bytes`, one every `pitch` bytes. On the device they lie without gaps, from an address
// aligned to 256 bytes. Only the rows' own bytes are read or written. An output without host memory is not moved: kernels
// leave there what later ones of the chunk read.
struct Strip {
  std::byte* host = nullptr;
  int64_t row_bytes = 0;
  int64_t rows = 1;
  int64_t pitch = 0;  // of no matter with one row

  int64_t bytes() const { return row_bytes * rows; }

  // Its bytes to memory without gaps, and back; on the host.
  void Gather(std::byte* to) const {
    for (int64_t r = 0; r < rows; ++r) std::memcpy(to + r * row_bytes, host + r * pitch, static_cast<size_t>(row_bytes));
  }
  void Scatter(const std::byte* from) const {
    for (int64_t r = 0; r < rows; ++r) std::memcpy(host + r * pitch, from + r * row_bytes, static_cast<size_t>(row_bytes));
  }
};

// Host bytes that every chunk of a task reads. id: names the content for the life of the backend, so that a copy on the
// device can serve later calls; 0: the task's alone.
struct Constant {
  const void* host = nullptr;
  int64_t bytes = 0;
  uint64_t id = 0;
};

// What one chunk moves. The device memory of output i is that of input in_place[i] where in_place has such an entry ≥ 0.
struct Transfers {
  std::vector<Strip> inputs;
  std::vector<Strip> outputs;
  std::vector<int> in_place;  // per output, or empty
};

// Device addresses, in the order of Lowered::constants() and of Transfers.
struct Addresses {
  std::span<std::byte* const> constants, inputs, outputs;
};

// Immutable and thread-safe. Keeps what its constants point to, where the task does not.
class Lowered {
 public:
  virtual ~Lowered() = default;

  virtual std::span<const Constant> constants() const = 0;
  // Bytes that a row moves in and out, about: chunks are cut by it. ≥ 1.
  virtual int64_t bytes_per_row() const = 0;
  // A chunk begins at a multiple of this many rows, counted from row 0 of the task (or where the range begins). ≥ 1.
  virtual int64_t rows_per_cut() const { return 1; }
  // INVALID_ARGUMENT where these rows cannot be run, as Backend::Run has it. Asked once a call, before any of them is.
  virtual absl::Status CheckRows(RowRange) const { return absl::OkStatus(); }
  virtual Transfers TransfersOf(RowRange rows) const = 0;
  // In order, each after the one before has ended.
  virtual std::vector<KernelParams> Launches(RowRange rows, const Addresses& at) const = 0;
};

// Bytes that a row of such a task moves, about, where devices have a kernel for it; else 0. For cutting work: it looks at
// shapes and types only.
int64_t MovedBytesPerRow(const Task& task);

// The task for the device. UNIMPLEMENTED, with a short reason from a closed list ("task", "layout", "dtype", "positions"),
// where it is left to the CPU; INVALID_ARGUMENT as Backend::Run has it. The task and what it points to must outlive the
// result.
absl::StatusOr<std::unique_ptr<Lowered>> Lower(const Task& task);

// What a task works on in place, where device memory may take its place: x of a RotateTask or an AddTask with x == y, else
// null.
const void* PlaceOf(const Task& task);
// The same as Lower for a task whose PlaceOf is an address of the device: kernels work there, and only the rest is moved.
// UNIMPLEMENTED, with a reason for people, where no kernel can.
absl::StatusOr<std::unique_ptr<Lowered>> LowerInPlace(const Task& task);

// Several tasks as one whose rows are the tasks: `rows[i]` of part i, all of them. Their small strips travel together, and
// rotations of one type share a launch. No part reads what another writes.
std::unique_ptr<Lowered> LowerGroup(std::vector<std::unique_ptr<Lowered>> parts, std::vector<int64_t> rows);

// Rotations of one type, each with works, in as few launches as RotateGroupParams allows, in their order. One with more
// works than a group may have goes by itself.
std::vector<KernelParams> GroupsOf(const std::vector<RotateParams>& rotations);

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_LOWERING_H_
