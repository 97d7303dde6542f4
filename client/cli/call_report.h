// What calls for one result said, added up: printed under the result.
#ifndef PHASOR_CLIENT_CLI_CALL_REPORT_H_
#define PHASOR_CLIENT_CLI_CALL_REPORT_H_

#include <cstdint>
#include <map>
#include <string>

#include "phasor/v1/position_service.pb.h"

#include "client/cli/tool.h"

namespace phasor::cli {

class CallReport {
 public:
  // Adds a result; warnings are said once each.
  void Add(const v1::PrecomputeResult& result, const v1::StageTimes& call);
  void Add(const v1::ApplyResult& result, const v1::StageTimes& call);
  void Add(const v1::ScoresResult& result, const v1::StageTimes& call);

  // To standard error, or as a JSON object to standard output when the tool prints JSON.
  absl::Status Print(const Tool& tool, const std::string& what, const std::string& written_to, double seconds) const;

  std::string fingerprint;  // of the whole result, when one call gave it

 private:
  template <typename Result>
  void AddResult(const Result& result, const v1::StageTimes& call);

  std::string backend_;
  std::map<std::string, int> outcomes_;
  std::map<std::string, std::string> warnings_;  // by field: the last one of each
  int64_t calls_ = 0, bytes_ = 0;
  v1::StageTimes stages_;
  double attention_factor_ = 1;
  double softmax_scale_multiplier_ = 0;  // 0: none
};

// The error of an item, as a Status.
absl::Status ItemStatus(const google::rpc::Status& status);

}  // namespace phasor::cli

#endif  // PHASOR_CLIENT_CLI_CALL_REPORT_H_
