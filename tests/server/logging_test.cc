#include "server/logging.h"

#include <chrono>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace phasor::server {
namespace {

std::string Line(bool json, std::chrono::system_clock::time_point time, LogLevel level, std::string_view message,
                 std::initializer_list<LogField> fields) {
  return FormatLogLine(json, time, level, message, std::span<const LogField>(fields.begin(), fields.size()));
}

const auto kTime = std::chrono::system_clock::time_point(std::chrono::milliseconds(1700000000123));

TEST(FormatLogLineTest, TextIsOneLineOfWords) {
  EXPECT_EQ(Line(false, kTime, LogLevel::kInfo, "request",
                 {{"method", std::string_view("a.B/C")}, {"bytes", int64_t{4096}}, {"ok", true}, {"ratio", 0.5}}),
            "2023-11-14T22:13:20.123Z INFO request method=a.B/C bytes=4096 ok=true ratio=0.5");
}

TEST(FormatLogLineTest, TextQuotesWhatIsNoPlainWord) {
  EXPECT_EQ(Line(false, kTime, LogLevel::kError, "x",
                 {{"a", std::string_view("two words")}, {"b", std::string_view("")}, {"c", std::string_view("k=v\n")}}),
            "2023-11-14T22:13:20.123Z ERROR x a=\"two words\" b=\"\" c=\"k=v\\u000a\"");
}

TEST(FormatLogLineTest, Json) {
  EXPECT_EQ(
      Line(true, kTime, LogLevel::kWarning, "request",
           {{"text", std::string_view("say \"hi\" \\ \xC3\xA9")}, {"n", int64_t{-1}}, {"flag", false}}),
      "{\"ts\":\"2023-11-14T22:13:20.123Z\",\"severity\":\"WARNING\",\"msg\":\"request\",\"text\":\"say \\\"hi\\\" \\\\ "
      "\xC3\xA9\",\"n\":-1,\"flag\":false}");
}

TEST(FormatLogLineTest, HostileBytesNeverBreakTheLine) {
  // Control characters, a lone continuation byte, an overlong slash, a surrogate, a cut sequence.
  const std::string line =
      Line(true, kTime, LogLevel::kInfo, "x", {{"v", std::string_view("\x01\n\x80\xC0\xAF\xED\xA0\x80\xE2\x82", 10)}});
  EXPECT_THAT(line,
              ::testing::HasSubstr("\"v\":\"\\u0001\\u000a\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\""));
  EXPECT_EQ(line.find('\n'), std::string::npos);
}

TEST(FormatLogLineTest, JsonHasNoNan) {
  EXPECT_THAT(Line(true, kTime, LogLevel::kInfo, "x", {{"v", std::numeric_limits<double>::quiet_NaN()}}),
              ::testing::HasSubstr("\"v\":null"));
}

TEST(LoggerTest, LevelsAreRespected) {
  std::vector<std::string> lines;
  Logger logger({.json = false, .level = LogLevel::kWarning}, [&](std::string_view line) { lines.emplace_back(line); });
  logger.Event(LogLevel::kInfo, "quiet");
  logger.Event(LogLevel::kWarning, "loud");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], ::testing::EndsWith("WARNING loud"));
  EXPECT_FALSE(logger.enabled(LogLevel::kDebug));
}

TEST(LoggerTest, OffIsSilent) {
  int lines = 0;
  Logger logger({.json = false, .level = LogLevel::kOff}, [&](std::string_view) { ++lines; });
  logger.Event(LogLevel::kError, "nothing");
  EXPECT_EQ(lines, 0);
}

TEST(LoggerTest, QueuedLinesReachStandardErrorBeforeTheEnd) {
  ::testing::internal::CaptureStderr();
  {
    Logger logger({.json = true, .level = LogLevel::kInfo});
    for (int i = 0; i < 100; ++i) logger.Event(LogLevel::kInfo, "line", {{"i", int64_t{i}}});
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 100);
  EXPECT_THAT(text, ::testing::HasSubstr("\"i\":99}"));
}

}  // namespace
}  // namespace phasor::server
