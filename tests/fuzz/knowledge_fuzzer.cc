// Knowledge calls on any bytes: an answer that can be sent, or an error that blames the request.
// Input: one byte that chooses the method, then the message's bytes.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "google/protobuf/stubs/logging.h"

#include "kernels/cpu/cpu_backend.h"
#include "server/grpc_status.h"
#include "server/knowledge/calls.h"
#include "tests/server/status_details.h"

namespace phasor::server {
namespace {

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

void CheckError(const absl::Status& status) {
  Require(status.code() == absl::StatusCode::kInvalidArgument || status.code() == absl::StatusCode::kUnimplemented,
          "only the request is to blame");
  const google::rpc::Status rpc = ToRpcStatus(status);
  google::rpc::Status parsed;
  Require(DetailsOf<google::rpc::ErrorInfo>(rpc).size() == 1, "one ErrorInfo");
  Require(parsed.ParseFromString(rpc.SerializeAsString()), "valid UTF-8");
  Require(rpc.ByteSizeLong() < 6144, "it fits in the trailers");
}

template <typename Request, typename Response>
void Answer(absl::StatusOr<Response> (*call)(const KnowledgeContext&, const Request&), const uint8_t* data, size_t size) {
  Request request;
  if (!request.ParseFromArray(data, static_cast<int>(size))) return;
  static const Backend* const backend = MakeCpuBackend().release();
  static const Limits limits;
  const auto response = call({*backend, nullptr, limits}, request);
  if (!response.ok()) return CheckError(response.status());
  Response parsed;
  Require(parsed.ParseFromString(response->SerializeAsString()), "valid UTF-8");
}

void Diagnosed(const uint8_t* data, size_t size) {
  v1::DiagnoseRequest request;
  if (!request.ParseFromArray(data, static_cast<int>(size))) return;
  static const Backend* const backend = MakeCpuBackend().release();
  static const Limits limits;
  const auto response = Diagnose({*backend, nullptr, limits}, request);
  if (!response.ok()) return CheckError(response.status());
  Require(!response->verdict().empty() || request.has_symptom(), "a verdict");
  Require(response->hypotheses_size() <= 20, "no more hypotheses than may be asked for");
  for (const v1::Hypothesis& hypothesis : response->hypotheses()) {
    Require(hypothesis.confidence() >= 0 && hypothesis.confidence() <= 1, "a confidence between 0 and 1");
    Require(!hypothesis.reproduces() || hypothesis.max_ulps() <= 1, "what reproduces is within an ulp");
    Require(hypothesis.spec().scheme_case() != v1::EncodingSpec::SCHEME_NOT_SET, "a spec");
  }
  for (const v1::Fault& fault : response->faults()) {
    Require(!fault.name().empty() && !fault.cause().empty() && !fault.fix().empty(), "a whole fault");
  }
}

// Of requests that are read, small tables are fitted, for a few steps.
void Fitted(const uint8_t* data, size_t size) {
  v1::DistillRequest request;
  if (!request.ParseFromArray(data, static_cast<int>(size))) return;
  static const Backend* const backend = MakeCpuBackend().release();
  static const Limits limits;
  const KnowledgeContext context{*backend, nullptr, limits};
  auto job = PrepareDistill(context, request);
  if (!job.ok()) return CheckError(job.status());
  const Grid& values = job->samples.values;
  Require(values.rows >= 2 && values.rows * values.columns <= kMaxDistillNumbers, "a table within the limits");
  Require(PerceptronWork(values.rows, values.columns, job->options.hidden, job->options.steps) <=
                  static_cast<double>(kMaxDistillWork) ||
              job->forms[0] != DistillForm::kPerceptron,
          "work within the limits");
  if (values.rows * values.columns > 4096) return;
  job->options.steps = std::min<int64_t>(job->options.steps, 3);
  job->options.hidden = std::min<int64_t>(job->options.hidden, 8);
  job->options.terms = std::min<int64_t>(job->options.terms, 64);
  for (const DistillForm form : job->forms) {
    const auto fitted = FitForm(context, *job, form, [](const DistillProgress&) {});
    Require(fitted.ok(), "a fit of finite numbers");
    Require(std::isfinite(fitted->max_error()) && fitted->max_error() >= fitted->rms_error() * 0.999, "errors that can be");
    v1::DistilledFunction parsed;
    Require(parsed.ParseFromString(fitted->SerializeAsString()), "valid UTF-8");
  }
}

}  // namespace
}  // namespace phasor::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace phasor::server;
  static google::protobuf::LogSilencer silencer;
  if (size == 0 || size > (size_t{1} << 20)) return 0;
  switch (data[0] % 6) {
    case 0:
      Answer(&CompareSpecs, data + 1, size - 1);
      break;
    case 1:
      Diagnosed(data + 1, size - 1);
      break;
    case 2:
      Answer(&Recommend, data + 1, size - 1);
      break;
    case 3:
      Answer(&PlanMemory, data + 1, size - 1);
      break;
    case 4:
      Answer(&Plot, data + 1, size - 1);
      break;
    default:
      Fitted(data + 1, size - 1);
  }
  return 0;
}
