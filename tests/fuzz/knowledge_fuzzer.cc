// Knowledge calls on any bytes: an answer that can be sent, or an error that blames the request.
// Input: one byte that chooses the method, then the message's bytes.
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

}  // namespace
}  // namespace phasor::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace phasor::server;
  static google::protobuf::LogSilencer silencer;
  if (size == 0 || size > (size_t{1} << 20)) return 0;
  switch (data[0] % 5) {
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
    default:
      Answer(&Plot, data + 1, size - 1);
  }
  return 0;
}
