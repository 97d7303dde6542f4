// Calls of the engine as plain functions, and what they should have answered.
#ifndef PHASOR_TESTS_SERVER_ENGINE_TEST_UTIL_H_
#define PHASOR_TESTS_SERVER_ENGINE_TEST_UTIL_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/backend.h"
#include "kernels/encodings/encoding.h"
#include "server/engine.h"
#include "server/request.h"
#include "tests/testing/fake_backend.h"
#include "tests/testing/validated.h"

namespace phasor::server {

using phasor::testing::FakeBackend;
using phasor::testing::FakeBackendState;
using phasor::testing::Gate;
using ByteString = std::vector<std::byte>;

inline TableSource Source(const EncodingSpec& spec) {
  auto canonical = Canonicalize(spec);
  EXPECT_TRUE(canonical.ok()) << canonical.status();
  TableSource source;
  if (canonical.ok()) source.spec = *canonical;
  return source;
}
// RoPE with `pairs` pairs; different bases give different plans.
inline TableSource Rope(int64_t pairs = 4, double base = 10000, Pairing pairing = Pairing::kHalfSplit) {
  RopeSpec spec;
  spec.head_dim = 2 * pairs;
  spec.base = base;
  spec.pairing = pairing;
  return Source(spec);
}
inline TableSource Alibi(int64_t heads) {
  AlibiSpec spec;
  spec.num_heads = heads;
  return Source(spec);
}

inline PositionSet Range(int64_t start, int64_t count, int64_t stride = 1) {
  PositionSet set{start, stride, count, {}, -1};
  for (int64_t r : {int64_t{0}, count - 1}) {
    if (count > 0) set.largest = std::max(set.largest, set.at(r));
  }
  return set;
}
inline PositionSet Ids(std::vector<int64_t> ids) {
  PositionSet set;
  set.count = static_cast<int64_t>(ids.size());
  set.largest = ids.empty() ? -1 : *std::max_element(ids.begin(), ids.end());
  set.ids = std::move(ids);
  return set;
}

inline int64_t PlanPairs(const TableSource& source) {
  auto resolved = Resolve(source.spec, source.sequence_length, source.precision);
  EXPECT_TRUE(resolved.ok()) << resolved.status();
  return std::get<AnglePlan>(resolved->plan).pairs();
}

inline PrecomputeItem TableItem(TableSource source, PositionSet positions, TableForm form = TableForm::kHalf,
                                DType dtype = DType::kF32) {
  PrecomputeItem item;
  item.dtype = dtype;
  int64_t columns = (form == TableForm::kHalf || form == TableForm::kConcatenated ? 2 : 4) * PlanPairs(source);
  if (const auto* sinusoidal = std::get_if<SinusoidalSpec>(&source.spec.spec)) columns = sinusoidal->dim;
  item.payload_bytes = positions.count * columns * SizeOf(dtype);
  item.window = TableRequest{std::move(positions), form, false, false};
  item.source = std::move(source);
  return item;
}
inline PrecomputeItem BiasItem(TableSource source, BiasRequest request, DType dtype = DType::kF32) {
  PrecomputeItem item;
  item.source = std::move(source);
  item.dtype = dtype;
  const int64_t width = request.form == BiasForm::kFull  ? request.queries * request.keys
                        : request.form == BiasForm::kRow ? request.keys
                                                         : request.queries + request.keys - 1;
  item.payload_bytes = request.heads * width * SizeOf(dtype);
  item.window = request;
  return item;
}

inline ByteString Flatten(const Chunks& chunks) {
  ByteString bytes;
  for (const Bytes& piece : chunks) bytes.insert(bytes.end(), piece.data, piece.data + piece.size);
  return bytes;
}
inline ByteString Flatten(const std::optional<Array>& array) { return array ? Flatten(array->data) : ByteString(); }

// An engine on a fake backend (or a given one).
class TestEngine {
 public:
  explicit TestEngine(EngineOptions options = {}, std::function<absl::Status(const Task&, RowRange)> before = nullptr) {
    state_->before = std::move(before);
    Start(options, std::make_unique<FakeBackend>(state_));
  }
  TestEngine(EngineOptions options, std::unique_ptr<Backend> backend) { Start(options, std::move(backend)); }

  Engine& operator*() { return *engine_; }
  Engine* operator->() { return engine_.get(); }
  FakeBackendState& fake() { return *state_; }
  int64_t builds() const { return builds_->load(); }
  void Destroy() { engine_.reset(); }

  std::future<Answer<PrecomputeResult>> Send(std::vector<PrecomputeItem> items,
                                             std::shared_ptr<CallContext> context = std::make_shared<CallContext>(),
                                             bool validate_only = false) {
    Batch<PrecomputeItem> batch;
    int64_t bytes = 0;
    for (PrecomputeItem& item : items) {
      bytes += item.payload_bytes;
      batch.emplace_back(std::move(item));
    }
    auto promise = std::make_shared<std::promise<Answer<PrecomputeResult>>>();
    auto future = promise->get_future();
    engine_->Precompute(std::move(context), ValidatedAccess::Make(std::move(batch), validate_only, bytes),
                        [promise](Answer<PrecomputeResult> answer) { promise->set_value(std::move(answer)); });
    return future;
  }
  Answer<PrecomputeResult> Call(std::vector<PrecomputeItem> items) { return Send(std::move(items)).get(); }
  PrecomputeResult One(PrecomputeItem item) {
    Answer<PrecomputeResult> answer = Call({std::move(item)});
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    if (answer.results.size() != 1) return PrecomputeResult();
    EXPECT_TRUE(answer.results[0].status.ok()) << answer.results[0].status;
    return std::move(answer.results[0]);
  }

