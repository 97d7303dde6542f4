#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "server/grpc_status.h"
#include "server/knowledge/calls.h"
#include "server/knowledge/diagnosis.h"
#include "server/knowledge/symptoms.h"
#include "server/knowledge/wire_side.h"
#include "server/spec_parser.h"
#include "server/text.h"

namespace phasor::server {
namespace {

constexpr int64_t kDefaultHypotheses = 5, kMostHypotheses = 20;
constexpr int64_t kLongestSequence = int64_t{1} << 31;
constexpr int64_t kMostInlineBytes = int64_t{1} << 20;

// Axes that the content allows.
absl::Status CheckAxes(const InputTable& table) {
  const size_t axes = table.tensors.front().shape.size();
  size_t most = 3;
  switch (table.content) {
    case InputContent::kSlopes:
    case InputContent::kInvFreq:
      most = 1;
      break;
    case InputContent::kBiasVector:
      most = 2;
      break;
    default:
      break;
  }
  if (axes <= most) return absl::OkStatus();
  return InvalidField("table.tensors[0].shape", Cat("[", absl::StrJoin(table.tensors.front().shape, ", "), "]"),
                      Cat(most == 1 ? "one axis" : "up to two axes", " for this content"));
}

absl::StatusOr<DiagnoseInput> ReadInput(const KnowledgeContext& context, const v1::DiagnoseRequest& request) {
  DiagnoseInput input;
  auto table = ReadInputTable(request.table(), "table");
  if (!table.ok()) return table.status();
  input.table = *std::move(table);
  if (absl::Status status = CheckAxes(input.table); !status.ok()) return status;
  if (request.has_expected()) {
    auto expected = ReadSpec(request.expected(), "expected");
    if (!expected.ok()) return expected.status();
    input.expected = *std::move(expected);
  }
  if (request.has_sequence_length()) {
    if (auto status = CheckRange("sequence_length", request.sequence_length(), 1, kLongestSequence); !status.ok())
      return status;
    input.sequence_length = request.sequence_length();
  }
  input.max_hypotheses = request.max_hypotheses() == 0 ? kDefaultHypotheses : request.max_hypotheses();
  if (auto status = CheckRange("max_hypotheses", input.max_hypotheses, 1, kMostHypotheses); !status.ok()) return status;
  input.cancel = context.cancel;
  return input;
}

// A table that was read off the numbers goes with its spec.
void InlineTable(const EncodingSpec& spec, v1::EncodingSpec* message) {
  const auto* buckets = std::get_if<T5BucketSpec>(&spec);
  if (buckets == nullptr || !buckets->table || buckets->table->bytes() > kMostInlineBytes) return;
  for (v1::Weight& weight : *message->mutable_weights()) {
    if (weight.name() != "table") continue;
    weight.mutable_tensor()->set_data(reinterpret_cast<const char*>(buckets->table->data.get()),
                                      static_cast<size_t>(buckets->table->bytes()));
  }
}

void Write(const Hypothesis& hypothesis, v1::Hypothesis* message) {
  message->set_scheme(std::string(SchemeOf(hypothesis.spec.spec).name));
  SpecToProto(hypothesis.spec.spec, message->mutable_spec());
  InlineTable(hypothesis.spec.spec, message->mutable_spec());
  message->set_content(static_cast<v1::TableContent>(hypothesis.content));
  message->set_layout(hypothesis.layout);
  message->set_first_position(hypothesis.first_position);
  message->set_sequence_length(hypothesis.sequence_length.value_or(0));
  message->set_computed(hypothesis.computed);
  message->set_confidence(hypothesis.confidence);
  message->set_max_ulps(hypothesis.max_ulps);
  message->set_max_difference(hypothesis.max_difference);
  message->set_reproduces(hypothesis.reproduces);
  message->set_note(hypothesis.note);
}

void Write(const Fault& fault, v1::Fault* message) {
  message->set_name(std::string(fault.card->name));
  message->set_symptom(fault.symptom);
  message->set_cause(std::string(fault.card->cause));
  message->set_check(std::string(fault.card->check));
  message->set_fix(std::string(fault.card->fix));
  message->set_confidence(fault.confidence);
  if (fault.first_row) message->set_first_row(*fault.first_row);
}

std::string Verdict(const Diagnosis& diagnosis) {
  const auto title = [](const Hypothesis& hypothesis) { return SchemeOf(hypothesis.spec.spec).card->title; };
  const auto right =
      std::find_if(diagnosis.hypotheses.begin(), diagnosis.hypotheses.end(),
                   [](const Hypothesis& hypothesis) { return hypothesis.reproduces && !hypothesis.any_numbers; });
  const auto first = diagnosis.hypotheses.begin();
  std::string text;
  if (diagnosis.hypotheses.empty()) {
    text = "Unknown: no scheme known here makes these numbers.";
  } else if (first->computed != "exact" && first->computed != "compat_f32") {
    text = Cat(title(*first), ", but made wrongly.");
  } else if (right != diagnosis.hypotheses.end()) {
    text =
        Cat(title(*right), right->max_ulps == 0 ? ": the spec makes every value again, bit for bit."
                                                : ": the spec makes every value again within one unit in the last place.");
  } else if (first->any_numbers) {
    text = Cat("Unknown: no rule known here makes these numbers. ", title(*first), " could hold them, as it could any.");
  } else {
    text =
        absl::StrFormat("Unknown: the nearest is %s, off by up to %.3g.", std::string(title(*first)), first->max_difference);
  }
  if (!diagnosis.faults.empty()) {
    const Fault& fault = diagnosis.faults.front();
    Append(&text, " Wrong: ", fault.card->name, " (", fault.symptom, ").");
  }
  return text;
}

v1::DiagnoseResponse ListOfSymptoms() {
  v1::DiagnoseResponse response;
  response.set_verdict(Cat(Symptoms().size(), " symptoms are known."));
  for (const Symptom& symptom : Symptoms()) response.add_observations(Cat(symptom.name, ": ", symptom.words));
  return response;
}

std::string NamesOf(std::span<const Symptom> symptoms) {
  return absl::StrJoin(symptoms, ", ", [](std::string* out, const Symptom& symptom) { Append(out, symptom.name); });
}

absl::StatusOr<v1::DiagnoseResponse> Explain(const std::string& text) {
  constexpr size_t kMostShown = 100;
  if (text == "list") return ListOfSymptoms();
  const Symptom* symptom = FindSymptom(text);
  if (symptom == nullptr) {
    const auto nearest = NearestSymptoms(text, 3);
    const std::string names =
        absl::StrJoin(nearest, ", ", [](std::string* out, std::string_view name) { Append(out, name); });
    return InvalidField("symptom", text.empty() ? "nothing" : Cat("\"", text.substr(0, kMostShown), "\""),
                        Cat(names.empty() ? "" : Cat("perhaps ", names, "; all: "), NamesOf(Symptoms())));
  }
  v1::DiagnoseResponse response;
  response.set_symptom(std::string(symptom->name));
  response.set_verdict(Cat("\"", symptom->words, "\": ", symptom->steps.size(), " things to check, the likeliest first."));
  for (const SymptomStep& step : symptom->steps) {
    v1::SymptomCheck* check = response.add_checks();
    check->set_cause(std::string(step.cause));
    check->set_check(std::string(step.check));
    check->set_call(std::string(step.call));
    check->set_fix(std::string(step.fix));
  }
  return response;
}

}  // namespace

absl::StatusOr<v1::DiagnoseResponse> Diagnose(const KnowledgeContext& context, const v1::DiagnoseRequest& request) {
  if (request.subject_case() == v1::DiagnoseRequest::kSymptom) return Explain(request.symptom());
  if (request.subject_case() != v1::DiagnoseRequest::kTable)
    return InvalidField("subject", "nothing", "a table or a symptom");
  const auto input = ReadInput(context, request);
  if (!input.ok()) return input.status();
  const auto diagnosis = DiagnoseTable(context.backend, *input);
  if (!diagnosis.ok()) return diagnosis.status();
  v1::DiagnoseResponse response;
  response.set_verdict(Verdict(*diagnosis));
  for (const Hypothesis& hypothesis : diagnosis->hypotheses) Write(hypothesis, response.add_hypotheses());
  for (const Fault& fault : diagnosis->faults) Write(fault, response.add_faults());
  for (const std::string& seen : diagnosis->observations) response.add_observations(seen);
  return response;
}

}  // namespace phasor::server
