// What gpu-check.sh says of a device, and the gates that go by any driver, on a device made of host memory.
#include "tests/bench/cuda/device_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/cuda/host_gates.h"
#include "tests/kernels/cuda/fake_driver.h"

namespace phasor::cuda {
namespace {

using ::testing::HasSubstr;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

TEST(DeviceReportTest, AGateHoldsOnItsSideOfTheLimit) {
  EXPECT_TRUE((ReportRow{"", RowKind::kAtLeast, 0.8, 0.8}.holds()));
  EXPECT_FALSE((ReportRow{"", RowKind::kAtLeast, 0.799, 0.8}.holds()));
  EXPECT_TRUE((ReportRow{"", RowKind::kAtMost, 1.25, 1.25}.holds()));
  EXPECT_FALSE((ReportRow{"", RowKind::kAtMost, 1.251, 1.25}.holds()));
  EXPECT_TRUE((ReportRow{"", RowKind::kFigure, 5}.holds()));
  for (const RowKind kind : {RowKind::kAtLeast, RowKind::kAtMost, RowKind::kFigure}) {
    EXPECT_FALSE((ReportRow{"", kind, kNone, 1}.holds()));
    EXPECT_FALSE((ReportRow{"", kind, 1, 1, "why"}.holds()));
  }
  EXPECT_FALSE((ReportRow{"", RowKind::kAtLeast, std::numeric_limits<double>::infinity(), 1}.holds())) << "÷ 0 says nothing";
}

TEST(DeviceReportTest, LinesForPeopleAndForPrograms) {
  const ReportRow gate{"µs over \"empty\"", RowKind::kAtMost, 1.5, 2};
  EXPECT_THAT(TextOf(gate),
              testing::AllOf(testing::StartsWith("µs over \"empty\" "), testing::EndsWith("1.500  ≤ 2.00  holds")));
  EXPECT_EQ(JsonOf(gate), R"({"gate": "µs over \"empty\"", "ratio": 1.5, "limit": 2, "at_least": false, "holds": true})");
  const ReportRow missed{"copy", RowKind::kAtLeast, 0.5, 0.8};
  EXPECT_THAT(TextOf(missed), testing::EndsWith("0.500  ≥ 0.80  MISSED"));
  EXPECT_EQ(JsonOf(missed), R"({"gate": "copy", "ratio": 0.5, "limit": 0.8, "at_least": true, "holds": false})");
  const ReportRow failed{"host", RowKind::kAtMost, kNone, 1.25, "no\nmemory \\"};
  EXPECT_THAT(TextOf(failed), HasSubstr("FAILED: no"));
  EXPECT_EQ(JsonOf(failed),
            R"({"gate": "host", "error": "no memory \\", "limit": 1.25, "at_least": false, "holds": false})");
  EXPECT_EQ(JsonOf({"GB/s", RowKind::kFigure, 4300}), R"({"figure": "GB/s", "value": 4300})");
  EXPECT_EQ(JsonOf({"GB/s", RowKind::kFigure, kNone}), R"({"figure": "GB/s", "value": null})");
  EXPECT_EQ(TextOf({"µµ", RowKind::kFigure, 1}).size(), TextOf({"uu", RowKind::kFigure, 1}).size() + 2) << "columns";
}

TEST(DeviceReportTest, EveryRowIsInTheFileAtOnce) {
  const std::string path = testing::TempDir() + "/device_report.jsonl";
  std::remove(path.c_str());
  Report({"one", RowKind::kFigure, 1}, path);
  Report({"two", RowKind::kAtLeast, 2, 1}, path);
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), JsonOf({"one", RowKind::kFigure, 1}) + "\n" + JsonOf({"two", RowKind::kAtLeast, 2, 1}) + "\n");
  std::remove(path.c_str());
}

