#include "server/options.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/limits.h"

namespace phasor::server {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ParsedOptions Parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "phasord");
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
  return ParseOptions(static_cast<int>(pointers.size()), pointers.data());
}

// Sets a variable for one test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

TEST(ParseSizeTest, Spellings) {
  EXPECT_EQ(*ParseSize("0"), 0);
  EXPECT_EQ(*ParseSize("4096"), 4096);
  EXPECT_EQ(*ParseSize("64KiB"), 65536);
  EXPECT_EQ(*ParseSize("1.5GiB"), 1610612736);
  EXPECT_EQ(*ParseSize("2 MiB"), 2097152);
  EXPECT_EQ(*ParseSize("1TiB"), int64_t{1} << 40);
  EXPECT_EQ(*ParseSize("9223372036854775807"), INT64_MAX);
  for (const char* bad : {"", "-1", "1MB", "KiB", "1.0001KiB", "nan", "inf", "1e30GiB", "0x10", "1KiBKiB"}) {
    EXPECT_FALSE(ParseSize(bad).ok()) << bad;
  }
}

TEST(ParseSizeTest, FormatIsExact) {
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{1023}, int64_t{1024}, int64_t{1536}, int64_t{1} << 30,
                              (int64_t{1} << 31) - (1 << 21), INT64_MAX}) {
    EXPECT_EQ(*ParseSize(FormatSize(bytes)), bytes);
  }
  EXPECT_EQ(FormatSize(int64_t{1} << 30), "1GiB");
}

TEST(ParseDurationTest, Spellings) {
  EXPECT_EQ(ParseDuration("0")->count(), 0);
  EXPECT_EQ(ParseDuration("5")->count(), 5000);
  EXPECT_EQ(ParseDuration("250ms")->count(), 250);
  EXPECT_EQ(ParseDuration("1.5m")->count(), 90000);
  EXPECT_EQ(ParseDuration("2h")->count(), 7200000);
  for (const char* bad : {"", "-1s", "s", "5d", "1e300h", "nan"}) EXPECT_FALSE(ParseDuration(bad).ok()) << bad;
}

TEST(ParseOptionsTest, DefaultsListenOnLoopbackOnly) {
  const ParsedOptions parsed = Parse({});
  ASSERT_TRUE(parsed.options) << parsed.text;
  EXPECT_THAT(parsed.options->server.listen, ElementsAre("127.0.0.1:50051"));
  EXPECT_TRUE(parsed.options->server.admin_listen.empty());
  EXPECT_EQ(parsed.options->server.metrics_listen, "127.0.0.1:9464");
  EXPECT_TRUE(parsed.options->server.metrics_fallback);
  EXPECT_EQ(parsed.options->drain_delay.count(), 5000);
}

TEST(ParseOptionsTest, FlagsSetWhatTheySay) {
  const ParsedOptions parsed =
      Parse({"--listen=127.0.0.1:0", "--listen", "127.0.0.1:1,127.0.0.1:2", "--admin-listen=unix:/tmp/a",
             "--metrics-listen=off", "--cache-bytes=2GiB", "--threads=3", "--backend=reference", "--drain-delay=250ms",
             "--log-format=json", "--log-level=warning", "--warm={\"rope\":{\"head_dim\":64}}", "--channelz"});
  ASSERT_TRUE(parsed.options) << parsed.text;
  const PhasordOptions& options = *parsed.options;
  EXPECT_THAT(options.server.listen, ElementsAre("127.0.0.1:0", "127.0.0.1:1", "127.0.0.1:2"));
  EXPECT_THAT(options.server.admin_listen, ElementsAre("unix:/tmp/a"));
  EXPECT_EQ(options.server.metrics_listen, "");
  EXPECT_FALSE(options.server.metrics_fallback);
  EXPECT_EQ(options.server.cache_bytes, int64_t{2} << 30);
  EXPECT_EQ(options.server.worker_threads, 3);
  EXPECT_EQ(options.server.backend, "reference");
  EXPECT_EQ(options.drain_delay.count(), 250);
  EXPECT_TRUE(options.log.json);
  EXPECT_EQ(options.log.level, LogLevel::kWarning);
  EXPECT_THAT(options.server.warm, ElementsAre("{\"rope\":{\"head_dim\":64}}"));
  EXPECT_TRUE(options.server.channelz);
  EXPECT_THAT(options.effective, Contains(std::pair<std::string, std::string>("cache-bytes", "2GiB")));
}

