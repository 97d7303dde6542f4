#include "client/cli/call_report.h"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace phasor::cli {
namespace {

std::string OutcomeName(v1::CacheOutcome outcome) {
  constexpr size_t kPrefix = sizeof("CACHE_OUTCOME_") - 1;
  const std::string& name = v1::CacheOutcome_Name(outcome);
  return outcome == v1::CACHE_OUTCOME_UNSPECIFIED || name.size() <= kPrefix ? "none"
                                                                            : absl::AsciiStrToLower(name.substr(kPrefix));
}

void AddStages(const v1::StageTimes& more, v1::StageTimes& sum) {
  sum.set_decode_ns(sum.decode_ns() + more.decode_ns());
  sum.set_queue_ns(sum.queue_ns() + more.queue_ns());
  sum.set_build_ns(sum.build_ns() + more.build_ns());
  sum.set_copy_ns(sum.copy_ns() + more.copy_ns());
}

}  // namespace

absl::Status ItemStatus(const google::rpc::Status& status) {
  absl::Status result(static_cast<absl::StatusCode>(status.code()), status.message());
  if (!result.ok()) result.SetPayload(client::kDetailsPayload, absl::Cord(status.SerializeAsString()));
  return result;
}

template <typename Result>
void CallReport::AddResult(const Result& result, const v1::StageTimes& call) {
  backend_ = result.backend();
  ++outcomes_[OutcomeName(result.cache())];
  for (const v1::Warning& warning : result.warnings()) warnings_[warning.field()] = warning.message();
  ++calls_;
  bytes_ += result.payload_bytes();
  AddStages(call, stages_);
  if (result.has_softmax_scale_multiplier()) softmax_scale_multiplier_ = result.softmax_scale_multiplier();
  if (calls_ == 1) fingerprint = result.fingerprint();
}

void CallReport::Add(const v1::PrecomputeResult& result, const v1::StageTimes& call) {
  AddResult(result, call);
  attention_factor_ = result.attention_factor();
}

void CallReport::Add(const v1::ApplyResult& result, const v1::StageTimes& call) { AddResult(result, call); }

void CallReport::Add(const v1::ScoresResult& result, const v1::StageTimes& call) {
  backend_ = result.backend();
  ++outcomes_[OutcomeName(v1::CACHE_OUTCOME_UNSPECIFIED)];
  for (const v1::Warning& warning : result.warnings()) warnings_[warning.field()] = warning.message();
  ++calls_;
  bytes_ += result.payload_bytes();
  AddStages(call, stages_);
}

absl::Status CallReport::Print(const Tool& tool, const std::string& what, const std::string& written_to,
                               double seconds) const {
  if (tool.json) {
    rapidjson::StringBuffer buffer;
    rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
    const auto key = [&](const char* name) { writer.Key(name); };
    writer.StartObject();
    key("what"), writer.String(what.c_str());
    key("file"), writer.String(written_to.c_str());
    key("seconds"), writer.Double(seconds);
    key("payload_bytes"), writer.Int64(bytes_);
    key("calls"), writer.Int64(calls_);
    key("backend"), writer.String(backend_.c_str());
    key("cache"), writer.StartObject();
    for (const auto& [name, count] : outcomes_) key(name.c_str()), writer.Int(count);
    writer.EndObject();
    key("decode_ns"), writer.Int64(stages_.decode_ns());
    key("queue_ns"), writer.Int64(stages_.queue_ns());
    key("build_ns"), writer.Int64(stages_.build_ns());
    key("copy_ns"), writer.Int64(stages_.copy_ns());
    key("attention_factor"), writer.Double(attention_factor_);
    if (softmax_scale_multiplier_ != 0) key("softmax_scale_multiplier"), writer.Double(softmax_scale_multiplier_);
    key("fingerprint"), writer.String(FormatHex(fingerprint).c_str());
    key("warnings"), writer.StartArray();
    for (const auto& [field, message] : warnings_) writer.String(absl::StrCat(field, ": ", message).c_str());
    writer.EndArray();
    writer.EndObject();
    return tool.Print(absl::StrCat(buffer.GetString(), "\n"));
  }
  std::vector<std::string> outcomes;
  for (const auto& [name, count] : outcomes_) outcomes.push_back(calls_ == 1 ? name : absl::StrCat(name, " ", count));
  for (const auto& [field, message] : warnings_) tool.Say(absl::StrCat("warning: ", field, ": ", message));
  tool.Say(absl::StrFormat("%s: %s in %s, %d call%s, backend %s, cache: %s", what, FormatBytes(static_cast<double>(bytes_)),
                           FormatNanoseconds(seconds * 1e9), calls_, calls_ == 1 ? "" : "s", backend_,
                           absl::StrJoin(outcomes, ", ")));
  tool.Say(absl::StrFormat(
      "  stages: decode %s, queue %s, build %s, copy %s", FormatNanoseconds(static_cast<double>(stages_.decode_ns())),
      FormatNanoseconds(static_cast<double>(stages_.queue_ns())), FormatNanoseconds(static_cast<double>(stages_.build_ns())),
      FormatNanoseconds(static_cast<double>(stages_.copy_ns()))));
  if (softmax_scale_multiplier_ != 0) {
    tool.Say(absl::StrFormat("  the softmax scale must be multiplied by %.17g", softmax_scale_multiplier_));
  }
  if (!fingerprint.empty()) tool.Say(absl::StrCat("  fingerprint ", FormatHex(fingerprint)));
  if (!written_to.empty() && written_to != "-") tool.Say(absl::StrCat("  wrote ", written_to));
  return absl::OkStatus();
}

}  // namespace phasor::cli
