// Memory of another process on a real device: a second process owns a tensor there, this one maps it, rotates it and adds to
// it in place, and the owner finds the bits of the reference. Handles that stand for nothing leave the device as it was.
//
//   cuda_ipc_on_device             exit code 77 where there is no device
//   cuda_ipc_on_device --probe     one line: whether the driver tells how large a mapped allocation is, without which the
//   server
//                                  refuses handles (exit code 3)
//   cuda_ipc_on_device --owner     the second process, spoken to through its standard input and output
//   cuda_ipc_on_device --small-owner   the same with two small allocations, of which it frees one and takes it again
#include <cuda_runtime.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/device_sharing.h"

extern char** environ;

namespace {

constexpr int64_t kTokens = 5000, kHeads = 8, kHeadDim = 128, kPairs = 64;
constexpr int64_t kElements = kTokens * kHeads * kHeadDim;
constexpr int64_t kOffset = 4096;  // of the tensor in its allocation
constexpr size_t kBytes = static_cast<size_t>(kOffset + kElements * 4 + 4096);

// What the allocation holds at first: floats between −1 and 1.
std::vector<float> FirstValues() {
  std::vector<float> values(kBytes / 4);
  uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<int32_t>(state) >> 8) * 0x1p-23f;
  }
  return values;
}

bool WriteAll(int file, const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = write(file, at, size);
    if (written <= 0) return false;
    at += written;
    size -= static_cast<size_t>(written);
  }
  return true;
}
bool ReadAll(int file, void* data, size_t size) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = read(file, at, size);
    if (got <= 0) return false;
    at += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

// Sends the handle, waits for a byte, sends the bytes.
int Own() {
  std::vector<float> values = FirstValues();
  void* memory = nullptr;
  cudaIpcMemHandle_t handle;
  char byte = 0;
  const auto worked = [](cudaError_t error, const char* what) {
    if (error != cudaSuccess) std::fprintf(stderr, "owner: %s: %s\n", what, cudaGetErrorName(error));
    return error == cudaSuccess;
  };
  const bool ok = worked(cudaMalloc(&memory, kBytes), "cudaMalloc") &&
                  worked(cudaMemcpy(memory, values.data(), kBytes, cudaMemcpyHostToDevice), "cudaMemcpy to the device") &&
                  worked(cudaDeviceSynchronize(), "cudaDeviceSynchronize") &&
                  worked(cudaIpcGetMemHandle(&handle, memory), "cudaIpcGetMemHandle") &&
                  WriteAll(STDOUT_FILENO, &handle, sizeof handle) && ReadAll(STDIN_FILENO, &byte, 1) &&
                  worked(cudaMemcpy(values.data(), memory, kBytes, cudaMemcpyDeviceToHost), "cudaMemcpy from the device") &&
                  WriteAll(STDOUT_FILENO, values.data(), kBytes);
  return ok ? 0 : 1;
}

// Two allocations of this size lie in one block of the driver's.
constexpr size_t kSmallBytes = 4096;

// Sends the handle of an allocation whose first number is `value`.
bool Lend(float value, void** memory) {
  cudaIpcMemHandle_t handle;
  return cudaMalloc(memory, kSmallBytes) == cudaSuccess &&
         cudaMemcpy(*memory, &value, sizeof value, cudaMemcpyHostToDevice) == cudaSuccess &&
         cudaDeviceSynchronize() == cudaSuccess && cudaIpcGetMemHandle(&handle, *memory) == cudaSuccess &&
         WriteAll(STDOUT_FILENO, &handle, sizeof handle);
}

// Two handles; after a byte the first one's memory is freed and taken again: whether that gave the same address, the new
// handle; after another byte it ends.
int OwnSmall() {
  void *first = nullptr, *second = nullptr, *again = nullptr;
  char byte = 0;
  if (!Lend(1, &first) || !Lend(2, &second) || !ReadAll(STDIN_FILENO, &byte, 1)) return 1;
  if (cudaFree(first) != cudaSuccess || !Lend(3, &again)) return 1;
  byte = again == first ? 'y' : 'n';
  return WriteAll(STDOUT_FILENO, &byte, 1) && ReadAll(STDIN_FILENO, &byte, 1) ? 0 : 1;
}