TEST(ParseOptionsTest, MemoryIsSharedOnlyWhenAFlagSaysSo) {
  EXPECT_EQ(Parse({}).options->server.regions.total_bytes, 0);
  const ParsedOptions parsed = Parse({"--shared-memory-bytes=2GiB", "--shared-memory-peer-bytes=64MiB",
                                      "--shared-memory-regions=9", "--shared-memory-lease=1.5m"});
  ASSERT_TRUE(parsed.options) << parsed.text;
  const RegionOptions& regions = parsed.options->server.regions;
  EXPECT_EQ(regions.total_bytes, int64_t{2} << 30);
  EXPECT_EQ(regions.peer_bytes, int64_t{64} << 20);
  EXPECT_EQ(regions.max_regions, 9);
  EXPECT_EQ(regions.lease, std::chrono::milliseconds(90000));
}

TEST(ParseOptionsTest, SharedMemoryThatNobodyCouldGetIsRefused) {
  const auto refusal = [](const std::vector<std::string>& flags) {
    const ParsedOptions parsed = Parse(flags);
    EXPECT_EQ(parsed.options.has_value(), parsed.exit_code == 0);
    EXPECT_EQ(parsed.exit_code, parsed.text.empty() ? 0 : 2);
    return parsed.text;
  };
  EXPECT_THAT(refusal({"--shared-memory-bytes=1GiB", "--shared-memory-regions=0"}),
              HasSubstr("phasord: --shared-memory-regions: given \"0\"; allowed: 1 to 65536"));
  for (const char* peer : {"0", "1025MiB"}) {
    EXPECT_THAT(refusal({"--shared-memory-bytes=1GiB", std::string("--shared-memory-peer-bytes=") + peer}),
                HasSubstr(std::string("--shared-memory-peer-bytes: given \"") + peer + "\"; allowed: 1 to 1GiB"));
  }
  {
    const Variable peer("PHASOR_SHARED_MEMORY_PEER_BYTES", "2GiB");
    EXPECT_THAT(refusal({"--shared-memory-bytes=1GiB"}), HasSubstr("--shared-memory-peer-bytes: given \"2GiB\""));
  }
  // Where no memory is shared they mean nothing, and the quota that nobody gave may be above the total.
  EXPECT_EQ(refusal({"--shared-memory-regions=0", "--shared-memory-peer-bytes=2GiB"}), "");
  EXPECT_EQ(refusal({"--shared-memory-bytes=64MiB"}), "");
  EXPECT_EQ(refusal({"--shared-memory-bytes=64MiB", "--shared-memory-peer-bytes=64MiB"}), "");
}

