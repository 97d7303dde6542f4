#include "client/cli/load_report.h"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "client/cli/tool.h"

namespace phasor::cli {
namespace {

using Writer = rapidjson::Writer<rapidjson::StringBuffer>;

constexpr std::pair<const char*, int64_t> kQuantiles[] = {{"p50", 5000}, {"p90", 9000}, {"p99", 9900}, {"p99.9", 9990}};

std::string Time(int64_t ns) { return FormatNanoseconds(static_cast<double>(ns)); }

void WriteLatency(Writer& writer, const LatencyHistogram& latency) {
  writer.StartObject();
  for (const auto& [name, share] : kQuantiles) {
    writer.Key(name);
    writer.Int64(latency.Quantile(share));
  }
  writer.Key("max");
  writer.Int64(latency.max());
  writer.EndObject();
}

void WriteTally(Writer& writer, const std::string& name, const LoadTally& tally, double seconds) {
  writer.StartObject();
  writer.Key("name");
  writer.String(name.c_str());
  writer.Key("calls");
  writer.Int64(tally.calls);
  writer.Key("failed");
  writer.Int64(tally.failed());
  writer.Key("calls_per_second");
  writer.Double(static_cast<double>(tally.calls) / seconds);
  writer.Key("latency_ns");
  WriteLatency(writer, tally.latency);
  writer.Key("sent_bytes");
  writer.Int64(tally.sent_bytes);
  writer.Key("received_bytes");
  writer.Int64(tally.received_bytes);
  writer.Key("bytes_per_second");
  writer.Double(static_cast<double>(tally.sent_bytes + tally.received_bytes) / seconds);
  writer.Key("errors");
  writer.StartArray();
  for (const auto& [code, failure] : tally.failures) {
    writer.StartObject();
    writer.Key("code");
    writer.String(absl::StatusCodeToString(code).c_str());
    writer.Key("count");
    writer.Int64(failure.count);
    writer.Key("first_message");
    writer.String(failure.message.c_str());
    writer.EndObject();
  }
  writer.EndArray();
  writer.EndObject();
}

void AppendRow(const std::string& name, const LoadTally& tally, double seconds, std::string* text) {
  absl::StrAppendFormat(text, "%-13s %9d %10.1f", name, tally.calls, static_cast<double>(tally.calls) / seconds);
  for (const auto& [unused, share] : kQuantiles) absl::StrAppendFormat(text, " %9s", Time(tally.latency.Quantile(share)));
  absl::StrAppendFormat(text, " %9s %12s %12s %7d\n", Time(tally.latency.max()),
                        absl::StrCat(FormatBytes(static_cast<double>(tally.sent_bytes) / seconds), "/s"),
                        absl::StrCat(FormatBytes(static_cast<double>(tally.received_bytes) / seconds), "/s"),
                        tally.failed());
}

}  // namespace

std::string LoadReport::Text() const {
  const double seconds = std::max(result.seconds, 1e-9);
  std::string text = absl::StrCat(server, embedded ? " (a server in this process)" : "", ": ");
  if (mode == "rate") {
    absl::StrAppendFormat(&text, "%g calls/s due, at most %d in flight", rate, concurrency);
  } else if (mode == "idle") {
    absl::StrAppend(&text, "a call after each pause of ", Time(gap_ns));
  } else {
    absl::StrAppend(&text, concurrency, " calls in flight");
  }
  absl::StrAppendFormat(&text, ", %d connection%s, %.1f s\n\n", connections, connections == 1 ? "" : "s", seconds);
  absl::StrAppendFormat(&text, "%-13s %9s %10s", "", "calls", "calls/s");
  for (const auto& [name, unused] : kQuantiles) absl::StrAppendFormat(&text, " %9s", name);
  absl::StrAppendFormat(&text, " %9s %12s %12s %7s\n", "max", "sent", "received", "failed");
  for (size_t i = 0; i < names.size(); ++i) AppendRow(names[i], result.scenarios[i], seconds, &text);
  if (names.size() > 1) AppendRow("all", result.all, seconds, &text);
  for (const auto& [code, failure] : result.all.failures) {
    absl::StrAppend(&text, absl::StatusCodeToString(code), ": ", failure.count, ", the first one: ", failure.message, "\n");
  }
  absl::StrAppend(&text, "\nLatencies are of calls that succeeded, from when each was due; calls began ",
                  Time(result.behind.Quantile(9900)), " after that at p99, ", Time(result.behind.max()), " at most.\n");
  if (result.missed > 0) {
    absl::StrAppend(
        &text, result.missed,
        " calls were due and never begun: the rate is more than can be served, and the percentiles are too low.\n");
  }
  return text;
}

std::string LoadReport::Json() const {
  const double seconds = std::max(result.seconds, 1e-9);
  rapidjson::StringBuffer buffer;
  Writer writer(buffer);
  writer.StartObject();
  writer.Key("server");
  writer.String(server.c_str());
  writer.Key("embedded");
  writer.Bool(embedded);
  writer.Key("mode");
  writer.String(mode.c_str());
  writer.Key("rate");
  writer.Double(rate);
  writer.Key("idle_gap_ns");
  writer.Int64(gap_ns);
  writer.Key("concurrency");
  writer.Int64(concurrency);
  writer.Key("connections");
  writer.Int64(connections);
  writer.Key("seconds");
  writer.Double(seconds);
  writer.Key("missed");
  writer.Int64(result.missed);
  writer.Key("begun_after_due_ns");
  WriteLatency(writer, result.behind);
  writer.Key("all");
  WriteTally(writer, "all", result.all, seconds);
  writer.Key("scenarios");
  writer.StartArray();
  for (size_t i = 0; i < names.size(); ++i) WriteTally(writer, names[i], result.scenarios[i], seconds);
  writer.EndArray();
  writer.EndObject();
  return absl::StrCat(buffer.GetString(), "\n");
}

}  // namespace phasor::cli
