// Distill over a socket: progress, results that Apply takes, leaving, the queue, shutting down.
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/e2e/fixture.h"

namespace phasor::server {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Rows of a table that no few cosines make.
v1::DistillRequest Table(int64_t rows, int64_t columns) {
  v1::DistillRequest request;
  v1::Tensor& tensor = *request.mutable_source()->mutable_table()->add_tensors();
  tensor.set_dtype(v1::DTYPE_F64);
  tensor.add_shape(rows);
  tensor.add_shape(columns);
  for (int64_t i = 0; i < rows * columns; ++i) {
    const double value = std::sin(0.05 * static_cast<double>(i / columns)) / static_cast<double>(1 + i % columns);
    tensor.mutable_data()->append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return request;
}

// Waves too fast to be followed, which take all the steps that there are: some five seconds.
v1::DistillRequest Long() {
  constexpr int64_t kRows = 4096, kColumns = 16;
  v1::DistillRequest request = Table(kRows, kColumns);
  std::string* data = request.mutable_source()->mutable_table()->mutable_tensors(0)->mutable_data();
  data->clear();
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    const double value = std::sin(0.05 * static_cast<double>(i / kColumns * (1 + i % kColumns)));
    data->append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  request.set_form(v1::DISTILL_FORM_PERCEPTRON);
  request.set_hidden(512);
  request.set_steps(30);
  return request;
}

struct Stream {
  explicit Stream(TestServer& server, const v1::DistillRequest& request)
      : reader(server.catalog().Distill(&context, request)) {}
  // Until the first progress: about how many seconds the rest takes. 0: there was none.
  double AwaitProgress() {
    v1::DistillResponse message;
    while (reader->Read(&message)) {
      if (!message.has_progress()) continue;
      const auto step = static_cast<double>(message.progress().step());
      return SecondsSince(start) * (static_cast<double>(message.progress().steps()) - step) / step;
    }
    return 0;
  }
  grpc::ClientContext context;
  const Clock::time_point start = Clock::now();
  std::unique_ptr<grpc::ClientReader<v1::DistillResponse>> reader;
};

std::vector<v1::DistilledFunction> Results(TestServer& server, const v1::DistillRequest& request, int* progress = nullptr) {
  Stream stream(server, request);
  std::vector<v1::DistilledFunction> results;
  v1::DistillResponse message;
  while (stream.reader->Read(&message)) {
    if (message.has_result()) results.push_back(message.result());
    if (message.has_progress() && progress != nullptr) ++*progress;
  }
  const grpc::Status status = stream.reader->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  return results;
}

double ValueAt(const v1::Tensor& tensor, int64_t index) {
  double value = 0;
  std::memcpy(&value, tensor.data().data() + 8 * index, sizeof(value));
  return value;
}

TEST(DistillTest, BothFormsAreRowsThatApplyAdds) {
  TestServer server;
  v1::DistillRequest request = Table(64, 6);
  request.set_hidden(16);
  request.set_steps(100);
  request.set_terms(20);
  const std::vector<v1::DistilledFunction> results = Results(server, request);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].form(), v1::DISTILL_FORM_PERCEPTRON);
  EXPECT_EQ(results[1].form(), v1::DISTILL_FORM_COSINE_SERIES);
  for (const v1::DistilledFunction& result : results) {
    EXPECT_GT(result.max_error(), 0);
    EXPECT_LT(result.max_error(), 0.1);
    v1::ApplyRequest apply;
    v1::ApplyItem& item = *apply.add_items();
    *item.mutable_spec() = result.spec();
    item.mutable_add();
    item.mutable_positions()->mutable_range()->set_start(0);
    v1::Tensor& x = *item.add_tensors();
    x.set_dtype(v1::DTYPE_F64);
    for (const int64_t extent : {1, 64, 6}) x.add_shape(extent);
    x.mutable_data()->resize(64 * 6 * 8);  // zeros
    grpc::ClientContext context;
    v1::ApplyResponse response;
    const grpc::Status status = server.position().Apply(&context, apply, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_EQ(response.results(0).status().code(), 0) << response.results(0).status().message();
    double largest = 0;
    for (int64_t i = 0; i < 64 * 6; ++i) {
      largest = std::max(
          largest, std::abs(ValueAt(response.results(0).tensors(0), i) - ValueAt(request.source().table().tensors(0), i)));
    }
    EXPECT_EQ(largest, result.max_error());
  }
}

TEST(DistillTest, TellsHowFarItIsAndHowItWent) {
  TestServer server;
  v1::DistillRequest request = Table(512, 8);
  request.set_form(v1::DISTILL_FORM_PERCEPTRON);
  request.set_steps(600);
  int progress = 0;
  const auto start = Clock::now();
  const std::vector<v1::DistilledFunction> results = Results(server, request, &progress);
  const double seconds = SecondsSince(start);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_GE(progress, 1);
  EXPECT_LE(progress, 4 * seconds + 2);
  EXPECT_EQ(server.Metric("phasor_inflight_bytes"), 0);
}

TEST(DistillTest, WhoLeavesStopsTheFit) {
  TestServer server;
  Stream stream(server, Long());
  const double rest = stream.AwaitProgress();
  ASSERT_GT(rest, 0);
  const auto left = Clock::now();
  stream.context.TryCancel();
  v1::DistillResponse message;
  while (stream.reader->Read(&message)) {
  }
  EXPECT_EQ(stream.reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  // The next one does not wait for it.
  v1::DistillRequest small = Table(16, 2);
  small.set_steps(2);
  EXPECT_EQ(Results(server, small).size(), 2u);
  EXPECT_LT(SecondsSince(left), rest / 2);
}

TEST(DistillTest, ADeadlineStopsTheFit) {
  TestServer server;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  const auto reader = server.catalog().Distill(&context, Long());
  v1::DistillResponse message;
  while (reader->Read(&message)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST(DistillTest, AFewWaitAndTheNextIsRefused) {
  TestServer server;
  std::vector<std::unique_ptr<Stream>> waiting;
  waiting.push_back(std::make_unique<Stream>(server, Long()));
  ASSERT_GT(waiting[0]->AwaitProgress(), 0);
  for (int i = 0; i < 4; ++i) {
    const double held = server.Metric("phasor_inflight_bytes");
    waiting.push_back(std::make_unique<Stream>(server, Long()));
    // Whoever waits hears nothing, but is charged.
    ASSERT_TRUE(server.AwaitMetric("phasor_inflight_bytes", [&](double bytes) { return bytes > held; }));
  }
  v1::DistillResponse message;
  Stream one_more(server, Long());
  ASSERT_FALSE(one_more.reader->Read(&message));
  const grpc::Status refused = one_more.reader->Finish();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(), testing::HasSubstr("fits functions for others"));
  // What is wrong is said at once all the same, and other calls are served.
  Stream wrong(server, v1::DistillRequest());
  EXPECT_FALSE(wrong.reader->Read(&message));
  EXPECT_EQ(wrong.reader->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  for (const auto& stream : waiting) stream->context.TryCancel();
  for (const auto& stream : waiting) {
    while (stream->reader->Read(&message)) {
    }
    EXPECT_EQ(stream->reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
}

TEST(DistillTest, ShuttingDownDoesNotWaitForIt) {
  TestServer server;
  Stream running(server, Long()), waiting(server, Long());
  const double rest = running.AwaitProgress();
  ASSERT_GT(rest, 0);
  const auto start = Clock::now();
  server->Shutdown(std::chrono::milliseconds(100));
  server.Stop();
  EXPECT_LT(SecondsSince(start), rest / 2);
  v1::DistillResponse message;
  for (Stream* stream : {&running, &waiting}) {
    while (stream->reader->Read(&message)) {
    }
    EXPECT_FALSE(stream->reader->Finish().ok());
  }
}

}  // namespace
}  // namespace phasor::server
