#include "server/knowledge/scheme_card.h"

#include <string>

#include "absl/strings/str_join.h"
#include "google/protobuf/util/json_util.h"

#include "kernels/encodings/cards/card_details.h"
#include "kernels/encodings/cards/card_snippets.h"
#include "server/grpc_status.h"
#include "server/knowledge/scheme_costs.h"
#include "server/knowledge/wire_side.h"
#include "server/text.h"

namespace phasor::server {
namespace {

constexpr int64_t kMaxPositions = int64_t{1} << 31;
constexpr int64_t kMaxWidth = 65536;

// 0 means the default.
absl::StatusOr<CardSize> SizeOf(const v1::GetSchemeRequest& request) {
  CardSize size;
  if (request.positions() != 0) size.positions = request.positions();
  if (request.width() != 0) size.width = request.width();
  if (request.heads() != 0) size.heads = request.heads();
  absl::Status status = CheckRange("positions", size.positions, 1, kMaxPositions);
  if (status.ok()) status = CheckRange("width", size.width, 1, kMaxWidth);
  if (status.ok()) status = CheckRange("heads", size.heads, 1, kMaxHeads);
  if (!status.ok()) return status;
  return size;
}

void AddCard(const Card& card, v1::GetSchemeResponse* out) {
  out->set_formula(std::string(card.formula));
  for (const ParameterCard& parameter : card.parameters) {
    v1::ParameterCard* added = out->add_parameters();
    added->set_name(std::string(parameter.name));
    added->set_meaning(std::string(parameter.meaning));
    added->set_default_value(std::string(parameter.default_value));
    added->set_range(std::string(parameter.range));
  }
  out->set_used_by(std::string(card.used_by));
  out->set_pitfalls(std::string(card.pitfalls));
  out->set_source(std::string(card.source));
}

void AddSnippet(std::string_view language, std::string code, v1::GetSchemeResponse* out) {
  v1::Snippet* snippet = out->add_snippets();
  snippet->set_language(std::string(language));
  snippet->set_code(std::move(code));
}

// The example's spec with its weights; queries and keys of a term are no part of it.
absl::Status AddExample(const CardExample& example, v1::EncodingSpec* out) {
  const auto parsed = google::protobuf::util::JsonStringToMessage(std::string(example.spec), out);
  if (!parsed.ok()) return absl::InternalError(Cat("the card's example: ", std::string(parsed.message())));
  for (const ExampleInput& input : example.inputs) {
    if (example.kind == ExampleKind::kScores && (input.name == "q" || input.name == "k")) continue;
    v1::Weight* weight = out->add_weights();
    weight->set_name(std::string(input.name));
    v1::Tensor* tensor = weight->mutable_tensor();
    tensor->set_dtype(v1::DTYPE_F64);
    tensor->mutable_shape()->Add(input.extents().begin(), input.extents().end());
    for (int64_t i = 0; i < input.elements(); ++i) {
      const double value = ExampleValue(input, i);
      tensor->mutable_data()->append(reinterpret_cast<const char*>(&value), sizeof value);
    }
  }
  return absl::OkStatus();
}

absl::Status AddDetails(const CardDetails& details, v1::GetSchemeResponse* out) {
  out->set_latex(std::string(details.latex));
  out->set_extrapolation(std::string(details.extrapolation));
  for (const FailureDetail& failure : details.failures) {
    v1::FailureCard* added = out->add_failures();
    added->set_symptom(std::string(failure.symptom));
    added->set_cause(std::string(failure.cause));
    added->set_check(std::string(failure.check));
    added->set_fix(std::string(failure.fix));
  }
  for (const std::string_view name : details.related) out->add_related(std::string(name));
  AddSnippet("pytorch", PytorchSnippet(details), out);
  AddSnippet("c++", CppSnippet(details), out);
  AddSnippet("phasor", PhasorSnippet(details), out);
  out->set_example_sequence_length(details.example.sequence_length);
  return AddExample(details.example, out->mutable_example());
}

}  // namespace

void SummarizeScheme(const Scheme& scheme, v1::SchemeSummary* out) {
  out->set_name(std::string(scheme.name));
  out->set_title(std::string(scheme.card->title));
  out->set_family(std::string(scheme.family));
  out->set_needs_sequence_length(scheme.needs_sequence_length);
  out->set_summary(std::string(scheme.card->summary));
}

absl::StatusOr<v1::GetSchemeResponse> MakeSchemeCard(const v1::GetSchemeRequest& request) {
  const Scheme* scheme = FindScheme(request.name());
  if (scheme == nullptr) {
    const std::string names =
        absl::StrJoin(Schemes(), ", ", [](std::string* out, const Scheme* each) { Append(out, each->name); });
    return ResourceNotFound("name", "phasor.v1.Scheme", request.name(), names);
  }
  const absl::StatusOr<CardSize> size = SizeOf(request);
  if (!size.ok()) return size.status();
  v1::GetSchemeResponse response;
  SummarizeScheme(*scheme, response.mutable_scheme());
  AddCard(*scheme->card, &response);
  const CardDetails* details = FindCardDetails(scheme->name);
  if (details == nullptr) return absl::InternalError(Cat("no card of ", scheme->name));
  if (absl::Status status = AddDetails(*details, &response); !status.ok()) return status;
  for (const SchemeCost& cost : CostsOf(scheme->name, *size)) {
    v1::CostCard* added = response.add_costs();
    added->set_what(std::string(cost.what));
    added->set_bytes(cost.bytes);
    added->set_operations(cost.operations);
    added->set_note(std::string(cost.note));
  }
  return response;
}

}  // namespace phasor::server
