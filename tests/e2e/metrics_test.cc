// The metrics contract: deploy/metrics.md against a scrape over HTTP.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/e2e/fixture.h"
#include "tests/testing/metrics_contract.h"

namespace phasor::server {
namespace {

using ::testing::ContainerEq;
using ::testing::HasSubstr;

std::string Get(int port, const std::string& path) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    const std::string request = "GET " + path + " HTTP/1.0\r\nHost: localhost\r\n\r\n";
    if (send(fd, request.data(), request.size(), 0) == static_cast<ssize_t>(request.size())) {
      char buffer[65536];
      for (ssize_t n; (n = recv(fd, buffer, sizeof buffer, 0)) > 0;) answer.append(buffer, static_cast<size_t>(n));
    }
  }
  close(fd);
  return answer;
}

// Families of a scrape, labels of the format itself (le, quantile) left out.
Families Scraped(const std::string& text) {
  Families families;
  std::istringstream lines(text);
  std::string line, current;
  while (std::getline(lines, line)) {
    if (line.starts_with("# TYPE ")) {
      std::istringstream words(line.substr(7));
      words >> current >> families[current].type;
    }
    const size_t open = line.find('{');
    if (current.empty() || line.starts_with("#") || open == std::string::npos) continue;
    for (size_t at = open + 1; line[at] != '}';) {
      const size_t equals = line.find('=', at);
      const std::string label = line.substr(at, equals - at);
      if (label != "le" && label != "quantile") families[current].labels.insert(label);
      at = line.find('"', equals + 2) + 1;
      if (line[at] == ',') ++at;
    }
  }
  return families;
}

TEST(MetricsTest, AScrapeIsWhatTheContractSays) {
  ServerOptions options = LoopbackOptions();
  options.metrics_listen = "127.0.0.1:0";
  TestServer server(options);
  Get(server->metrics_port(), "/metrics");  // the listener's own series are there from the second time on
  const std::string answer = Get(server->metrics_port(), "/metrics");
  ASSERT_THAT(answer, HasSubstr("200 OK"));
  const Families contract = DocumentedMetrics("");
  ASSERT_GT(contract.size(), 25u);
  EXPECT_THAT(Scraped(answer), ContainerEq(contract));
}

TEST(MetricsTest, EverySeriesExistsFromTheStartAndCallsAddNone) {
  TestServer server;
  const auto count = [&] {
    std::istringstream lines(server->ScrapeMetrics());
    std::string line;
    int series = 0;
    while (std::getline(lines, line)) series += line.starts_with("#") ? 0 : 1;
    return series;
  };
  const int before = count();
  EXPECT_EQ(server.Metric("phasor_requests_total{code=\"OK\",method=\"phasor.v1.PositionService/Apply\"}"), 0);
  EXPECT_EQ(server.Metric("phasor_rejected_requests_total{reason=\"queue_full\"}"), 0);
  for (const int64_t rows : {1, 100, 5000}) {
    grpc::ClientContext context;
    v1::PrecomputeResponse response;
    ASSERT_TRUE(server.position().Precompute(&context, LlamaTable(rows), &response).ok());
  }
  grpc::ClientContext context;
  v1::GetSchemeResponse scheme;
  EXPECT_FALSE(server.catalog().GetScheme(&context, v1::GetSchemeRequest(), &scheme).ok());
  EXPECT_EQ(count(), before);
}

TEST(MetricsTest, CallsAreCountedWithTheirStagesAndBytes) {
  TestServer server;
  const std::string method = "method=\"phasor.v1.PositionService/Precompute\"";
  for (int i = 0; i < 3; ++i) {
    grpc::ClientContext context;
    v1::PrecomputeResponse response;
    ASSERT_TRUE(server.position().Precompute(&context, LlamaTable(4096), &response).ok());
  }
  ASSERT_TRUE(server.AwaitMetric("phasor_requests_total{code=\"OK\"," + method + "}", [](double n) { return n == 3; }));
  EXPECT_EQ(server.Metric("phasor_request_duration_seconds_count{" + method + "}"), 3);
  for (const char* stage : {"decode", "queue", "build", "copy", "send"}) {
    EXPECT_EQ(server.Metric("phasor_request_stage_duration_seconds_count{" + method + ",stage=\"" + stage + "\"}"), 3);
  }
  EXPECT_GE(server.Metric("phasor_response_bytes_total{path=\"zerocopy\"}"), 3.0 * 4096 * 64 * 4 * 2);
  EXPECT_GT(server.Metric("phasor_request_bytes_total{" + method + "}"), 0);
  EXPECT_GT(server.Metric("phasor_table_cache_misses_total{space=\"host\"}"), 0);
  EXPECT_GT(server.Metric("phasor_table_cache_hits_total{space=\"host\"}"), 0);
  EXPECT_GT(server.Metric("phasor_table_cache_bytes{space=\"host\"}"), 0);
  EXPECT_GT(server.Metric("process_resident_memory_bytes"), 1 << 20);
  EXPECT_GT(server.Metric("process_cpu_seconds_total"), 0);
  EXPECT_GT(server.Metric("process_open_fds"), 3);
  EXPECT_GT(server.Metric("process_start_time_seconds"), 1.6e9);
  EXPECT_TRUE(server.AwaitMetric("phasor_inflight_requests", [](double n) { return n == 0; }));
}

TEST(MetricsTest, AnIdleServerGivesPooledBuffersAndFreeMemoryBack) {
  ServerOptions options = LoopbackOptions();
  options.release_idle_memory = true;
  TestServer server(options);
  v1::PrecomputeRequest request = LlamaTable(1 << 18);
  request.mutable_items(0)->mutable_table()->set_form(v1::TABLE_FORM_CONCATENATED);  // 128 MiB, assembled in a pooled buffer
  {
    grpc::ClientContext context;
    v1::PrecomputeResponse response;
    ASSERT_TRUE(server.position().Precompute(&context, request, &response).ok());
  }
  const std::string pooled = "phasor_memory_pool_bytes{space=\"host\",state=\"free\"}";
  ASSERT_TRUE(server.AwaitMetric(pooled, [](double bytes) { return bytes >= 128 << 20; }));
  EXPECT_TRUE(server.AwaitMetric(pooled, [](double bytes) { return bytes <= 64 << 20; }));
#ifdef __SANITIZE_ADDRESS__
  std::puts("not looked at: phasor_malloc_bytes, which AddressSanitizer's allocator leaves at 0");
#else
  EXPECT_GT(server.Metric("phasor_malloc_bytes{state=\"used\"}"), 0);
#endif
}

TEST(MetricsTest, ErrorsAreCountedByCode) {
  TestServer server;
  grpc::ClientContext context;
  v1::PrecomputeResponse response;
  EXPECT_FALSE(server.position().Precompute(&context, v1::PrecomputeRequest(), &response).ok());
  EXPECT_TRUE(
      server.AwaitMetric("phasor_requests_total{code=\"INVALID_ARGUMENT\",method=\"phasor.v1.PositionService/Precompute\"}",
                         [](double n) { return n == 1; }));
}

}  // namespace
}  // namespace phasor::server