  std::future<Answer<ApplyResult>> SendApply(std::vector<ApplyItem> items,
                                             std::shared_ptr<CallContext> context = std::make_shared<CallContext>()) {
    Batch<ApplyItem> batch;
    int64_t bytes = 0;
    for (ApplyItem& item : items) {
      for (const TensorInput& tensor : item.tensors) item.payload_bytes += tensor.bytes;
      bytes += 2 * item.payload_bytes;
      batch.emplace_back(std::move(item));
    }
    auto promise = std::make_shared<std::promise<Answer<ApplyResult>>>();
    auto future = promise->get_future();
    engine_->Apply(std::move(context), ValidatedAccess::Make(std::move(batch), false, bytes),
                   [promise](Answer<ApplyResult> answer) { promise->set_value(std::move(answer)); });
    return future;
  }

  // Waits (seconds at most) for something that other threads do after they have answered.
  static bool Eventually(const std::function<bool()>& condition) {
    for (int i = 0; i < 5000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return condition();
  }

 private:
  void Start(EngineOptions options, std::unique_ptr<Backend> backend) {
    if (options.worker_threads == 0) options.worker_threads = 3;
    engine_ = std::make_unique<Engine>(options, std::move(backend), [builds = builds_](double) { builds->fetch_add(1); });
  }

  const std::shared_ptr<FakeBackendState> state_ = std::make_shared<FakeBackendState>();
  const std::shared_ptr<std::atomic<int64_t>> builds_ = std::make_shared<std::atomic<int64_t>>(0);
  std::unique_ptr<Engine> engine_;
};

// The same arrays from one task a row, with no tiles, slices or threads.
struct Expected {
  ByteString first;   // cos, or the one table
  ByteString second;  // sin
};
inline Expected ExpectTable(const Backend& backend, const PrecomputeItem& item) {
  const auto& request = std::get<TableRequest>(item.window);
  auto resolved = Resolve(item.source.spec, item.source.sequence_length, item.source.precision);
  EXPECT_TRUE(resolved.ok());
  const auto& plan = std::get<AnglePlan>(resolved->plan);
  const int64_t size = SizeOf(item.dtype), n = plan.pairs();
  int64_t columns = request.form == TableForm::kHalf ? n : 2 * n, offset = 0;
  std::optional<int64_t> padding;
  if (const auto* sinusoidal = std::get_if<SinusoidalSpec>(&item.source.spec.spec)) {
    columns = sinusoidal->dim;
    offset = sinusoidal->position_offset.value_or(0);
    padding = sinusoidal->padding_row;
  }
  Expected expected;
  for (int64_t row = 0; row < request.positions.count; ++row) {
    std::vector<std::byte> cos(static_cast<size_t>(n * size)), sin(cos.size());
    AngleTask angle;
    angle.plan = &plan;
    angle.positions.start = request.positions.at(row) + offset;
    angle.dtype = item.dtype;
    angle.inverse = request.inverse;
    angle.cos = cos.data();
    angle.sin = sin.data();
    angle.row_stride = n;
    EXPECT_TRUE(backend.Run(angle, {0, 1}, nullptr).ok());
    ByteString out(static_cast<size_t>(columns * size)), out_sin(out.size());
    const bool two = request.form == TableForm::kHalf || request.form == TableForm::kDuplicated ||
                     request.form == TableForm::kInterleavedDuplicated;
    AssembleTask assemble;
    assemble.form = request.form;
    assemble.element_size = size;
    assemble.pairs = assemble.table_stride = n;
    assemble.columns = columns;
    assemble.cos = cos.data();
    assemble.sin = sin.data();
    assemble.out = out.data();
    assemble.out_sin = two ? out_sin.data() : nullptr;
    EXPECT_TRUE(backend.Run(assemble, {0, 1}, nullptr).ok());
    if (padding && angle.positions.start == *padding) std::fill(out.begin(), out.end(), std::byte{0});
    expected.first.insert(expected.first.end(), out.begin(), out.end());
    if (two) expected.second.insert(expected.second.end(), out_sin.begin(), out_sin.end());
  }
  return expected;
}
inline void ExpectSame(const Expected& expected, const PrecomputeResult& result) {
  if (result.table) {
    EXPECT_TRUE(Flatten(result.table) == expected.first);
  } else {
    EXPECT_TRUE(Flatten(result.cos) == expected.first);
    EXPECT_TRUE(Flatten(result.sin) == expected.second);
  }
}

}  // namespace phasor::server

#endif  // PHASOR_TESTS_SERVER_ENGINE_TEST_UTIL_H_