TEST(ParseOptionsTest, WrongValuesExitTwoAndSayWhatIsAllowed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--cache-bytes=1GB", "KiB, MiB, GiB"},
      {"--threads=-1", "0 to 1024"},
      {"--threads=x", "0 to 1024"},
      {"--backend=tpu", "auto, "},
      {"--log-format=xml", "text, json"},
      {"--log-level=loud", "debug, info"},
      {"--drain-delay=soon", "250ms"},
      {"--max-queue=0", "1 to "},
      {"--max-batch-items=1e3", "1 to "},
      {"--max-request-bytes=100GiB", " to "},
      {"--cpu-target=mmx", "auto, "},
      {"--no-such-flag", "--no-such-flag"},
      {"--rpc-threads=65", "0 to 64"},
      {"--cuda-devices=0,x", "0,2"},
      {"--cuda-devices=-1", "all, or"},
      {"--cuda-out-of-memory=wait", "cpu, refuse"},
      {"--cuda-min-bytes=1MB", "KiB, MiB"},
      {"--cuda-ipc-handles=-1", "0 to 4096"},
      {"--cuda-ipc-lease=soon", "250ms"},
      {"--cuda-ipc-lease=9ms", "at least 10ms"},
      {"--shared-memory-lease=0", "at least 10ms"},
      {"--stream-pause=0", "at least 10ms"},
  };
  for (const auto& [flag, allowed] : cases) {
    const ParsedOptions parsed = Parse({flag});
    EXPECT_FALSE(parsed.options) << flag;
    EXPECT_EQ(parsed.exit_code, 2) << flag;
    EXPECT_THAT(parsed.text, AllOf(HasSubstr("phasord: "), HasSubstr(allowed))) << flag;
    EXPECT_THAT(parsed.text, HasSubstr(flag.substr(0, flag.find('=')))) << flag;
  }
}

TEST(ParseOptionsTest, Devices) {
  const ParsedOptions parsed =
      Parse({"--cuda-devices=2,0", "--cuda-bytes=3GiB", "--cuda-min-bytes=64KiB", "--cuda-out-of-memory=refuse"});
  ASSERT_TRUE(parsed.options) << parsed.text;
  const BackendOptions& devices = parsed.options->server.devices;
  EXPECT_EQ(devices.devices, (std::vector<int>{2, 0}));
  EXPECT_EQ(devices.device_bytes, int64_t{3} << 30);
  EXPECT_EQ(devices.min_device_bytes, 64 << 10);
  EXPECT_FALSE(devices.cpu_when_out_of_memory);
  EXPECT_TRUE(Parse({"--cuda-devices=all"}).options->server.devices.devices.empty());
  EXPECT_EQ(parsed.options->server.device_memory.max_handles, 0);
  const ParsedOptions shared = Parse({"--cuda-ipc-handles=64", "--cuda-ipc-peer-handles=16", "--cuda-ipc-lease=250ms"});
  ASSERT_TRUE(shared.options) << shared.text;
  EXPECT_EQ(shared.options->server.device_memory.max_handles, 64);
  EXPECT_EQ(shared.options->server.device_memory.peer_handles, 16);
  EXPECT_THAT(Parse({"--cuda-ipc-peer-handles=5000"}).text, HasSubstr("0 to 4096"));
  EXPECT_EQ(shared.options->server.device_memory.lease, std::chrono::milliseconds(250));
}

TEST(ParseOptionsTest, VariablesCountAndFlagsWin) {
  const Variable listen("PHASOR_LISTEN", "127.0.0.1:7,127.0.0.1:8");
  const Variable queue("PHASOR_MAX_QUEUE", "77");
  const Variable heads("PHASOR_MAX_HEADS", "12");
  const Variable channelz("PHASOR_CHANNELZ", "true");
  const ParsedOptions parsed = Parse({"--max-heads=13"});
  ASSERT_TRUE(parsed.options) << parsed.text;
  EXPECT_THAT(parsed.options->server.listen, ElementsAre("127.0.0.1:7", "127.0.0.1:8"));
  EXPECT_EQ(parsed.options->server.limits.max_queue, 77);
  EXPECT_EQ(parsed.options->server.limits.max_heads, 13);
  EXPECT_TRUE(parsed.options->server.channelz);
}

TEST(ParseOptionsTest, WrongVariableExitsTwo) {
  const Variable queue("PHASOR_MAX_QUEUE", "many");
  const ParsedOptions parsed = Parse({});
  EXPECT_FALSE(parsed.options);
  EXPECT_EQ(parsed.exit_code, 2);
  EXPECT_THAT(parsed.text, AllOf(HasSubstr("--max-queue"), HasSubstr("many")));
}

