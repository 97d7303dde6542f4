// Apply without a socket: a request through the wire's parser and the engine, on any backend.
#ifndef PHASOR_TESTS_SERVER_APPLY_HARNESS_H_
#define PHASOR_TESTS_SERVER_APPLY_HARNESS_H_

#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "phasor/v1/position_service.pb.h"

#include "kernels/backend.h"
#include "kernels/core/dtype.h"
#include "kernels/core/narrow.h"
#include "server/engine.h"
#include "server/request_parser.h"
#include "tests/proto/codec_check.h"

namespace phasor::server {

class ApplyHarness {
 public:
  explicit ApplyHarness(std::string_view backend, int threads = 2) : ApplyHarness(Made(backend), threads) {}
  explicit ApplyHarness(std::unique_ptr<Backend> backend, int threads = 2) {
    EngineOptions options;
    options.worker_threads = threads;
    engine_ = std::make_unique<Engine>(options, std::move(backend), nullptr);
  }

  ApplyResult One(const v1::ApplyItem& item) {
    std::vector<ApplyResult> results = All({item});
    return std::move(results[0]);
  }

  // The items of one call. Where the call fails as a whole, one result that says so.
  std::vector<ApplyResult> All(const std::vector<v1::ApplyItem>& items) {
    v1::ApplyRequest request;
    for (const v1::ApplyItem& item : items) *request.add_items() = item;
    std::mt19937_64 random(7);
    auto parsed = RequestParser(Limits()).ParseApply(raw::Split(request.SerializeAsString(), 5, random), access);
    ApplyResult failed;
    failed.status = parsed.status();
    std::vector<ApplyResult> whole(1);
    if (!parsed.ok()) {
      whole[0] = std::move(failed);
      return whole;
    }
    auto promise = std::make_shared<std::promise<Answer<ApplyResult>>>();
    auto future = promise->get_future();
    engine_->Apply(std::make_shared<CallContext>(), *std::move(parsed),
                   [promise](Answer<ApplyResult> answer) { promise->set_value(std::move(answer)); });
    Answer<ApplyResult> answer = future.get();
    if (answer.status.ok()) return std::move(answer.results);
    whole[0].status = answer.status;
    return whole;
  }

  PrecomputeResult One(const v1::PrecomputeItem& item) {
    v1::PrecomputeRequest request;
    *request.add_items() = item;
    std::mt19937_64 random(7);
    auto parsed = RequestParser(Limits()).ParsePrecompute(raw::Split(request.SerializeAsString(), 5, random));
    PrecomputeResult failed;
    failed.status = parsed.status();
    if (!parsed.ok()) return failed;
    auto promise = std::make_shared<std::promise<Answer<PrecomputeResult>>>();
    auto future = promise->get_future();
    engine_->Precompute(std::make_shared<CallContext>(), *std::move(parsed),
                        [promise](Answer<PrecomputeResult> answer) { promise->set_value(std::move(answer)); });
    Answer<PrecomputeResult> answer = future.get();
    failed.status = answer.status;
    return answer.status.ok() ? std::move(answer.results[0]) : std::move(failed);
  }

  Engine& engine() { return *engine_; }

  const RegionAccess* access = nullptr;  // memory that calls may name

 private:
  static std::unique_ptr<Backend> Made(std::string_view name) {
    auto made = CreateBackend(name);
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }

  std::unique_ptr<Engine> engine_;
};

inline v1::ApplyItem ItemFrom(const std::string& text) {
  v1::ApplyItem item;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &item)) << text;
  return item;
}

// Appends a tensor of numbers rounded to `dtype`.
inline void AddTensor(v1::ApplyItem& item, std::vector<int64_t> shape, const std::vector<double>& values,
                      DType dtype = DType::kF32) {
  v1::Tensor* tensor = item.add_tensors();
  tensor->set_dtype(static_cast<v1::Dtype>(dtype));
  for (const int64_t extent : shape) tensor->add_shape(extent);
  std::string bytes;
  VisitFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (const double value : values) {
      const T narrow = Narrow<T>(value);
      bytes.append(reinterpret_cast<const char*>(&narrow), sizeof(T));
    }
  });
  tensor->set_data(bytes);
}

inline std::string BytesOf(const Array& array) {
  std::string bytes;
  for (const Bytes& piece : array.data) {
    bytes.append(reinterpret_cast<const char*>(piece.data), static_cast<size_t>(piece.size));
  }
  return bytes;
}

inline std::vector<double> ValuesOf(DType dtype, const std::string& bytes) {
  std::vector<double> values;
  VisitFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
      T value;
      std::memcpy(&value, bytes.data() + at, sizeof(T));
      values.push_back(Widen<double>(value));
    }
  });
  return values;
}
inline std::vector<double> ValuesOf(const Array& array) { return ValuesOf(array.dtype, BytesOf(array)); }

// Numbers between −1 and 1 that depend on the index alone.
inline std::vector<double> SomeValues(size_t count, unsigned seed = 1) {
  std::vector<double> values(count);
  uint64_t state = 88172645463325252u + seed;
  for (double& value : values) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    value = static_cast<double>(static_cast<int64_t>(state)) * 0x1p-63;
  }
  return values;
}

}  // namespace phasor::server

#endif  // PHASOR_TESTS_SERVER_APPLY_HARNESS_H_