struct Owner {
  explicit Owner(const char* program, const char* mode = "--owner") {
    int down[2], up[2];
    if (pipe2(down, O_CLOEXEC) != 0 || pipe2(up, O_CLOEXEC) != 0) return;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, down[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, up[1], STDOUT_FILENO);
    std::string name(program), flag(mode);
    char* const arguments[] = {name.data(), flag.data(), nullptr};
    if (posix_spawn(&pid, program, &actions, nullptr, arguments, environ) != 0) pid = 0;
    posix_spawn_file_actions_destroy(&actions);
    close(down[0]);
    close(up[1]);
    to = down[1];
    from = up[0];
  }
  ~Owner() {
    if (to >= 0) close(to);
    if (from >= 0) close(from);
    if (pid != 0) waitpid(pid, nullptr, 0);
  }
  pid_t pid = 0;
  int to = -1, from = -1;
};

int failures = 0;
void Check(bool holds, const char* what, const std::string& detail = {}) {
  std::printf("%-60s %s %s\n", what, holds ? "ok" : "FAILED", detail.c_str());
  if (!holds) ++failures;
}

// Both operations on a tensor at `at`, by `backend`.
absl::Status Work(const phasor::Backend& backend, void* at, const std::vector<float>& table,
                  const std::vector<float>& rows) {
  phasor::RotateTask rotate;
  rotate.tokens = kTokens;
  rotate.heads = kHeads;
  rotate.head_dim = kHeadDim;
  rotate.pairs = kPairs;
  rotate.x = rotate.y = at;
  rotate.x_token_stride = rotate.y_token_stride = kHeads * kHeadDim;
  rotate.x_head_stride = rotate.y_head_stride = kHeadDim;
  rotate.cos = table.data();
  rotate.sin = table.data() + kTokens * kPairs;
  rotate.table_stride = kPairs;
  if (absl::Status status = backend.Run(rotate, {0, kTokens}, nullptr); !status.ok()) return status;
  phasor::AddTask add;
  add.tokens = kTokens;
  add.dim = kHeads * kHeadDim;
  add.x = add.y = at;
  add.x_batch_stride = add.y_batch_stride = kElements;
  add.x_token_stride = add.y_token_stride = add.dim;
  add.scale = 1.5;
  add.pe = {rows.data(), 0, add.dim};
  return backend.Run(add, {0, kTokens}, nullptr);
}

// Opens a handle of a number, and looks at it; what is open lies in its way, perhaps: then that is closed first.
absl::StatusOr<phasor::DeviceMapping> OpenNumber(const phasor::DeviceSharing& sharing, const std::string& handle,
                                                 float expected, std::optional<phasor::DeviceMapping>* open) {
  const int device = sharing.devices().front();
  auto mapped = sharing.Open(device, handle);
  std::printf("  beside what is open: %s\n", mapped.status().ToString().c_str());
  if (absl::IsAlreadyExists(mapped.status()) && *open) {
    sharing.Close(device, (*open)->data);
    open->reset();
    mapped = sharing.Open(device, handle);
  }
  float value = 0;
  Check(mapped.ok() && cudaMemcpy(&value, mapped->data, sizeof value, cudaMemcpyDeviceToHost) == cudaSuccess &&
            value == expected,
        "a small tensor opens, and is the right one", mapped.status().ToString() + " " + std::to_string(value));
  return mapped;
}

// Small tensors share a block of memory, and one that is freed comes again with another handle.
void BorrowSmall(const char* program, const phasor::DeviceSharing& sharing) {
  const int device = sharing.devices().front();
  Owner owner(program, "--small-owner");
  std::string first(phasor::kDeviceHandleBytes, '\0'), second = first, again = first;
  Check(ReadAll(owner.from, first.data(), first.size()) && ReadAll(owner.from, second.data(), second.size()),
        "a second process has two small tensors");
  std::optional<phasor::DeviceMapping> none, open;
  if (const auto mapped = OpenNumber(sharing, first, 1, &none); mapped.ok()) open = *mapped;
  if (const auto mapped = OpenNumber(sharing, second, 2, &open); mapped.ok()) sharing.Close(device, mapped->data);
  char same = 0;
  Check(WriteAll(owner.to, "x", 1) && ReadAll(owner.from, again.data(), again.size()) && ReadAll(owner.from, &same, 1),
        "one is freed and taken again", same == 'y' ? "at its address" : "elsewhere");
  if (const auto mapped = OpenNumber(sharing, again, 3, &open); mapped.ok()) sharing.Close(device, mapped->data);
  if (open) sharing.Close(device, open->data);
  Check(WriteAll(owner.to, "x", 1), "the second process is there to the end");
}

