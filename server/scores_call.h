// Scores: attention scores of small tensors.
#ifndef PHASOR_SERVER_SCORES_CALL_H_
#define PHASOR_SERVER_SCORES_CALL_H_

#include <memory>

#include "server/call.h"
#include "server/request.h"

namespace phasor::server {

class ScoresCall final : public Call<ScoresResult> {
 public:
  ScoresCall(EngineCore* core, std::shared_ptr<CallContext> context, ValidatedScores request, Done<ScoresResult> done);

 protected:
  bool TryNow(size_t i) override;
  void Prepare(size_t i, int64_t queue_ns) override;
  void DropRequest() override { request_.items().clear(); }

 private:
  const ScoresItem& item(size_t i) const { return *request_.items()[i]; }
  void Describe(size_t i);

  ValidatedScores request_;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_SCORES_CALL_H_
