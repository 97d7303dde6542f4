// Tensors and tables in shared memory have the bits of calls that carry their bytes.
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "tests/e2e/shared_memory_fixture.h"

namespace phasor::server {
namespace {

// Random bytes that are sane numbers of the type.
std::string Numbers(v1::Dtype dtype, size_t count) {
  std::mt19937_64 random(7);
  std::string bytes;
  for (size_t i = 0; i < count; ++i) {
    const double x = static_cast<double>(static_cast<int64_t>(random() % 2000) - 1000) / 256;
    if (dtype == v1::DTYPE_F64) {
      bytes.append(reinterpret_cast<const char*>(&x), 8);
    } else if (dtype == v1::DTYPE_F32) {
      const auto f = static_cast<float>(x);
      bytes.append(reinterpret_cast<const char*>(&f), 4);
    } else {
      const auto bits = static_cast<uint16_t>(0x3000 + random() % 0x1000);
      bytes.append(reinterpret_cast<const char*>(&bits), 2);
    }
  }
  return bytes;
}

// The answer of a call that carries its bytes.
absl::StatusOr<v1::ApplyResponse> Unary(TestServer& server, const v1::ApplyRequest& request) {
  grpc::ClientContext context;
  v1::ApplyResponse response;
  const grpc::Status status = server.position().Apply(&context, request, &response);
  if (!status.ok()) return absl::InternalError(status.error_message());
  return response;
}

struct Operation {
  const char* name;
  const char* item;  // but for its tensors
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
};

const std::vector<Operation>& Operations() {
  static const auto* operations = new std::vector<Operation>{
      {"rotate", "spec { rope { head_dim: 64 } }", {2, 33, 3, 64}, {}},
      {"rotate scattered", "spec { rope { head_dim: 64 } } layout: LAYOUT_BHSD", {2, 3, 33, 64}, {}},
      {"rotate with gaps", "spec { rope { head_dim: 64 } }", {2, 33, 3, 64}, {33 * 256, 256, 80, 1}},
      {"rotate large", "spec { rope { head_dim: 128 } }", {1, 1024, 4, 128}, {}},
      {"inverse, in steps",
       "spec { rope { head_dim: 64 } } rotate { inverse: true } positions { range { start: 5 stride: 3 count: "
       "33 } }",
       {2, 33, 3, 64},
       {}},
      {"shift", "spec { rope { head_dim: 64 } } shift { } positions { range { start: 9 count: 33 } }", {2, 33, 3, 64}, {}},
      {"xPos", "spec { rope { head_dim: 64 xpos { center: 7 } } }", {2, 33, 3, 64}, {}},
      {"add", "spec { sinusoidal { dim: 64 } } add { scale: 3 }", {2, 33, 64}, {}},
      {"add with gaps", "spec { sinusoidal { dim: 64 } } add { }", {2, 33, 64}, {33 * 70, 70, 1}},
  };
  return *operations;
}

class OperationsTest : public SharedMemoryTest {
 protected:
  // Compares every way of having the tensor or its result in shared memory with a call that carries both.
  void Check(const Operation& operation, v1::Dtype dtype) {
    SCOPED_TRACE(absl::StrCat(operation.name, " ", v1::Dtype_Name(dtype)));
    v1::ApplyRequest request;
    v1::ApplyItem* item = request.add_items();
    *item = FromText<v1::ApplyItem>(operation.item);
    v1::Tensor* tensor = item->add_tensors();
    tensor->set_dtype(dtype);
    tensor->mutable_shape()->Add(operation.shape.begin(), operation.shape.end());
    tensor->mutable_strides()->Add(operation.strides.begin(), operation.strides.end());
    size_t count = 1;
    for (size_t axis = 0; axis < operation.shape.size(); ++axis) {
      if (operation.strides.empty()) count *= static_cast<size_t>(operation.shape[axis]);
      if (!operation.strides.empty()) count += static_cast<size_t>((operation.shape[axis] - 1) * operation.strides[axis]);
    }
    const std::string input = Numbers(dtype, count);
    tensor->set_data(input);
    const auto expected = Unary(*server_, request);
    ASSERT_TRUE(expected.ok()) << expected.status();
    ASSERT_EQ(expected->results(0).status().code(), 0) << expected->results(0).status().message();
    const std::string& output = expected->results(0).tensors(0).data();
    ASSERT_NE(output, input);

    const auto size = static_cast<int64_t>(input.size());
    const int64_t second = (size + 63) / 64 * 64 + 64;
    const auto memory = SharedMemory::Create(socket_.get(), second + size + 64);
    ASSERT_TRUE(memory.ok()) << memory.status();
    std::byte* const bytes = (*memory)->bytes().data();
    const auto text = [&](int64_t at) { return std::string(reinterpret_cast<const char*>(bytes + at), input.size()); };
    const auto call = [&](const char* way) {
      SCOPED_TRACE(way);
      const auto answer = socket_->Apply(request, {});
      ASSERT_TRUE(answer.ok()) << answer.status();
      const v1::ApplyResult& result = answer->message.results(0);
      ASSERT_EQ(result.status().code(), 0) << result.status().message();
      EXPECT_EQ(result.fingerprint(), expected->results(0).fingerprint());
      EXPECT_EQ(result.payload_bytes(), size);
      ASSERT_TRUE(result.tensors(0).has_shared_memory());
      EXPECT_EQ(result.tensors(0).shared_memory().region(), (*memory)->name());
      EXPECT_EQ(result.tensors(0).shared_memory().size_bytes(), input.size());
    };
    // In place.
    std::memcpy(bytes, input.data(), input.size());
    *tensor->mutable_shared_memory() = (*memory)->Place(0, size);
    call("in place");
    EXPECT_EQ(text(0), output);
    // From one place to another.
    std::memcpy(bytes, input.data(), input.size());
    *item->add_outputs() = (*memory)->Place(second, size);
    call("moved");
    EXPECT_EQ(text(0), input) << "the source is as it was";
    EXPECT_EQ(text(second), output);
    // From the call to shared memory.
    std::memset(bytes + second, 0, input.size());
    raw::Payloads payloads;
    const raw::Piece piece{nullptr, reinterpret_cast<const std::byte*>(input.data()), input.size()};
    tensor->set_data(payloads.Add({&piece, 1}));
    const auto sent = socket_->Apply(request, payloads);
    ASSERT_TRUE(sent.ok()) << sent.status();
    EXPECT_EQ(sent->message.results(0).tensors(0).shared_memory().offset_bytes(), static_cast<uint64_t>(second));
    EXPECT_EQ(text(second), output);
    EXPECT_EQ((*memory)->bytes()[static_cast<size_t>(second + size)], std::byte{0}) << "nothing beyond it is touched";
  }
};

TEST_F(OperationsTest, HaveTheBitsOfCallsThatCarryTheirBytes) {
  for (const Operation& operation : Operations()) {
    for (const v1::Dtype dtype : {v1::DTYPE_F64, v1::DTYPE_F32, v1::DTYPE_F16, v1::DTYPE_BF16}) Check(operation, dtype);
  }
  EXPECT_GT(server_->Metric("phasor_response_bytes_total{path=\"shm\"}"), 1e6);
}

TEST_F(SharedMemoryTest, ResultsOfAnotherSizeGoWhereTheyAreToldTo) {
  for (const char* text : {"resize { source: 8 target: 24 } tensors { dtype: DTYPE_F32 shape: [8, 16] }",
                           "spec { pope { head_dim: 16 } } tensors { dtype: DTYPE_F32 shape: [1, 8, 1, 16] }"}) {
    SCOPED_TRACE(text);
    v1::ApplyRequest request;
    *request.add_items() = FromText<v1::ApplyItem>(text);
    const std::string input = Numbers(v1::DTYPE_F32, 128);
    request.mutable_items(0)->mutable_tensors(0)->set_data(input);
    const auto expected = Unary(*server_, request);
    ASSERT_TRUE(expected.ok());
    if (expected->results(0).status().code() != 0) FAIL() << expected->results(0).status().message();
    const std::string& output = expected->results(0).tensors(0).data();
    const auto memory = SharedMemory::Create(socket_.get(), 4096);
    ASSERT_TRUE(memory.ok()) << memory.status();
    std::memcpy((*memory)->bytes().data(), input.data(), input.size());
    *request.mutable_items(0)->mutable_tensors(0)->mutable_shared_memory() =
        (*memory)->Place(0, static_cast<int64_t>(input.size()));
    auto answer = socket_->Apply(request, {});
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_FALSE(answer->message.results(0).tensors(0).has_shared_memory()) << "it goes into the answer";
    EXPECT_EQ(answer->payloads.SizeOf(answer->message.results(0).tensors(0).data()), static_cast<int64_t>(output.size()));
    *request.mutable_items(0)->add_outputs() = (*memory)->Place(1024, static_cast<int64_t>(output.size()));
    answer = socket_->Apply(request, {});
    ASSERT_TRUE(answer.ok()) << answer.status();
    ASSERT_EQ(answer->message.results(0).status().code(), 0) << answer->message.results(0).status().message();
    EXPECT_EQ(std::memcmp((*memory)->bytes().data() + 1024, output.data(), output.size()), 0);
  }
}

struct Window {
  const char* name;
  const char* item;
};
constexpr Window kWindows[] = {
    {"half", "spec { rope { head_dim: 64 } } table { positions { range { start: 100 count: 5000 } } }"},
    {"half, little", "spec { rope { head_dim: 64 } } table { positions { range { count: 10 } } }"},
    {"duplicated",
     "spec { rope { head_dim: 64 } } table { positions { range { count: 300 } } form: TABLE_FORM_DUPLICATED }"},
    {"concatenated",
     "spec { rope { head_dim: 64 } } table { positions { range { count: 300 } } form: TABLE_FORM_CONCATENATED }"},
    {"scattered", "spec { rope { head_dim: 64 } } table { positions { list { ids: [7, 3, 100000] } } }"},
    {"sinusoidal", "spec { sinusoidal { dim: 64 } } table { positions { range { count: 300 } } }"},
    {"several axes", "spec { grid_sinusoidal { dim: 16 grid: [3, 5] } } table { positions { range { count: 15 } } }"},
    {"bias, vector", "spec { alibi { num_heads: 8 } } bias { queries: 700 keys: 700 }"},
    {"bias, full", "spec { alibi { num_heads: 8 } } bias { queries: 70 keys: 90 form: BIAS_FORM_FULL }"},
    {"bias, masked",
     "spec { alibi { num_heads: 8 } } bias { queries: 70 keys: 90 form: BIAS_FORM_FULL masking { causal: true } }"},
};

// The arrays of a result, one after the other.
std::vector<const v1::Tensor*> ArraysOf(const v1::PrecomputeResult& result) {
  std::vector<const v1::Tensor*> arrays;
  if (result.has_cos()) arrays.push_back(&result.cos());
  if (result.has_sin()) arrays.push_back(&result.sin());
  if (result.has_table()) arrays.push_back(&result.table());
  if (result.has_bias()) arrays.push_back(&result.bias());
  return arrays;
}

class WindowsTest : public SharedMemoryTest {
 protected:
  v1::PrecomputeResult Ask(const v1::PrecomputeRequest& request) {
    const auto answer = socket_->Precompute(request);
    EXPECT_TRUE(answer.ok()) << answer.status();
    if (!answer.ok()) return {};
    EXPECT_EQ(answer->message.results(0).status().code(), 0) << answer->message.results(0).status().message();
    return answer->message.results(0);
  }

