#include "client/cli/load_scenarios.h"

#include <memory>
#include <utility>

#include "client/cli/call_report.h"

namespace phasor::cli {
namespace {

using Call = std::function<CallOutcome(client::Client&)>;

constexpr int64_t kKiB = 1 << 10, kMiB = 1 << 20;
constexpr int64_t kHeads = 8, kDim = 128, kTokenBytes = kHeads * kDim * 4;

// Llama 3.1's rotation: the spec of every scenario but the batch.
void FillLlama(v1::EncodingSpec* spec) {
  v1::RopeSpec* rope = spec->mutable_rope();
  rope->set_head_dim(kDim);
  rope->set_base(500000);
  rope->mutable_llama3()->set_factor(8);
  rope->mutable_llama3()->set_low_freq_factor(1);
  rope->mutable_llama3()->set_high_freq_factor(4);
  rope->mutable_llama3()->set_original_max_position(8192);
}

void FillTable(v1::PrecomputeItem* item, int64_t start, int64_t rows) {
  v1::PositionRange* range = item->mutable_table()->mutable_positions()->mutable_range();
  range->set_start(start);
  range->set_count(rows);
}

template <typename Message>
absl::Status FirstFailure(const Message& response) {
  for (const auto& result : response.results()) {
    if (absl::Status status = ItemStatus(result.status()); !status.ok()) return status;
  }
  return absl::OkStatus();
}

Call Precompute(v1::PrecomputeRequest request) {
  return [request = std::make_shared<const v1::PrecomputeRequest>(std::move(request))](client::Client& client) {
    const auto reply = client.Precompute(*request);
    if (!reply.ok()) return CallOutcome{reply.status()};
    return CallOutcome{FirstFailure(reply->message), 0, reply->payloads.total_bytes()};
  };
}

// The rows that a decoding step asks for.
Call Table() {
  v1::PrecomputeRequest request;
  FillLlama(request.add_items()->mutable_spec());
  FillTable(request.mutable_items(0), 4096, 16);
  return Precompute(std::move(request));
}

// Four rounds of eight kinds; each round asks for other rows.
Call Batch() {
  v1::PrecomputeRequest request;
  for (int64_t turn = 0; turn < 4; ++turn) {
    const auto table = [&](int64_t rows, v1::Dtype dtype = v1::DTYPE_F32) {
      v1::PrecomputeItem* item = request.add_items();
      item->set_dtype(dtype);
      FillTable(item, 1000 * turn, rows);
      return item;
    };
    const auto rope = [&](v1::PrecomputeItem* item) {
      item->mutable_spec()->mutable_rope()->set_head_dim(kDim);
      return item->mutable_spec()->mutable_rope();
    };
    FillLlama(table(4)->mutable_spec());
    v1::RopeSpec* yarn = rope(table(4, v1::DTYPE_BF16));
    yarn->mutable_yarn()->set_factor(4);
    yarn->mutable_yarn()->set_original_max_position(32768);
    rope(table(8, v1::DTYPE_F16));
    v1::RopeSpec* partial = rope(table(8));
    partial->set_rotary_dim(32);
    partial->set_pairing(v1::PAIRING_INTERLEAVED);
    v1::PrecomputeItem* compat = table(4);
    compat->set_precision(v1::PRECISION_COMPAT_F32);
    rope(compat)->mutable_linear()->set_factor(4);
    v1::PrecomputeItem* dynamic = table(4);
    dynamic->set_sequence_length(8192);
    rope(dynamic)->mutable_dynamic_ntk()->set_factor(2);
    dynamic->mutable_spec()->mutable_rope()->mutable_dynamic_ntk()->set_max_position(4096);
    v1::SinusoidalSpec* sinusoidal = table(2)->mutable_spec()->mutable_sinusoidal();
    sinusoidal->set_dim(512);
    sinusoidal->set_layout(v1::SINUSOIDAL_LAYOUT_CONCATENATED);
    v1::PrecomputeItem* bias = request.add_items();
    bias->mutable_spec()->mutable_alibi()->set_num_heads(32);
    bias->mutable_bias()->set_queries(1 + turn);
    bias->mutable_bias()->set_keys(64);
  }
  return Precompute(std::move(request));
}

// Values between 1 and 2, not all equal.
std::shared_ptr<const std::vector<float>> Numbers(int64_t bytes) {
  auto numbers = std::make_shared<std::vector<float>>(static_cast<size_t>(bytes / 4));
  for (size_t i = 0; i < numbers->size(); ++i) (*numbers)[i] = 1 + static_cast<float>(i * 37 % 128) / 128;
  return numbers;
}

v1::ApplyItem ItemOf(int64_t bytes) {
  v1::ApplyItem item;
  FillLlama(item.mutable_spec());
  item.mutable_positions()->mutable_range()->set_start(70000);
  v1::Tensor* tensor = item.add_tensors();
  tensor->set_dtype(v1::DTYPE_F32);
  for (const int64_t extent : {int64_t{1}, bytes / kTokenBytes, kHeads, kDim}) tensor->add_shape(extent);
  return item;
}

raw::Piece PieceOf(const std::shared_ptr<const std::vector<float>>& numbers) {
  return {numbers, reinterpret_cast<const std::byte*>(numbers->data()), numbers->size() * sizeof(float)};
}

Call Apply(int64_t bytes) {
  struct Request {
    v1::ApplyRequest message;
    raw::Payloads payloads;
  };
  auto request = std::make_shared<Request>();
  *request->message.add_items() = ItemOf(bytes);
  const raw::Piece piece = PieceOf(Numbers(bytes));
  request->message.mutable_items(0)->mutable_tensors(0)->set_data(request->payloads.Add({&piece, 1}));
  return [request, bytes](client::Client& client) {
    const auto reply = client.Apply(request->message, request->payloads);
    if (!reply.ok()) return CallOutcome{reply.status()};
    return CallOutcome{FirstFailure(reply->message), bytes, reply->payloads.total_bytes()};
  };
}

Call StreamTable(int64_t rows) {
  v1::StreamPrecomputeRequest message;
  FillLlama(message.add_items()->mutable_spec());
  FillTable(message.mutable_items(0), 0, rows);
  return [request = std::make_shared<const v1::StreamPrecomputeRequest>(std::move(message))](client::Client& client) {
    CallOutcome outcome;
    absl::Status item;
    outcome.status =
        client.StreamPrecompute(*request, {}, [&](const v1::StreamPrecomputeResponse& part, const raw::Payloads& payloads) {
          outcome.received_bytes += payloads.total_bytes();
          if (item.ok()) item = ItemStatus(part.has_header() ? part.header().result().status() : part.end().status());
          return absl::OkStatus();
        });
    if (outcome.status.ok()) outcome.status = item;
    return outcome;
  };
}

Call StreamApply(int64_t bytes) {
  const auto item = std::make_shared<const v1::ApplyItem>(ItemOf(bytes));
  const raw::Piece piece = PieceOf(Numbers(bytes));
  return [item, piece, bytes](client::Client& client) {
    CallOutcome outcome{absl::OkStatus(), bytes};
    absl::Status failure;
    outcome.status =
        client.StreamApply(*item, {}, {&piece, 1}, [&](const v1::StreamApplyResponse& part, const raw::Payloads& payloads) {
          outcome.received_bytes += payloads.total_bytes();
          if (failure.ok()) failure = ItemStatus(part.has_header() ? part.header().status() : part.end().status());
          return absl::OkStatus();
        });
    if (outcome.status.ok()) outcome.status = failure;
    return outcome;
  };
}

}  // namespace

const std::vector<LoadScenario>& LoadScenarios() {
  static const auto* scenarios = new std::vector<LoadScenario>{
      {"table", "16 rows of a cached table, 8 KiB, as a decoding step asks for them", Table},
      {"batch", "32 items of mixed schemes, precisions, types and windows in one call", Batch},
      {"apply-64k", "rotate 64 KiB in one call", [] { return Apply(64 * kKiB); }},
      {"apply-1m", "rotate 1 MiB in one call", [] { return Apply(kMiB); }},
      {"apply-16m", "rotate 16 MiB in one call", [] { return Apply(16 * kMiB); }},
      {"stream-table", "a table of 16 MiB in chunks", [] { return StreamTable(32768); }},
      {"stream-apply", "rotate 16 MiB in chunks, both ways at once", [] { return StreamApply(16 * kMiB); }},
  };
  return *scenarios;
}

std::vector<std::string> LoadScenarioNames() {
  std::vector<std::string> names;
  for (const LoadScenario& scenario : LoadScenarios()) names.push_back(scenario.name);
  return names;
}

}  // namespace phasor::cli
