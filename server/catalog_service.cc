// Knowledge: the schemes' cards, and what a model's configuration means.
#include <cstring>
#include <utility>

#include "absl/strings/str_join.h"
#include "phasor/v1/catalog_service.grpc.pb.h"

#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/encodings/encoding.h"
#include "server/distill_stream.h"
#include "server/knowledge/calls.h"
#include "server/knowledge/scheme_card.h"
#include "server/resolve/gguf_model.h"
#include "server/resolve/model_config.h"
#include "server/services.h"
#include "server/spec_parser.h"
#include "server/text.h"

namespace phasor::server {
namespace {

using Base = v1::CatalogService;
using RawKnowledge = Base::WithRawMethod_CompareSpecs<Base::WithRawMethod_Diagnose<
    Base::WithRawMethod_Recommend<Base::WithRawMethod_PlanMemory<Base::WithRawMethod_Plot<Base::Service>>>>>;
using RawService = Base::WithRawMethod_ListSchemes<
    Base::WithRawMethod_GetScheme<Base::WithRawMethod_ResolveModel<Base::WithRawMethod_Distill<RawKnowledge>>>>;
using Warnings = google::protobuf::RepeatedPtrField<v1::Warning>;

v1::ListSchemesResponse ListSchemes() {
  v1::ListSchemesResponse response;
  for (const Scheme* scheme : Schemes()) SummarizeScheme(*scheme, response.add_schemes());
  return response;
}

void AddNotes(std::string_view prefix, const std::vector<Note>& notes, Warnings* out) {
  for (const Note& note : notes) {
    v1::Warning* warning = out->Add();
    if (!note.field.empty()) warning->set_field(Cat(prefix, note.field));
    warning->set_message(note.message);
  }
}

v1::PositionKind KindOf(PositionKind kind) {
  switch (kind) {
    case PositionKind::kRope:
      return v1::POSITION_KIND_ROPE;
    case PositionKind::kSinusoidal:
      return v1::POSITION_KIND_SINUSOIDAL;
    case PositionKind::kAlibi:
      return v1::POSITION_KIND_ALIBI;
    case PositionKind::kNone:
      return v1::POSITION_KIND_NONE;
    case PositionKind::kLearned:
      return v1::POSITION_KIND_LEARNED;
    case PositionKind::kBias:
      return v1::POSITION_KIND_BIAS;
    case PositionKind::kTerm:
      return v1::POSITION_KIND_TERM;
    case PositionKind::kUnserved:
      break;
  }
  return v1::POSITION_KIND_UNSERVED;
}

void SetQueryScale(const QueryScaleRule& rule, v1::QueryScale* out) {
  if (rule.kind == QueryScaleRule::Kind::kLogN) {
    out->set_log_n_training_length(rule.period);
    return;
  }
  out->mutable_floor_scale()->set_coefficient(rule.coefficient);
  out->mutable_floor_scale()->set_period(rule.period);
  out->mutable_floor_scale()->set_shift(rule.shift);
}

v1::MropeLayout LayoutOf(MropeRule::Layout layout) {
  switch (layout) {
    case MropeRule::Layout::kQwen2Vl:
      return v1::MROPE_LAYOUT_QWEN2_VL;
    case MropeRule::Layout::kQwen25Vl:
      return v1::MROPE_LAYOUT_QWEN2_5_VL;
    case MropeRule::Layout::kQwen3Vl:
      return v1::MROPE_LAYOUT_QWEN3_VL;
    case MropeRule::Layout::kHunyuanVl:
      break;
  }
  return v1::MROPE_LAYOUT_HUNYUAN_VL;
}

void SetMrope(const MropeRule& rule, v1::ResolvedLayer* out) {
  out->set_mrope_layout(LayoutOf(rule.layout));
  v1::MropePositions& positions = *out->mutable_mrope_positions();
  positions.set_layout(out->mrope_layout());
  positions.set_spatial_merge(rule.spatial_merge);
  if (rule.tokens_per_second) positions.set_tokens_per_second(*rule.tokens_per_second);
  if (rule.temporal_merge != 1) positions.set_temporal_merge(rule.temporal_merge);
  if (rule.axes != 0) positions.set_axes(rule.axes);
}

void AddWeights(const LayerEncoding& layer, v1::ResolvedLayer* out) {
  for (const NeededWeight& weight : layer.weights) {
    v1::NeededWeight* needed = out->add_weights();
    needed->set_name(weight.name);
    needed->mutable_shape()->Add(weight.shape.begin(), weight.shape.end());
    needed->set_source(weight.source);
    needed->set_required(weight.required);
  }
}

// What the spec of a layer resolves to: the numbers behind its table or bias.
absl::Status AddNumbers(const ServiceContext& context, const LayerEncoding& layer, std::optional<int64_t> sequence_length,
                        std::string_view source, v1::ResolvedLayer* out) {
  const CanonicalSpec& spec = *layer.spec;
  const Scheme& scheme = SchemeOf(spec.spec);
  out->set_needs_sequence_length(scheme.needs_sequence_length);
  if (scheme.needs_sequence_length && !sequence_length) {
    v1::Warning* warning = out->add_warnings();
    warning->set_field("sequence_length");
    warning->set_message("the numbers depend on the sequence length: give one to get them");
    return absl::OkStatus();
  }
  const auto resolved = context.engine->ResolvePlan(spec, sequence_length, Precision::kExact);
  if (!resolved.ok()) {
    const auto error = SpecErrorOf(resolved.status());
    if (!error || error->field == "sequence_length") {
      return error ? InvalidField(error->field, error->given, error->allowed) : resolved.status();
    }
    // The request has no such spec: the key that the field was made from is to blame.
    const std::string key = KeyOfField(layer.key_of, error->field);
    return key.empty() ? InvalidField(source, Cat(error->field, " ", error->given), error->allowed)
                       : InvalidField(Cat(source, ".", key), error->given, error->allowed);
  }
  if ((*resolved)->softmax_scale_multiplier) out->set_softmax_scale_multiplier(*(*resolved)->softmax_scale_multiplier);
  AddNotes("", (*resolved)->derived, out->mutable_derived());
  out->set_fingerprint(PlanFingerprint((*resolved)->plan));
  if (const auto* angles = std::get_if<AnglePlan>(&(*resolved)->plan)) {
    out->set_attention_factor((*resolved)->attention_factor);
    out->mutable_inv_freq()->Add(angles->inv_freq.begin(), angles->inv_freq.end());
  } else if (const auto* lines = std::get_if<BiasPlan>(&(*resolved)->plan)) {
    for (const DoubleDouble& slope : lines->slopes) out->add_slopes(slope.hi);
  }
  return absl::OkStatus();
}

// `source` is the field of the request that the layer was read from.
absl::Status AddLayer(const ServiceContext& context, const LayerEncoding& layer, std::optional<int64_t> sequence_length,
                      std::string_view source, v1::ResolvedLayer* out) {
  out->set_layer_type(layer.layer_type);
  out->mutable_layers()->Add(layer.layers.begin(), layer.layers.end());
  out->set_kind(KindOf(layer.kind));
  out->set_unserved(layer.unserved);
  AddNotes("", layer.defaults, out->mutable_defaults());
  AddNotes("", layer.warnings, out->mutable_warnings());
  out->set_num_q_heads(layer.num_q_heads);
  out->set_num_kv_heads(layer.num_kv_heads);
  out->set_max_position(layer.max_position);
  if (layer.softmax_scale) out->set_softmax_scale(*layer.softmax_scale);
  if (layer.scale_after) out->set_scale_after(*layer.scale_after);
  if (layer.embedding_multiplier) out->set_embedding_multiplier(*layer.embedding_multiplier);
  out->set_query_scale(layer.query_scale);
  out->set_positions_from_mask(layer.positions_from_mask);
  if (layer.query_scale_rule) SetQueryScale(*layer.query_scale_rule, out->mutable_query_scale_rule());
  if (layer.mrope) SetMrope(*layer.mrope, out);
  out->set_inverse(layer.inverse);
  if (!layer.grid_starts.empty()) {
    out->mutable_grid_positions()->mutable_starts()->Add(layer.grid_starts.begin(), layer.grid_starts.end());
  }
  AddWeights(layer, out);
  if (!layer.spec) return absl::OkStatus();
  AddNotes("spec.", layer.spec->defaults, out->mutable_defaults());
  AddNotes("spec.", layer.spec->warnings, out->mutable_warnings());
  out->set_scheme(std::string(SchemeOf(layer.spec->spec).name));
  SpecToProto(layer.spec->spec, out->mutable_spec());
  return LacksWeights(layer) ? absl::OkStatus() : AddNumbers(context, layer, sequence_length, source, out);
}

absl::Status CheckConfigSize(const ServiceContext& context, std::string_view field, size_t size) {
  const int64_t given = static_cast<int64_t>(size);
  if (given <= context.limits.max_config_bytes) return absl::OkStatus();
  return OverLimit(field, given, "max_config_bytes", context.limits.max_config_bytes, "bytes");
}

absl::StatusOr<ModelEncoding> ReadGgufHeader(const ServiceContext& context, const v1::GgufHeader& gguf) {
  if (absl::Status status = CheckConfigSize(context, "gguf", gguf.ByteSizeLong()); !status.ok()) return status;
  std::vector<GgufTensor> tensors;
  for (const v1::GgufTensor& tensor : gguf.tensors()) {
    if (tensor.data().size() % sizeof(float) != 0) {
      return InvalidField(Cat("gguf.tensors[", tensors.size(), "].data"), Cat(tensor.data().size(), " bytes"),
                          "a multiple of 4: float32");
    }
    std::vector<float> values(tensor.data().size() / sizeof(float));
    if (!values.empty()) std::memcpy(values.data(), tensor.data().data(), tensor.data().size());
    tensors.push_back({tensor.name(), std::move(values)});
  }
  return ReadGguf(gguf.header(), tensors);
}

absl::StatusOr<ModelEncoding> ReadSource(const ServiceContext& context, const v1::ResolveModelRequest& request) {
  const bool gguf = request.has_gguf();
  if (!gguf && request.source_case() != v1::ResolveModelRequest::kConfigJson) {
    return InvalidField("config_json", "nothing", "the text of a config.json, or the head of a .gguf file");
  }
  if (absl::Status status = CheckConfigSize(context, "config_json", request.config_json().size()); !status.ok()) {
    return status;
  }
  auto model = gguf ? ReadGgufHeader(context, request.gguf()) : ReadModelConfig(request.config_json());
  const auto error = SpecErrorOf(model.status());
  if (!error) return model;
  const std::string_view prefix = gguf ? "gguf" : "config_json";
  return InvalidField(error->field.empty() ? std::string(prefix) : Cat(prefix, ".", error->field), error->given,
                      error->allowed);
}

absl::StatusOr<v1::ResolveModelResponse> ResolveModel(const ServiceContext& context,
                                                      const v1::ResolveModelRequest& request) {
  const auto model = ReadSource(context, request);
  if (!model.ok()) return model.status();
  std::optional<int64_t> sequence_length;
  if (request.has_sequence_length()) sequence_length = request.sequence_length();
  // As in the other methods, also where no schedule asks for it.
  if (sequence_length && (*sequence_length < 1 || *sequence_length > kMaxSequenceLength)) {
    return InvalidField("sequence_length", Cat(*sequence_length), Cat("1 … ", kMaxSequenceLength));
  }

  v1::ResolveModelResponse response;
  response.set_model_type(model->model_type);
  AddNotes("", model->warnings, response.mutable_warnings());
  for (const LayerEncoding& layer : model->layers) {
    if (!request.layer_type().empty() && layer.layer_type != request.layer_type()) continue;
    const std::string_view source = request.has_gguf() ? "gguf" : "config_json";
    if (absl::Status status = AddLayer(context, layer, sequence_length, source, response.add_layers()); !status.ok()) {
      return status;
    }
  }
  if (response.layers().empty() && !request.layer_type().empty()) {
    const std::string types = absl::StrJoin(model->layers, ", ", [](std::string* out, const LayerEncoding& layer) {
      Append(out, layer.layer_type.empty() ? "\"\" (a single schedule)" : layer.layer_type);
    });
    return InvalidField("layer_type", request.layer_type(), types);
  }
  return response;
}

// A method of the knowledge room, on its thread.
template <typename Request, typename Response>
Method KnowledgeMethod(ServiceContext* context, std::shared_ptr<const Backend> backend, std::string name,
                       absl::StatusOr<Response> (*answer)(const KnowledgeContext&, const Request&)) {
  Method method;
  method.name = std::move(name);
  method.handle = OnControlThread<Request>(
      context,
      [context, backend = std::move(backend), answer](const Request& request, const Reply& reply) {
        return answer({*backend, &reply.context()->cancelled, context->limits}, request);
      },
      &ServiceContext::knowledge);
  return method;
}

void AddKnowledge(ServiceContext* context, RawService* raw, ServiceMethods* made) {
  const std::shared_ptr<const Backend> backend = MakeCpuBackend();
  Method compare = KnowledgeMethod(context, backend, made->name + "/CompareSpecs", &CompareSpecs);
  compare.request_next = [raw](auto* call, auto* request, auto* writer, auto* queue, void* tag) {
    raw->RequestCompareSpecs(call, request, writer, queue, queue, tag);
  };
  Method diagnose = KnowledgeMethod(context, backend, made->name + "/Diagnose", &Diagnose);
  diagnose.request_next = [raw](auto* call, auto* request, auto* writer, auto* queue, void* tag) {
    raw->RequestDiagnose(call, request, writer, queue, queue, tag);
  };
  Method recommend = KnowledgeMethod(context, backend, made->name + "/Recommend", &Recommend);
  recommend.request_next = [raw](auto* call, auto* request, auto* writer, auto* queue, void* tag) {
    raw->RequestRecommend(call, request, writer, queue, queue, tag);
  };
  Method plan = KnowledgeMethod(context, backend, made->name + "/PlanMemory", &PlanMemory);
  plan.request_next = [raw](auto* call, auto* request, auto* writer, auto* queue, void* tag) {
    raw->RequestPlanMemory(call, request, writer, queue, queue, tag);
  };
  Method plot = KnowledgeMethod(context, backend, made->name + "/Plot", &Plot);
  plot.request_next = [raw](auto* call, auto* request, auto* writer, auto* queue, void* tag) {
    raw->RequestPlot(call, request, writer, queue, queue, tag);
  };
  for (Method* method : {&compare, &diagnose, &recommend, &plan, &plot}) made->methods.push_back(std::move(*method));

  Method distill;
  distill.name = made->name + "/Distill";
  distill.request_next_writer = [raw](auto* call, auto* request, auto* writer, auto* queue, void* tag) {
    raw->RequestDistill(call, request, writer, queue, queue, tag);
  };
  distill.produce = [context, backend](grpc::ByteBuffer request, Outlet outlet) {
    return OpenDistillStream(context, backend, std::move(request), std::move(outlet));
  };
  made->methods.push_back(std::move(distill));
}

}  // namespace

ServiceMethods MakeCatalogService(ServiceContext* context) {
  ServiceMethods made;
  made.name = Base::service_full_name();
  auto service = std::make_unique<RawService>();

  Method list;
  list.name = made.name + "/ListSchemes";
  list.request_next = [raw = service.get()](auto* call, auto* request, auto* writer, auto* queue, void* tag) {
    raw->RequestListSchemes(call, request, writer, queue, queue, tag);
  };
  list.handle = Immediate<v1::ListSchemesRequest>(
      [](const v1::ListSchemesRequest&, const Reply&) { return absl::StatusOr<v1::ListSchemesResponse>(ListSchemes()); });
  made.methods.push_back(std::move(list));

  Method get;
  get.name = made.name + "/GetScheme";
  get.request_next = [raw = service.get()](auto* call, auto* request, auto* writer, auto* queue, void* tag) {
    raw->RequestGetScheme(call, request, writer, queue, queue, tag);
  };
  get.handle = Immediate<v1::GetSchemeRequest>(
      [](const v1::GetSchemeRequest& request, const Reply&) { return MakeSchemeCard(request); });
  made.methods.push_back(std::move(get));

  Method resolve;
  resolve.name = made.name + "/ResolveModel";
  resolve.request_next = [raw = service.get()](auto* call, auto* request, auto* writer, auto* queue, void* tag) {
    raw->RequestResolveModel(call, request, writer, queue, queue, tag);
  };
  resolve.handle = OnControlThread<v1::ResolveModelRequest>(
      context, [context](const v1::ResolveModelRequest& request, const Reply&) { return ResolveModel(*context, request); });
  made.methods.push_back(std::move(resolve));

  AddKnowledge(context, service.get(), &made);
  made.service = std::move(service);
  return made;
}

}  // namespace phasor::server
