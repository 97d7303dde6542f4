// The engine on the cuda backend, on a device made of host memory: the bits of the CPU, tables that stay on the device, and
// what callers hear when it is lost.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/cuda/cuda_backend.h"
#include "server/device_metrics.h"
#include "tests/kernels/cuda/fake_driver.h"
#include "tests/server/apply_harness.h"
#include "tests/testing/metrics_contract.h"

namespace phasor::server {
namespace {

struct OnDevice {
  explicit OnDevice(BackendOptions options = {}) : driver(std::make_shared<cuda::FakeDriver>(cuda::FakeOptions{})) {
    auto backend = cuda::MakeCudaBackend(driver, *CreateBackend("cpu"), options);
    EXPECT_TRUE(backend.ok()) << backend.status();
    harness = std::make_unique<ApplyHarness>(*std::move(backend));
  }
  DeviceStats device() const { return harness->engine().backend().stats().devices[0]; }

  std::shared_ptr<cuda::FakeDriver> driver;
  std::unique_ptr<ApplyHarness> harness;
};

v1::ApplyItem Rotation(int64_t tokens, const std::string& layout, DType dtype) {
  v1::ApplyItem item = ItemFrom(R"pb(
                                  spec { rope { head_dim: 64 base: 10000 pairing: PAIRING_HALF_SPLIT } }
                                  positions { range { start: 100 count:)pb" +
                                std::to_string(tokens) + R"pb(}
                                                              }
    rotate {} layout: )pb" + layout);
  AddTensor(item, {1, tokens, 8, 64}, SomeValues(static_cast<size_t>(tokens * 8 * 64)), dtype);
  return item;
}

TEST(EngineDeviceTest, ApplyHasTheBitsOfTheCpuAndKeepsItsTable) {
  OnDevice on;
  ApplyHarness cpu("cpu");
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const v1::ApplyItem item = Rotation(3000, "LAYOUT_BSHD", dtype);
    const ApplyResult expected = cpu.One(item), got = on.harness->One(item);
    ASSERT_TRUE(expected.status.ok()) << expected.status;
    ASSERT_TRUE(got.status.ok()) << got.status;
    EXPECT_EQ(BytesOf(got.tensors[0]), BytesOf(expected.tensors[0]));
    EXPECT_EQ(got.fingerprint, expected.fingerprint);
  }
  const DeviceStats stats = on.device();
  EXPECT_GT(stats.launches, 0);
  // Positions 100 … 3099 lie in one tile, which both types read.
  EXPECT_EQ(stats.table_uploads, 1);
  EXPECT_GE(stats.table_hits, 1);
}

TEST(EngineDeviceTest, TablesAndBiasesHaveTheBitsOfTheCpu) {
  OnDevice on;
  ApplyHarness cpu("cpu");
  for (const char* text : {
           R"pb(spec { rope { head_dim: 128 base: 500000 } }
                table {
                  positions { range { start: -50 count: 9000 } }
                  form: TABLE_FORM_HALF
                }
                dtype: DTYPE_F32)pb",
           R"pb(spec { alibi { num_heads: 8 } }
                bias { queries: 300 keys: 700 form: BIAS_FORM_FULL }
                dtype: DTYPE_BF16)pb",
       }) {
    v1::PrecomputeItem item;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &item)) << text;
    const PrecomputeResult expected = cpu.One(item), got = on.harness->One(item);
    ASSERT_TRUE(expected.status.ok()) << expected.status;
    ASSERT_TRUE(got.status.ok()) << got.status;
    if (expected.bias) {
      EXPECT_EQ(BytesOf(*got.bias), BytesOf(*expected.bias));
    } else {
      EXPECT_EQ(BytesOf(*got.cos), BytesOf(*expected.cos));
      EXPECT_EQ(BytesOf(*got.sin), BytesOf(*expected.sin));
    }
  }
  EXPECT_GT(on.device().launches, 0);
}

TEST(EngineDeviceTest, SmallItemsOfABatchShareALaunch) {
  OnDevice on;
  ApplyHarness cpu("cpu");
  std::vector<v1::ApplyItem> items;
  for (int64_t i = 0; i < 40; ++i) items.push_back(Rotation(8 + i, "LAYOUT_BSHD", i % 3 == 0 ? DType::kF16 : DType::kF32));
  items[7].mutable_spec()->mutable_rope()->set_head_dim(-2);  // refused by itself
  on.harness->All(items);                                     // builds the tiles
  const DeviceStats before = on.device();
  const std::vector<ApplyResult> got = on.harness->All(items);
  ASSERT_EQ(got.size(), items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    const ApplyResult expected = cpu.One(items[i]);
    ASSERT_EQ(got[i].status.code(), expected.status.code()) << i << ": " << got[i].status;
    if (!expected.status.ok()) continue;
    EXPECT_EQ(BytesOf(got[i].tensors[0]), BytesOf(expected.tensors[0])) << i;
    EXPECT_EQ(got[i].cache, CacheOutcome::kHit) << i;
  }
  const DeviceStats after = on.device();
  EXPECT_EQ(after.grouped_tasks - before.grouped_tasks, 39);
  EXPECT_LE(after.grouped_launches - before.grouped_launches, 4);  // a type, perhaps in two slices
}

TEST(EngineDeviceTest, ALostDeviceEndsCallsAndIsSaidOnce) {
  BackendOptions options;
  int lost = 0;
  options.on_device_lost = [&](const absl::Status&) { ++lost; };
  OnDevice on(options);
  on.driver->FailCall(3, absl::AbortedError("fakeErrorIllegalAddress"));
  for (int i = 0; i < 2; ++i) {
    const ApplyResult got = on.harness->One(Rotation(3000, "LAYOUT_BSHD", DType::kF32));
    EXPECT_TRUE(absl::IsUnavailable(got.status)) << got.status;
  }
  EXPECT_EQ(lost, 1);
}

TEST(EngineDeviceTest, MetricsNameEveryDeviceAndReason) {
  OnDevice on;
  on.harness->One(Rotation(3000, "LAYOUT_BSHD", DType::kF32));
  on.harness->One(Rotation(1, "LAYOUT_BSHD", DType::kF32));
  std::vector<prometheus::MetricFamily> families;
  AddDevices(on.harness->engine().backend().stats(), 4096, &families);
  Families found;
  for (const auto& family : families) {
    EXPECT_FALSE(family.help.empty()) << family.name;
    Family& shown = found[family.name];
    EXPECT_TRUE(shown.type.empty()) << family.name << " stands twice";
    shown.type = family.type == prometheus::MetricType::Counter ? "counter" : "gauge";
    for (const auto& metric : family.metric) {
      for (const auto& label : metric.label) shown.labels.insert(label.name);
    }
  }
  EXPECT_EQ(found, DocumentedMetrics("Devices"));
  std::vector<prometheus::MetricFamily> none;
  AddDevices(BackendStats(), 4096, &none);
  EXPECT_TRUE(none.empty());
}

}  // namespace
}  // namespace phasor::server
