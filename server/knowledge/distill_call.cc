#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "server/grpc_status.h"
#include "server/knowledge/calls.h"
#include "server/knowledge/distill_files.h"
#include "server/knowledge/side_call.h"
#include "server/knowledge/wire_side.h"
#include "server/spec_parser.h"
#include "server/text.h"

namespace phasor::server {
namespace {

constexpr int64_t kLastPosition = (int64_t{1} << 31) - 1;
constexpr int kMaxColumnsShown = 4096;

int64_t Or(int64_t given, int64_t otherwise) { return given == 0 ? otherwise : given; }

absl::Status CheckRequest(const v1::DistillRequest& request) {
  if (!v1::DistillForm_IsValid(request.form())) {
    return InvalidField("form", Cat(static_cast<int>(request.form())), "PERCEPTRON, COSINE_SERIES");
  }
  struct Row {
    const char* field;
    int64_t given, lowest, highest;
  };
  const DistillOptions defaults;
  for (const Row& row :
       {Row{"first_position", request.first_position(), 0, kLastPosition},
        Row{"count", Or(request.count(), 2), 2, kMaxDistillCount},
        Row{"sequence_length", request.has_sequence_length() ? request.sequence_length() : 1, 1, kMaxSequenceLength},
        Row{"hidden", Or(request.hidden(), defaults.hidden), 1, kMaxDistillHidden},
        Row{"terms", Or(request.terms(), defaults.terms), 1, kMaxDistillTerms},
        Row{"steps", Or(request.steps(), defaults.steps), 1, kMaxDistillSteps}}) {
    if (absl::Status status = CheckRange(row.field, row.given, row.lowest, row.highest); !status.ok()) return status;
  }
  const double tolerance = request.tolerance();
  if (!(tolerance >= 0) || std::isinf(tolerance)) {
    return InvalidField("tolerance", Cat(tolerance), "a finite number, 0 or more");
  }
  return absl::OkStatus();
}

// One table of which nothing is said is rows of an absolute one.
absl::StatusOr<Side> ReadSource(const v1::ComparedSide& source, std::optional<int64_t> length, const Limits& limits) {
  if (!source.has_table() || source.table().content() != 0 || source.table().tensors_size() != 1) {
    return ReadSide(source, "source", length, limits, nullptr);
  }
  v1::ComparedSide said = source;
  said.mutable_table()->set_content(v1::TABLE_CONTENT_SINUSOIDAL);
  return ReadSide(said, "source", length, limits, nullptr);
}

// Fills in the defaults, which are cut to what the size of the table allows, and refuses what goes beyond it.
absl::Status ReadPerceptron(const v1::DistillRequest& request, int64_t count, int64_t columns, DistillOptions* options) {
  const int64_t widest = std::min(kMaxDistillHidden, kMaxDistillNumbers / count);
  options->hidden = request.hidden() == 0 ? std::min(options->hidden, widest) : request.hidden();
  if (options->hidden > widest) {
    return InvalidField("hidden", Cat(options->hidden), Cat("1 … ", widest, " for ", count, " positions"));
  }
  const double most_steps =
      std::floor(static_cast<double>(kMaxDistillWork) / PerceptronWork(count, columns, options->hidden, 1));
  const int64_t most = std::clamp<int64_t>(static_cast<int64_t>(most_steps), 0, kMaxDistillSteps);
  const std::string size = Cat(count, " positions, ", ColumnsText(columns), " and a width of ", options->hidden);
  if (most == 0)
    return InvalidField("hidden", Cat(options->hidden), Cat("less for ", count, " positions of ", ColumnsText(columns)));
  options->steps = request.steps() == 0 ? std::min(options->steps, most) : request.steps();
  if (options->steps > most) return InvalidField("steps", Cat(options->steps), Cat("1 … ", most, " for ", size));
  return absl::OkStatus();
}

absl::Status ReadSeries(const v1::DistillRequest& request, int64_t count, int64_t columns, DistillOptions* options) {
  const auto by_work = static_cast<int64_t>(static_cast<double>(kMaxDistillWork) / SeriesWork(count, columns, 1));
  const int64_t most = std::min({kMaxDistillTerms, count, by_work});
  options->terms = request.terms() == 0 ? std::min(options->terms, most) : request.terms();
  if (options->terms <= most) return absl::OkStatus();
  return InvalidField("terms", Cat(options->terms),
                      Cat("1 … ", most, " for ", count, " positions of ", ColumnsText(columns)));
}

void AddWeight(const std::string& name, const WeightRef& weight, v1::EncodingSpec* message) {
  v1::Weight* added = message->add_weights();
  added->set_name(name);
  added->mutable_tensor()->set_dtype(v1::DTYPE_F64);
  added->mutable_tensor()->mutable_shape()->Add(weight->shape.begin(), weight->shape.end());
  std::string* data = added->mutable_tensor()->mutable_data();
  data->reserve(static_cast<size_t>(weight->bytes()));
  for (const double value : weight->values()) {
    const auto bits = std::bit_cast<uint64_t>(value);
    for (int shift = 0; shift < 64; shift += 8) data->push_back(static_cast<char>(bits >> shift & 0xff));
  }
}

// The spec with its weights' content.
template <typename Spec>
void WriteSpec(const Spec& spec, v1::EncodingSpec* message) {
  SpecToProto(spec, message);
  message->clear_weights();
  for (size_t i = 0; i < spec.w.size() && spec.w[i]; ++i) {
    AddWeight(Cat("w", i + 1), spec.w[i], message);
    AddWeight(Cat("b", i + 1), spec.b[i], message);
  }
}

v1::DistilledFunction ToProto(const DistillJob& job, const Distilled& from) {
  v1::DistilledFunction to;
  to.set_form(static_cast<v1::DistillForm>(from.form));
  WriteSpec(from.spec, to.mutable_spec());
  if (from.bias) WriteSpec(*from.bias, to.mutable_bias_spec());
  to.set_safetensors(SafetensorsOf(job.side, from));
  to.set_onnx(OnnxOf(job.side, from));
  to.set_parameters(from.parameters);
  to.set_table_numbers(from.table_numbers);
  const DistillErrors& errors = from.errors;
  to.set_max_error(errors.max_error);
  to.set_max_position(errors.max_position);
  to.set_max_column(errors.max_column);
  to.set_rms_error(errors.rms_error);
  to.set_rms_value(errors.rms_value);
  if (errors.max_beyond) to.set_max_error_beyond(*errors.max_beyond);
  to.set_steps(from.steps);
  for (const double error : errors.by_column) {
    if (to.max_error_by_column_size() == kMaxColumnsShown) break;
    to.add_max_error_by_column(error);
  }
  to.set_closed_form_is_better(from.closed_form_is_better);
  to.set_verdict(from.verdict);
  return to;
}

}  // namespace

absl::StatusOr<DistillJob> PrepareDistill(const KnowledgeContext& context, const v1::DistillRequest& request) {
  if (absl::Status status = CheckRequest(request); !status.ok()) return status;
  std::optional<int64_t> length;
  if (request.has_sequence_length()) length = request.sequence_length();
  auto side = ReadSource(request.source(), length, context.limits);
  if (!side.ok()) return side.status();
  const auto window = ChooseSamples(*side, request.first_position(), request.count());
  if (!window.ok()) return AtSide(request.source(), "source", window.status());

  DistillJob job;
  job.options.seed = request.seed();
  job.options.tolerance = request.tolerance();
  const int64_t columns = SampleColumns(*side);
  if (request.form() != v1::DISTILL_FORM_COSINE_SERIES) {
    if (auto status = ReadPerceptron(request, window->count, columns, &job.options); !status.ok()) return status;
    job.forms.push_back(DistillForm::kPerceptron);
  }
  if (request.form() != v1::DISTILL_FORM_PERCEPTRON) {
    if (auto status = ReadSeries(request, window->count, columns, &job.options); !status.ok()) return status;
    job.forms.push_back(DistillForm::kCosineSeries);
  }
  auto samples = SamplesOf(context.backend, *side, *window);
  if (!samples.ok()) return AtSide(request.source(), "source", samples.status());
  job.side = *std::move(side);
  job.samples = *std::move(samples);
  job.bytes = DistillBytes(window->count, columns, job.options);
  return job;
}

absl::StatusOr<v1::DistilledFunction> FitForm(const KnowledgeContext& context, const DistillJob& job, DistillForm form,
                                              DistillListener listener) {
  const auto fitted = Distill(context.backend, job.side, job.samples, form, job.options, listener, context.cancel);
  if (!fitted.ok()) return fitted.status();
  return ToProto(job, *fitted);
}

}  // namespace phasor::server