TEST(ParseOptionsTest, MisspeltVariablesAreReported) {
  const Variable typo("PHASOR_LISTN", "127.0.0.1:7");
  const Variable kubernetes("PHASOR_SERVICE_HOST", "10.0.0.1");
  const ParsedOptions parsed = Parse({});
  ASSERT_TRUE(parsed.options);
  EXPECT_THAT(parsed.options->unknown_variables, Contains("PHASOR_LISTN"));
  EXPECT_THAT(parsed.options->unknown_variables, ::testing::Not(Contains("PHASOR_SERVICE_HOST")));
}

TEST(ParseOptionsTest, EveryLimitIsAFlagAndAVariable) {
  for (const LimitRow& row : LimitRows()) {
    const std::string name(row.name);
    const std::string flag = absl::StrCat("--", absl::StrReplaceAll(name, {{"_", "-"}}));
    const int64_t value = row.lowest + 1;
    ParsedOptions parsed = Parse({absl::StrCat(flag, "=", value)});
    ASSERT_TRUE(parsed.options) << flag << ": " << parsed.text;
    EXPECT_EQ(parsed.options->server.limits.*row.field, value) << flag;
    const std::string variable_name = absl::StrCat("PHASOR_", absl::AsciiStrToUpper(name));
    const Variable variable(variable_name.c_str(), absl::StrCat(value).c_str());
    parsed = Parse({});
    ASSERT_TRUE(parsed.options) << variable_name;
    EXPECT_EQ(parsed.options->server.limits.*row.field, value) << variable_name;
  }
}

TEST(ParseOptionsTest, HelpAndVersion) {
  const ParsedOptions help = Parse({"--help"});
  EXPECT_FALSE(help.options);
  EXPECT_EQ(help.exit_code, 0);
  for (const char* text : {"Listeners", "Limits", "--listen", "PHASOR_MAX_QUEUE", "Examples:", "SIGTERM"}) {
    EXPECT_THAT(help.text, HasSubstr(text));
  }
  const ParsedOptions version = Parse({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.text, HasSubstr("phasord 0."));
}

TEST(CheckOptionsTest, AddressesAndWarmList) {
  ServerOptions options;
  EXPECT_TRUE(CheckOptions(options).ok());
  options.listen = {"localhost"};
  EXPECT_THAT(std::string(CheckOptions(options).message()), AllOf(HasSubstr("--listen"), HasSubstr("HOST:PORT")));
  options.listen = {"127.0.0.1:65536"};
  EXPECT_FALSE(CheckOptions(options).ok());
  options.listen = {"[::1]:0"};
  EXPECT_TRUE(CheckOptions(options).ok());
  for (const char* again : {"unix:x.sock", "unix:./x.sock"}) {
    options.listen = {"unix:x.sock", again};
    EXPECT_THAT(std::string(CheckOptions(options).message()), AllOf(HasSubstr(again), HasSubstr("every path once")));
  }
  options.listen = {"unix:x.sock", "unix:y.sock"};
  EXPECT_TRUE(CheckOptions(options).ok()) << CheckOptions(options);
  options.listen = {"[::1]:0"};
  options.admin_listen = {"0.0.0.0:50052"};
  EXPECT_THAT(std::string(CheckOptions(options).message()), AllOf(HasSubstr("--admin-listen"), HasSubstr("loopback")));
  options.admin_listen = {"unix:/tmp/x"};
  EXPECT_TRUE(CheckOptions(options).ok());
  options.warm = {"/no/such/config.json"};
  EXPECT_THAT(std::string(CheckOptions(options).message()), HasSubstr("/no/such/config.json"));
  options.warm.clear();
  options.backend = "tpu";
  EXPECT_THAT(std::string(CheckOptions(options).message()), HasSubstr("--backend"));
}

}  // namespace
}  // namespace phasor::server