TEST(DeviceReportTest, WhereDoublesAreFast) {
  EXPECT_TRUE(HasFastDoubles(8, 0) && HasFastDoubles(9, 0) && HasFastDoubles(10, 0));  // A100, H100, B200
  for (const auto& [major, minor] : {std::pair{7, 5}, {8, 6}, {8, 9}, {10, 3}, {12, 0}, {12, 1}}) {
    EXPECT_FALSE(HasFastDoubles(major, minor)) << major << "." << minor;
  }
}

constexpr HostGateSizes kSmall{.bytes = 9 << 20, .largest_of_few = 1 << 20, .rounds = 1};

TEST(HostGatesTest, OnADeviceOfHostMemory) {
  const auto driver = std::make_shared<FakeDriver>(FakeOptions{});
  const auto host = HostPathGate(driver, kSmall);
  ASSERT_EQ(host.size(), 6u);
  for (const size_t gate : {0, 3}) {
    EXPECT_EQ(host[gate].kind, RowKind::kAtMost);
    EXPECT_EQ(host[gate].limit, 1.25);
  }
  EXPECT_NE(host[0].name, host[3].name);
  const auto group = GroupFigures(driver, kSmall);
  ASSERT_EQ(group.size(), 3u);
  for (const auto& rows : {host, group}) {
    for (const ReportRow& row : rows) {
      EXPECT_EQ(row.error, "") << row.name;
      EXPECT_TRUE(std::isfinite(row.value) && row.value > 0) << row.name;
    }
  }
  // A device of host memory that computes an element at a time is quicker nowhere: a figure as well, and no failure.
  const auto even = BreakEvenFigure(driver, kSmall);
  ASSERT_FALSE(even.empty());
  EXPECT_EQ(even[0].kind, RowKind::kFigure);
  EXPECT_TRUE(even[0].holds()) << even[0].error;
}

// As the CPU, but for the last of the rows that it is given.
class AllButTheLast final : public Backend {
 public:
  std::string_view name() const override { return "wrong"; }
  std::string description() const override { return ""; }
  absl::Status Run(const Task& task, RowRange rows, const CancelFlag* cancel) const override {
    return cpu_->Run(task, {rows.begin, rows.end - 1}, cancel);
  }

 private:
  const std::unique_ptr<Backend> cpu_ = *CreateBackend("cpu");
};

TEST(HostGatesTest, OtherBitsAreSeen) {
  const auto cpu = *CreateBackend("cpu");
  const AllButTheLast wrong;
  constexpr int64_t kToken = 8192, kBytes = 5 * kToken;
  std::vector<std::byte> data(kBytes, std::byte{0x3f});
  EXPECT_TRUE(RotatesAlike(*cpu, *cpu, data.data(), kBytes).ok());
  const absl::Status status = RotatesAlike(wrong, *cpu, data.data(), kBytes);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("at byte 3276"));  // behind four tokens
}

// Whatever fails, there is a row that says so, and everything has been given back (the driver's own test).
TEST(HostGatesTest, EveryCallToTheDriverMayFail) {
  const HostGateSizes tiny{.bytes = 1 << 16, .largest_of_few = 1 << 15, .rounds = 1};
  for (const auto gates : {&HostPathGate, &GroupFigures, &BreakEvenFigure}) {
    for (int n = 1; n < 400; n += n < 40 ? 1 : 17) {
      const auto driver = std::make_shared<FakeDriver>(FakeOptions{});
      driver->FailCall(n, absl::InternalError("fakeError"));
      const auto rows = gates(driver, tiny);
      ASSERT_FALSE(rows.empty());
      if (driver->calls() < n) break;
      EXPECT_TRUE(rows[0].error.empty() || !rows[0].holds());
    }
  }
  const auto driver = std::make_shared<FakeDriver>(FakeOptions{});
  driver->FailCall(1, absl::UnavailableError("no device"));
  const auto rows = HostPathGate(driver, tiny);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_THAT(rows[0].error, HasSubstr("no device"));
}

}  // namespace
}  // namespace phasor::cuda
