// What CatalogService's knowledge methods answer. Thread-safe; they run on a thread that nothing else waits for.
#ifndef PHASOR_SERVER_KNOWLEDGE_CALLS_H_
#define PHASOR_SERVER_KNOWLEDGE_CALLS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "phasor/v1/compare.pb.h"
#include "phasor/v1/diagnose.pb.h"
#include "phasor/v1/distill.pb.h"
#include "phasor/v1/plot.pb.h"
#include "phasor/v1/recommend.pb.h"

#include "kernels/backend.h"
#include "server/knowledge/distill.h"
#include "server/limits.h"

namespace phasor::server {

struct KnowledgeContext {
  const Backend& backend;    // of the CPU
  const CancelFlag* cancel;  // looked at between pieces of work; may be null
  const Limits& limits;
};

// Errors of all: INVALID_ARGUMENT with the field's path; CANCELLED.
absl::StatusOr<v1::CompareSpecsResponse> CompareSpecs(const KnowledgeContext& context,
                                                      const v1::CompareSpecsRequest& request);
absl::StatusOr<v1::DiagnoseResponse> Diagnose(const KnowledgeContext& context, const v1::DiagnoseRequest& request);
absl::StatusOr<v1::RecommendResponse> Recommend(const KnowledgeContext& context, const v1::RecommendRequest& request);
absl::StatusOr<v1::PlanMemoryResponse> PlanMemory(const KnowledgeContext& context, const v1::PlanMemoryRequest& request);
absl::StatusOr<v1::PlotResponse> Plot(const KnowledgeContext& context, const v1::PlotRequest& request);

// Distill in two parts: reading a request takes milliseconds, fitting up to a minute, on another thread.
struct DistillJob {
  Side side;
  DistillSamples samples;
  DistillOptions options;
  std::vector<DistillForm> forms;
  int64_t bytes = 0;  // of memory while one is fitted
};
absl::StatusOr<DistillJob> PrepareDistill(const KnowledgeContext& context, const v1::DistillRequest& request);
absl::StatusOr<v1::DistilledFunction> FitForm(const KnowledgeContext& context, const DistillJob& job, DistillForm form,
                                              DistillListener listener);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_CALLS_H_
