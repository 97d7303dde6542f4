// A task through its lowering on the host, without a driver: strips are copied to memory of exactly their size and
// alignment, kernels run on a HostGrid, outputs are copied back.
#ifndef PHASOR_TESTS_KERNELS_CUDA_RUN_LOWERED_H_
#define PHASOR_TESTS_KERNELS_CUDA_RUN_LOWERED_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

#include "kernels/cuda/lowering.h"
#include "tests/kernels/cuda/host_grid.h"

namespace phasor::cuda {

// `bytes` bytes from an address aligned to 256, so that AddressSanitizer sees a step beyond them.
class DeviceBytes {
 public:
  explicit DeviceBytes(int64_t bytes)
      : data_(static_cast<std::byte*>(
            ::operator new(static_cast<size_t>(std::max<int64_t>(bytes, 1)), std::align_val_t{256}))) {
    std::memset(data_, 0x5a, static_cast<size_t>(bytes));
  }
  ~DeviceBytes() { ::operator delete(data_, std::align_val_t{256}); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_;
};

// Rows of the task, in chunks of about `chunk_rows`.
inline absl::Status RunLowered(const Task& task, RowRange rows, const HostGrid& grid, int64_t chunk_rows) {
  auto lowered = Lower(task);
  if (!lowered.ok()) return lowered.status();
  if (absl::Status status = (*lowered)->CheckRows(rows); !status.ok()) return status;
  using Memory = std::vector<std::unique_ptr<DeviceBytes>>;
  const auto addresses = [](const Memory& memory) {
    std::vector<std::byte*> at;
    for (const auto& bytes : memory) at.push_back(bytes->data());
    return at;
  };
  Memory constants;
  for (const Constant& constant : (*lowered)->constants()) {
    constants.push_back(std::make_unique<DeviceBytes>(constant.bytes));
    std::memcpy(constants.back()->data(), constant.host, static_cast<size_t>(constant.bytes));
  }
  const std::vector<std::byte*> constant_at = addresses(constants);
  const int64_t cut = (*lowered)->rows_per_cut();
  for (int64_t begin = rows.begin; begin < rows.end;) {
    const int64_t end = std::min(rows.end, (begin + std::max<int64_t>(chunk_rows, 1) + cut - 1) / cut * cut);
    const Transfers moves = (*lowered)->TransfersOf({begin, end});
    Memory inputs, fresh;
    for (const Strip& strip : moves.inputs) {
      inputs.push_back(std::make_unique<DeviceBytes>(strip.bytes()));
      strip.Gather(inputs.back()->data());
    }
    const std::vector<std::byte*> input_at = addresses(inputs);
    std::vector<std::byte*> output_at;
    for (size_t i = 0; i < moves.outputs.size(); ++i) {
      if (i < moves.in_place.size() && moves.in_place[i] >= 0) {
        output_at.push_back(input_at[static_cast<size_t>(moves.in_place[i])]);
        continue;
      }
      fresh.push_back(std::make_unique<DeviceBytes>(moves.outputs[i].bytes()));
      output_at.push_back(fresh.back()->data());
    }
    for (const KernelParams& params : (*lowered)->Launches({begin, end}, {constant_at, input_at, output_at}))
      grid.Launch(params);
    for (size_t i = 0; i < moves.outputs.size(); ++i) {
      if (moves.outputs[i].host != nullptr) moves.outputs[i].Scatter(output_at[i]);
    }
    begin = end;
  }
  return absl::OkStatus();
}

// The tasks that have kernels, run on a HostGrid: for tests that take a backend.
class HostGridBackend final : public Backend {
 public:
  HostGridBackend(const HostGrid& grid, int64_t chunk_rows) : grid_(grid), chunk_rows_(chunk_rows) {}

  std::string_view name() const override { return "cuda"; }
  std::string description() const override { return "kernels on a host grid"; }
  absl::Status Run(const Task& task, RowRange rows, const CancelFlag*) const override {
    return RunLowered(task, rows, grid_, chunk_rows_);
  }

 private:
  const HostGrid grid_;
  const int64_t chunk_rows_;
};

// Calls run(backend) for the orders of threads, one and three OS threads, and small and large chunks.
template <typename Run>
void OnEveryHostGrid(const Run& run) {
  for (const auto order : {ThreadOrder::kForward, ThreadOrder::kReversed, ThreadOrder::kShuffled}) {
    for (const int64_t chunk : {1, 4, 1000}) run(HostGridBackend({order}, chunk));
    run(HostGridBackend({order, 3}, 1000));
  }
}

// One of them, another with every number: for many cases.
inline HostGridBackend HostGridNumber(int64_t number) {
  constexpr int64_t kChunks[] = {1, 3, 7, 1000};
  const int64_t chunk = kChunks[number % 4];
  return HostGridBackend({static_cast<ThreadOrder>(number % 3), chunk == 1000 ? 3 : 1}, chunk);
}

}  // namespace phasor::cuda

#endif  // PHASOR_TESTS_KERNELS_CUDA_RUN_LOWERED_H_
