// R5: Apply in shared memory, against what it consists of (the kernel over the same memory, and an empty call) and against
// the same bytes as a message each way through TCP, which a bare handler gathers and sends back.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "phasor/v1/position_service.pb.h"

#include "client/phasor_client.h"
#include "client/shared_memory.h"
#include "kernels/backend.h"
#include "proto/raw/message_writer.h"
#include "proto/raw/schema.h"
#include "tests/bench/gates.h"
#include "tests/bench/rpc_servers.h"

namespace phasor::bench {
namespace {

constexpr char kApply[] = "/phasor.v1.PositionService/Apply";
constexpr int64_t kBytes = int64_t{16} << 20;
constexpr int64_t kHeads = 8, kDim = 128, kTokens = kBytes / (kHeads * kDim * 4);

// A region, and calls that rotate all of it.
struct Shared {
  Shared() : client(client::Client::Over(channel)), memory(*client::SharedMemory::Create(client.get(), kBytes)) {
    float* numbers = reinterpret_cast<float*>(memory->bytes().data());
    std::fill_n(numbers, kBytes / 4, 0.5f);
    v1::ApplyRequest message;
    v1::ApplyItem* item = message.add_items();
    item->mutable_spec()->mutable_rope()->set_head_dim(kDim);
    v1::Tensor* tensor = item->add_tensors();
    tensor->set_dtype(v1::DTYPE_F32);
    for (const int64_t extent : {int64_t{1}, kTokens, kHeads, kDim}) tensor->add_shape(extent);
    *tensor->mutable_shared_memory() = memory->Place(0, kBytes);
    request = *raw::Join(message, raw::kApplyRequest, {});
    message.set_validate_only(true);
    empty = *raw::Join(message, raw::kApplyRequest, {});
  }
  const std::shared_ptr<grpc::Channel> channel = ChannelTo(SharedPhasor().ports()[0]);
  const std::unique_ptr<client::Client> client;
  const std::unique_ptr<client::SharedMemory> memory;
  grpc::ByteBuffer request, empty;
  const std::unique_ptr<Backend> backend = *CreateBackend("auto");
  const std::vector<float> cos = std::vector<float>(kTokens * kDim / 2, 0.6f);
  const std::vector<float> sin = std::vector<float>(kTokens * kDim / 2, 0.8f);
};
Shared& Once() {
  static Shared* shared = new Shared;  // ends with the process
  return *shared;
}

bool Rotate() {
  Shared& shared = Once();
  RotateTask task;
  task.dtype = DType::kF32;
  task.tokens = kTokens;
  task.heads = kHeads;
  task.head_dim = kDim;
  task.pairs = kDim / 2;
  task.y = shared.memory->bytes().data();
  task.x = task.y;
  task.x_token_stride = task.y_token_stride = kHeads * kDim;
  task.x_head_stride = task.y_head_stride = kDim;
  task.cos = shared.cos.data();
  task.sin = shared.sin.data();
  task.table_stride = kDim / 2;
  return shared.backend->Run(task, {0, kTokens}, nullptr).ok();
}

bool Call(const grpc::ByteBuffer& request) { return RawCall(Once().channel, kApply, request) > 0; }

void Register(const char* name, std::function<bool()> once) {
  benchmark::RegisterBenchmark(name, [once = std::move(once)](benchmark::State& state) {
    if (!once()) state.SkipWithError("the call failed");
    for (auto _ : state) {
      if (!once()) state.SkipWithError("a call failed");
    }
  })->UseRealTime();
}

}  // namespace

void AddSharedMemoryGates(GateList& gates) {
  Register("shm_apply_16MiB", [] { return Call(Once().request); });
  Register("shm_kernel_and_empty_call_16MiB", [] { return Rotate() && Call(Once().empty); });
  gates.Add({"R5", "Apply in shared memory 16 MiB, against kernel and empty call", "shm_apply_16MiB",
             "shm_kernel_and_empty_call_16MiB", 1.15});
  gates.Add({"R5", "the same, times faster than a bare echo over TCP", "shm_apply_16MiB", "apply_bare_16MiB", 3.5, true});
}

}  // namespace phasor::bench