int Probe(const char* program) {
  auto made = phasor::CreateBackend("cuda");
  if (!made.ok()) {
    std::printf("no usable device: %s\n", std::string(made.status().message()).c_str());
    return 77;
  }
  const auto sharing = phasor::SharingOf(**made);
  const int device = sharing->devices().front();
  Owner owner(program);
  std::string handle(phasor::kDeviceHandleBytes, '\0');
  if (!ReadAll(owner.from, handle.data(), handle.size())) {
    std::printf("a second process got no handle of its memory: device memory cannot be shared on this machine\n");
    return 1;
  }
  const auto mapped = sharing->Open(device, handle);
  if (absl::IsUnimplemented(mapped.status())) {
    std::printf("it does NOT, so handles are refused: %s\n", std::string(mapped.status().message()).c_str());
    return 3;
  }
  if (!mapped.ok()) {
    std::printf("another process's handle does not open: %s\n", mapped.status().ToString().c_str());
    return 1;
  }
  const auto bytes = static_cast<long long>(mapped->size);
  sharing->Close(device, mapped->data);
  const bool enough = bytes >= static_cast<long long>(kBytes);
  std::printf("%s: %lld bytes of an allocation of %zu\n", enough ? "it does" : "it is WRONG", bytes, kBytes);
  return enough ? 0 : 1;
}

int Borrow(const char* program) {
  auto made = phasor::CreateBackend("cuda");
  if (!made.ok()) {
    std::printf("skipped: %s\n", std::string(made.status().message()).c_str());
    return 77;
  }
  const phasor::Backend& backend = **made;
  const auto sharing = phasor::SharingOf(backend);
  const int device = sharing->devices().front();
  std::vector<float> expected = FirstValues();
  std::vector<float> table(static_cast<size_t>(2 * kTokens * kPairs)), rows(static_cast<size_t>(kElements));
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i % 1021) / 1021.0f - 0.5f;
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i % 509) / 509.0f;
  if (!Work(**phasor::CreateBackend("reference"), expected.data() + kOffset / 4, table, rows).ok()) return 1;

  Owner owner(program);
  std::string handle(phasor::kDeviceHandleBytes, '\0');
  Check(ReadAll(owner.from, handle.data(), handle.size()), "a second process has a tensor");

  void* own = nullptr;
  cudaIpcMemHandle_t own_handle;
  Check(cudaMalloc(&own, 1 << 21) == cudaSuccess && cudaIpcGetMemHandle(&own_handle, own) == cudaSuccess,
        "memory of our own");
  std::string flipped = handle;
  for (char& c : flipped) c = static_cast<char>(c ^ 0x5a);
  const std::string wrong[] = {std::string(64, '\0'), std::string(64, '\xff'), flipped,
                               std::string(reinterpret_cast<const char*>(&own_handle), sizeof own_handle)};
  for (const std::string& each : wrong) {
    const auto opened = sharing->Open(device, each);
    Check(absl::IsInvalidArgument(opened.status()), "a handle that stands for nothing is refused",
          opened.status().ToString());
    if (opened.ok()) sharing->Close(device, opened->data);
  }
  const auto mapped = sharing->Open(device, handle);
  Check(mapped.ok(), "the good one opens", mapped.status().ToString());
  if (!mapped.ok()) return 1;
  Check(mapped->size >= static_cast<int64_t>(kBytes), "the driver knows its size", std::to_string(mapped->size));
  const auto again = sharing->Open(device, handle);
  Check(again.ok() && again->data == mapped->data, "it opens twice, at one address");
  if (again.ok()) sharing->Close(device, again->data);
  const absl::Status worked = Work(backend, mapped->data + kOffset, table, rows);
  Check(worked.ok(), "rotated and added to in place", worked.ToString());
  const phasor::DeviceStats stats = backend.stats().devices.front();
  Check(stats.bytes_out == 0, "nothing was copied back", std::to_string(stats.bytes_out));
  sharing->Close(device, mapped->data);

  std::vector<float> found(kBytes / 4);
  Check(WriteAll(owner.to, "x", 1) && ReadAll(owner.from, found.data(), kBytes), "the owner reads it");
  Check(std::memcmp(found.data(), expected.data(), kBytes) == 0, "the bits of the reference, and no others are touched");
  BorrowSmall(program, *sharing);
  Check(backend.stats().device_lost == 0, "the device is well");
  (void)cudaFree(own);
  return failures == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "--owner") return Own();
  if (mode == "--small-owner") return OwnSmall();
  return mode == "--probe" ? Probe(argv[0]) : Borrow(argv[0]);
}
