// Apply on tensors in the memory of a device that another process has: the bits of the CPU, found where the tensor was, with
// nothing moved; handles that go while a call works; what is heard when calls to the device fail. The host cannot touch such
// memory in these tests: who does ends the process.
#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "server/response_writer.h"
#include "tests/server/apply_harness.h"
#include "tests/server/device_memory_fixture.h"

namespace phasor::server {
namespace {

struct OnFake {
  explicit OnFake(int64_t handles = 4, BackendOptions options = {}) : device(handles, 1, options) {
    harness = std::make_unique<ApplyHarness>(std::move(device.backend));
    harness->access = &device.access;
  }
  BackendStats stats() const { return harness->engine().backend().stats(); }

  FakeDevice device;
  std::unique_ptr<ApplyHarness> harness;
};

struct Operation {
  const char* text;  // of the item, but for its tensors
  std::vector<int64_t> shape, strides;
  int64_t elements;  // of the storage
};

const Operation kOperations[] = {
    {"spec { rope { head_dim: 64 } }", {2, 33, 3, 64}, {}, 2 * 33 * 3 * 64},
    {"spec { rope { head_dim: 64 pairing: PAIRING_INTERLEAVED } } layout: LAYOUT_BHSD", {2, 3, 33, 64}, {}, 2 * 33 * 3 * 64},
    {"spec { rope { head_dim: 64 } }", {2, 33, 3, 64}, {33 * 256, 256, 80, 1}, 2 * 33 * 256},
    {"spec { rope { head_dim: 64 } } layout: LAYOUT_THD", {33, 3, 64}, {}, 33 * 3 * 64},
    {"spec { rope { head_dim: 64 rotary_dim: 32 } } rotate { inverse: true } positions { range { start: 5 stride: 3 count: "
     "33 } }",
     {2, 33, 3, 64},
     {},
     2 * 33 * 3 * 64},
    {"spec { rope { head_dim: 64 } } rotate { backward: true } positions { sequence_offsets: [4, 9] range { count: 33 } }",
     {2, 33, 3, 64},
     {},
     2 * 33 * 3 * 64},
    {"spec { rope { head_dim: 64 } } shift { } positions { range { start: 9 count: 33 } }",
     {2, 33, 3, 64},
     {},
     2 * 33 * 3 * 64},
    {"spec { rope { head_dim: 64 xpos { center: 7 } } }", {2, 33, 3, 64}, {}, 2 * 33 * 3 * 64},
    {"spec { rope { head_dim: 64 } } rerotate { target { rope { head_dim: 64 base: 500 } } }",
     {2, 33, 3, 64},
     {},
     2 * 33 * 3 * 64},
    {"spec { rope { head_dim: 64 } } precision: PRECISION_COMPAT_F32", {1, 1024, 4, 64}, {}, 1024 * 4 * 64},
    {"spec { rope { head_dim: 64 pairing: PAIRING_INTERLEAVED_TO_HALF } }", {2, 33, 3, 64}, {}, 2 * 33 * 3 * 64},
    {"spec { rope { head_dim: 64 rotary_dim: 48 pairing: PAIRING_INTERLEAVED_TO_HALF } } rotate { inverse: true } layout: "
     "LAYOUT_BHSD",
     {2, 3, 33, 64},
     {3 * 33 * 72 + 5, 33 * 72, 72, 1},
     2 * (3 * 33 * 72 + 5)},
    {"spec { rope { head_dim: 64 pairing: PAIRING_INTERLEAVED_TO_HALF xpos { center: 7 } } }",
     {2, 33, 3, 64},
     {},
     2 * 33 * 3 * 64},
    {"spec { sinusoidal { dim: 64 } } add { scale: 3 }", {2, 33, 64}, {}, 2 * 33 * 64},
    {"spec { sinusoidal { dim: 6 } } add { scale: 3 }", {2, 33, 6}, {}, 2 * 33 * 6},
    {"spec { sinusoidal { dim: 62 } } add { dropout { probability: 0.5 seed: 3 } }",
     {3, 33, 62},
     {33 * 65, 65, 1},
     3 * 33 * 65},
    {"spec { sinusoidal { dim: 64 } } add { dropout { probability: 0.5 seed: 3 } }", {4, 33, 64}, {}, 4 * 33 * 64},
    {"spec { sinusoidal { dim: 64 } } add { } layout: LAYOUT_SBD", {33, 2, 64}, {}, 2 * 33 * 64},
    {"spec { sinusoidal { dim: 64 } } add { backward: true scale: 2 }", {3, 33, 64}, {}, 3 * 33 * 64},
};

// The item with its tensor sent along, or on the device.
v1::ApplyItem Item(const Operation& operation, DType dtype) {
  v1::ApplyItem item = ItemFrom(operation.text);
  AddTensor(item, operation.shape, SomeValues(static_cast<size_t>(operation.elements)), dtype);
  item.mutable_tensors(0)->mutable_strides()->Add(operation.strides.begin(), operation.strides.end());
  return item;
}

TEST(EngineInPlaceTest, TheBitsOfTheCpuWhereTheTensorWas) {
  OnFake on(64);
  ApplyHarness cpu("cpu");
  for (const Operation& operation : kOperations) {
    for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
      SCOPED_TRACE(absl::StrCat(operation.text, " ", static_cast<int>(dtype)));
      v1::ApplyItem item = Item(operation, dtype);
      const std::string bytes = item.tensors(0).data();
      const ApplyResult expected = cpu.One(item);
      ASSERT_TRUE(expected.status.ok()) << expected.status;

      const std::string guard(192, '\x6b');
      const std::string handle = on.device.driver->Export(0, static_cast<int64_t>(bytes.size() + 2 * guard.size()));
      on.device.driver->Write(handle, guard + bytes + guard);
      *item.mutable_tensors(0)->mutable_device() = OnDevice(handle, guard.size(), bytes.size());
      const BackendStats before = on.stats();
      const ApplyResult got = on.harness->One(item);
      ASSERT_TRUE(got.status.ok()) << got.status;
      EXPECT_TRUE(on.device.driver->Read(handle) == guard + BytesOf(expected.tensors[0]) + guard);
      EXPECT_EQ(got.fingerprint, expected.fingerprint);
      ASSERT_NE(got.tensors[0].allocation, nullptr);
      EXPECT_EQ(got.tensors[0].allocation->handle(), handle);
      EXPECT_EQ(got.tensors[0].region, nullptr);
      const BackendStats after = on.stats();
      EXPECT_GT(after.devices[0].launches, before.devices[0].launches);
      EXPECT_EQ(after.left_to_cpu[static_cast<size_t>(CpuReason::kLayout)], 0);
    }
  }
}

// What the answer says: a place, and no bytes.
TEST(EngineInPlaceTest, AnswersNameThePlace) {
  OnFake on;
  const std::string handle = on.device.driver->Export(0, 1 << 20);
  v1::ApplyItem item = Item(kOperations[0], DType::kF32);
  const uint64_t size = item.tensors(0).data().size();
  *item.mutable_tensors(0)->mutable_device() = OnDevice(handle, 4096, size);
  Answer<ApplyResult> answer;
  answer.results.push_back(on.harness->One(item));
  const auto bytes = WriteApply(std::move(answer), "cuda");
  ASSERT_TRUE(bytes.ok());
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(bytes->Dump(&slices).ok());
  std::string text;
  for (const grpc::Slice& slice : slices) text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  EXPECT_LT(text.size(), 500u);
  v1::ApplyResponse response;
  ASSERT_TRUE(response.ParseFromString(text));
  const v1::Tensor& tensor = response.results(0).tensors(0);
  ASSERT_TRUE(tensor.has_device());
  EXPECT_EQ(tensor.device().handle(), handle);
  EXPECT_EQ(tensor.device().offset_bytes(), 4096u);
  EXPECT_EQ(tensor.device().size_bytes(), size);
  EXPECT_EQ(tensor.shape_size(), 4);
}

// Queries and keys of a layer in one allocation, and a tensor that is sent along beside them.
TEST(EngineInPlaceTest, TensorsOfBothKindsInOneItem) {
  OnFake on;
  ApplyHarness cpu("cpu");
  v1::ApplyItem item = Item(kOperations[0], DType::kBF16);
  for (int i = 0; i < 2; ++i) *item.add_tensors() = item.tensors(0);
  const std::string bytes = item.tensors(0).data();
  const ApplyResult expected = cpu.One(item);
  const std::string handle = on.device.driver->Export(0, static_cast<int64_t>(2 * bytes.size()));
  on.device.driver->Write(handle, bytes + bytes);
  for (const int t : {0, 2}) {
    *item.mutable_tensors(t)->mutable_device() = OnDevice(handle, t == 0 ? 0 : bytes.size(), bytes.size());
  }
  const ApplyResult got = on.harness->One(item);
  ASSERT_TRUE(got.status.ok()) << got.status;
  EXPECT_TRUE(on.device.driver->Read(handle) == BytesOf(expected.tensors[0]) + BytesOf(expected.tensors[2]));
  EXPECT_EQ(BytesOf(got.tensors[1]), BytesOf(expected.tensors[1]));
  EXPECT_EQ(on.device.driver->opened(), 1);
}

TEST(EngineInPlaceTest, TwoClientsWithOneHandle) {
  OnFake on(1);
  ApplyHarness cpu("cpu");
  v1::ApplyItem item = Item(kOperations[0], DType::kF32);
  const std::string bytes = item.tensors(0).data();
  std::string expected = bytes;
  for (int i = 0; i < 5; ++i) {
    item.mutable_tensors(0)->set_data(expected);
    expected = BytesOf(cpu.One(item).tensors[0]);
  }
  const std::string handle = on.device.driver->Export(0, static_cast<int64_t>(2 * bytes.size()));
  on.device.driver->Write(handle, bytes + bytes);
  std::atomic<int> failed{0};
  std::vector<std::thread> clients;
  for (int client = 0; client < 2; ++client) {
    clients.emplace_back([&, client] {
      v1::ApplyItem own = item;
      *own.mutable_tensors(0)->mutable_device() =
          OnDevice(handle, static_cast<uint64_t>(client) * bytes.size(), bytes.size());
      for (int i = 0; i < 5; ++i) {
        if (!on.harness->One(own).status.ok()) ++failed;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(failed, 0);
  EXPECT_TRUE(on.device.driver->Read(handle) == expected + expected);
  EXPECT_EQ(on.device.store->stats().opened, 1);
  EXPECT_EQ(on.device.store->stats().found, 9 + 10) << "each call looks twice";
}

// The store forgets the handle, its owner takes it back, and the call that named it works on.
TEST(EngineInPlaceTest, AHandleThatGoesWhileACallWorks) {
  OnFake on;
  ApplyHarness cpu("cpu");
  v1::ApplyItem item = Item(kOperations[0], DType::kF32);
  const std::string bytes = item.tensors(0).data(), expected = BytesOf(cpu.One(item).tensors[0]);
  const std::string handle = on.device.driver->Export(0, static_cast<int64_t>(bytes.size()));
  on.device.driver->Write(handle, bytes);
  v1::ApplyRequest request;
  *request.add_items() = item;
  *request.mutable_items(0)->mutable_tensors(0)->mutable_device() = OnDevice(handle, 0, bytes.size());
  std::mt19937_64 random(7);
  auto parsed = RequestParser(Limits()).ParseApply(raw::Split(request.SerializeAsString(), 5, random), &on.device.access);
  ASSERT_TRUE(parsed.ok() && parsed->items()[0].ok());
  on.device.store.reset();
  on.device.driver->Unexport(handle);
  EXPECT_EQ(on.device.driver->opened(), 1) << "the call holds it";
  std::promise<Answer<ApplyResult>> promise;
  on.harness->engine().Apply(std::make_shared<CallContext>(), *std::move(parsed),
                             [&](Answer<ApplyResult> answer) { promise.set_value(std::move(answer)); });
  auto answer = std::make_unique<Answer<ApplyResult>>(promise.get_future().get());
  ASSERT_TRUE(answer->status.ok() && answer->results[0].status.ok());
  EXPECT_TRUE(on.device.driver->Read(handle) == expected);
  answer.reset();
  on.harness.reset();
  EXPECT_EQ(on.device.driver->opened(), 0);
}

TEST(EngineInPlaceTest, ValidateOnlyTouchesNothing) {
  OnFake on;
  v1::ApplyItem item = Item(kOperations[0], DType::kF32);
  const std::string bytes = item.tensors(0).data();
  const std::string handle = on.device.driver->Export(0, static_cast<int64_t>(bytes.size()));
  on.device.driver->Write(handle, bytes);
  v1::ApplyRequest request;
  request.set_validate_only(true);
  *request.add_items() = item;
  *request.mutable_items(0)->mutable_tensors(0)->mutable_device() = OnDevice(handle, 0, bytes.size());
  std::mt19937_64 random(7);
  auto parsed = RequestParser(Limits()).ParseApply(raw::Split(request.SerializeAsString(), 5, random), &on.device.access);
  ASSERT_TRUE(parsed.ok());
  std::promise<Answer<ApplyResult>> promise;
  on.harness->engine().Apply(std::make_shared<CallContext>(), *std::move(parsed),
                             [&](Answer<ApplyResult> answer) { promise.set_value(std::move(answer)); });
  const Answer<ApplyResult> answer = promise.get_future().get();
  ASSERT_TRUE(answer.results[0].status.ok()) << answer.results[0].status;
  EXPECT_TRUE(answer.results[0].tensors[0].data.empty());
  EXPECT_TRUE(on.device.driver->Read(handle) == bytes);
  EXPECT_EQ(on.stats().devices[0].launches, 0);
}

TEST(EngineInPlaceTest, EveryCallToTheDeviceMayFail) {
  const v1::ApplyItem sent = Item(kOperations[0], DType::kF32);
  const std::string bytes = sent.tensors(0).data();
  ApplyHarness cpu("cpu");
  const std::string once = BytesOf(cpu.One(sent).tensors[0]);
  for (const auto code : {absl::StatusCode::kInternal, absl::StatusCode::kResourceExhausted, absl::StatusCode::kAborted}) {
    int failed = 0;
    bool came = true;
    for (int64_t n = 1; came; ++n) {
      BackendOptions options;
      int lost = 0;
      options.on_device_lost = [&](const absl::Status&) { ++lost; };
      OnFake on(1, options);
      const std::string handle = on.device.driver->Export(0, static_cast<int64_t>(bytes.size()));
      on.device.driver->Write(handle, bytes);
      v1::ApplyItem item = sent;
      *item.mutable_tensors(0)->mutable_device() = OnDevice(handle, 0, bytes.size());
      const int64_t before = on.device.driver->calls();
      on.device.driver->FailCall(n, absl::Status(code, "fakeError"));
      const absl::Status status = on.harness->One(item).status;
      came = on.device.driver->calls() - before >= n;
      if (!came) break;
      if (status.ok()) {
        EXPECT_TRUE(on.device.driver->Read(handle) == once) << n;
        continue;
      }
      ++failed;
      EXPECT_EQ(lost, code == absl::StatusCode::kAborted ? 1 : 0) << n;
      EXPECT_EQ(status.code(), code == absl::StatusCode::kAborted ? absl::StatusCode::kUnavailable : code) << n << status;
    }
    EXPECT_GT(failed, 5) << code;
  }
}

}  // namespace
}  // namespace phasor::server