  // Expects the arrays of `result` in `mapping` to have the bytes of `expected`.
  static void ExpectArrays(const v1::PrecomputeResult& result, const RegionMapping& mapping,
                           const v1::PrecomputeResult& expected) {
    const auto arrays = ArraysOf(result), wanted = ArraysOf(expected);
    ASSERT_EQ(arrays.size(), wanted.size());
    EXPECT_EQ(result.fingerprint(), expected.fingerprint());
    for (size_t i = 0; i < arrays.size(); ++i) {
      const auto bytes = mapping.At(arrays[i]->shared_memory());
      ASSERT_TRUE(bytes.ok()) << arrays[i]->ShortDebugString().substr(0, 200);
      EXPECT_EQ(arrays[i]->shared_memory().offset_bytes() % 64, 0u);
      ASSERT_EQ(bytes->size(), wanted[i]->data().size());
      EXPECT_EQ(std::memcmp(bytes->data(), wanted[i]->data().data(), bytes->size()), 0);
    }
  }

  void Check(const Window& window, v1::Dtype dtype) {
    SCOPED_TRACE(absl::StrCat(window.name, " ", v1::Dtype_Name(dtype)));
    v1::PrecomputeRequest request;
    *request.add_items() = FromText<v1::PrecomputeItem>(window.item);
    request.mutable_items(0)->set_dtype(dtype);
    // Into the caller's region, before the table is in the cache, and again after.
    const auto memory = SharedMemory::Create(socket_.get(), 8 * kMiB);
    ASSERT_TRUE(memory.ok()) << memory.status();
    *request.mutable_items(0)->mutable_output() = (*memory)->Place(128, 6 * kMiB);
    const v1::PrecomputeResult first = Ask(request);
    const std::string made(reinterpret_cast<const char*>((*memory)->bytes().data()), 6 * kMiB);
    std::memset((*memory)->bytes().data(), 0, (*memory)->bytes().size());
    const v1::PrecomputeResult second = Ask(request);
    EXPECT_EQ(std::memcmp((*memory)->bytes().data(), made.data(), made.size()), 0);

    grpc::ClientContext context;
    v1::PrecomputeResponse response;
    v1::PrecomputeRequest plain = request;
    plain.mutable_items(0)->clear_output();
    ASSERT_TRUE(server_->position().Precompute(&context, plain, &response).ok());
    const v1::PrecomputeResult& expected = response.results(0);
    v1::SharedRegion named;
    v1::RenewRegionRequest renew;
    renew.set_region((*memory)->name());
    const auto region = socket_->RenewRegion(renew);
    ASSERT_TRUE(region.ok()) << region.status();
    const auto mapping = RegionMapping::Map(region->region());
    ASSERT_TRUE(mapping.ok()) << mapping.status();
    ExpectArrays(second, **mapping, expected);

    // Shared: the same region for all who ask.
    plain.mutable_items(0)->set_share(true);
    const v1::PrecomputeResult shared = Ask(plain);
    ASSERT_TRUE(shared.has_shared_region());
    EXPECT_TRUE(shared.shared_region().read_only());
    const auto table = RegionMapping::Map(shared.shared_region());
    ASSERT_TRUE(table.ok()) << table.status();
    ExpectArrays(shared, **table, expected);
    const v1::PrecomputeResult again = Ask(plain);
    EXPECT_EQ(again.shared_region().region(), shared.shared_region().region());
    EXPECT_EQ(again.cache(), v1::CACHE_OUTCOME_HIT);
    ExpectArrays(again, **table, expected);
    v1::ReleaseRegionRequest release;
    release.set_region(shared.shared_region().region());
    EXPECT_TRUE(socket_->ReleaseRegion(release).ok());
    ExpectArrays(shared, **table, expected);
  }
};

TEST_F(WindowsTest, HaveTheBitsOfAnswersThatCarryTheirBytes) {
  for (const Window& window : kWindows) {
    for (const v1::Dtype dtype : {v1::DTYPE_F64, v1::DTYPE_F32, v1::DTYPE_F16, v1::DTYPE_BF16}) Check(window, dtype);
  }
  EXPECT_TRUE(server_->AwaitMetric("phasor_memory_pool_bytes{space=\"shared\",state=\"used\"}",
                                   [](double bytes) { return bytes == 0; }));
  EXPECT_EQ(server_->Metric("phasor_shared_memory_regions"), 0);
}

TEST_F(WindowsTest, InvFreqStaysInTheAnswer) {
  v1::PrecomputeRequest request;
  *request.add_items() = FromText<v1::PrecomputeItem>(kWindows[0].item);
  request.mutable_items(0)->mutable_table()->set_include_inv_freq(true);
  const auto memory = SharedMemory::Create(socket_.get(), 8 * kMiB);
  ASSERT_TRUE(memory.ok());
  *request.mutable_items(0)->mutable_output() = (*memory)->Place(0, 5000 * 32 * 4 * 2);
  const auto answer = socket_->Precompute(request);
  ASSERT_TRUE(answer.ok());
  const v1::PrecomputeResult& result = answer->message.results(0);
  ASSERT_EQ(result.status().code(), 0) << result.status().message();
  EXPECT_EQ(answer->payloads.SizeOf(result.inv_freq().data()), 32 * 8);
  EXPECT_TRUE(result.cos().has_shared_memory());
}

// What was described only leaves shared memory as it is.
TEST_F(WindowsTest, NothingIsWrittenWhereNothingIsMade) {
  v1::PrecomputeRequest request;
  *request.add_items() = FromText<v1::PrecomputeItem>(kWindows[0].item);
  const auto memory = SharedMemory::Create(socket_.get(), 8 * kMiB);
  ASSERT_TRUE(memory.ok());
  *request.mutable_items(0)->mutable_output() = (*memory)->Place(0, 8 * kMiB);
  request.set_validate_only(true);
  v1::PrecomputeResult result = Ask(request);
  EXPECT_EQ(result.cos().storage_case(), v1::Tensor::STORAGE_NOT_SET);
  request.set_validate_only(false);
  request.mutable_items(0)->set_if_fingerprint_not(result.fingerprint());
  EXPECT_TRUE(Ask(request).not_modified());
  request.mutable_items(0)->clear_output();
  request.mutable_items(0)->set_share(true);
  result = Ask(request);
  EXPECT_TRUE(result.not_modified());
  EXPECT_FALSE(result.has_shared_region());
  EXPECT_EQ((*memory)->bytes()[0], std::byte{0});
  EXPECT_EQ(server_->Metric("phasor_shared_memory_regions"), 1);
}

}  // namespace
}  // namespace phasor::server
