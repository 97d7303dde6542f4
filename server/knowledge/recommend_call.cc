#include <utility>
#include <variant>

#include "server/enum_text.h"
#include "server/grpc_status.h"
#include "server/knowledge/calls.h"
#include "server/knowledge/recommend.h"
#include "server/knowledge/wire_side.h"
#include "server/spec_parser.h"
#include "server/text.h"

namespace phasor::server {
namespace {

constexpr int64_t kWidest = 65536;  // head_dim and num_heads

static_assert(static_cast<int>(Task::kRetrieval) == v1::MODEL_TASK_RETRIEVAL &&
              static_cast<int>(Task::kVision) == v1::MODEL_TASK_VISION);
static_assert(static_cast<int>(Target::kNpu) == v1::DEPLOY_TARGET_NPU &&
              static_cast<int>(Target::kOnnx) == v1::DEPLOY_TARGET_ONNX);
static_assert(static_cast<int>(Tuning::kFull) == v1::TUNING_FULL && static_cast<int>(Tuning::kNone) == v1::TUNING_NONE);

absl::Status ReadEnums(const v1::RecommendRequest& request, Wishes& wishes) {
  if (request.task() == v1::MODEL_TASK_UNSPECIFIED || !v1::ModelTask_IsValid(request.task())) {
    return InvalidField("task", request.task() == 0 ? "nothing" : Cat(static_cast<int>(request.task())),
                        AllowedValues(v1::ModelTask_descriptor()));
  }
  if (!v1::DeployTarget_IsValid(request.target())) {
    return InvalidField("target", Cat(static_cast<int>(request.target())), AllowedValues(v1::DeployTarget_descriptor()));
  }
  if (!v1::Tuning_IsValid(request.tuning())) {
    return InvalidField("tuning", Cat(static_cast<int>(request.tuning())), AllowedValues(v1::Tuning_descriptor()));
  }
  wishes.task = static_cast<Task>(request.task());
  wishes.target = request.target() == 0 ? Target::kAny : static_cast<Target>(request.target());
  wishes.tuning = request.tuning() == 0 ? Tuning::kNone : static_cast<Tuning>(request.tuning());
  return absl::OkStatus();
}

// A number that is left out keeps its default.
absl::Status ReadNumber(std::string_view field, int64_t given, int64_t highest, int64_t& value) {
  if (given == 0) return absl::OkStatus();
  value = given;
  return CheckRange(field, given, 1, highest);
}

absl::Status ReadNumbers(const v1::RecommendRequest& request, Wishes& wishes) {
  if (request.trained_length() == 0) return InvalidField("trained_length", "nothing", Cat("1 … ", kMaxSequenceLength));
  if (auto s = ReadNumber("trained_length", request.trained_length(), kMaxSequenceLength, wishes.trained_length); !s.ok())
    return s;
  wishes.wanted_length = wishes.trained_length;
  if (auto s = ReadNumber("wanted_length", request.wanted_length(), kMaxSequenceLength, wishes.wanted_length); !s.ok())
    return s;
  if (auto s = ReadNumber("head_dim", request.head_dim(), kWidest, wishes.head_dim); !s.ok()) return s;
  if (auto s = ReadNumber("num_heads", request.num_heads(), kWidest, wishes.num_heads); !s.ok()) return s;
  if (request.memory_limit_bytes() < 0) {
    return InvalidField("memory_limit_bytes", Cat(request.memory_limit_bytes()), "1 or more, or 0 for no limit");
  }
  if (request.memory_limit_bytes() > 0) wishes.memory_limit_bytes = request.memory_limit_bytes();
  return absl::OkStatus();
}

// Heads are those of what the model has now, where that says them.
absl::Status ReadHeads(const v1::RecommendRequest& request, Wishes& wishes) {
  const int64_t heads = std::visit(
      [](const auto& spec) -> int64_t {
        if constexpr (requires { spec.num_heads; }) return spec.num_heads;
        return 0;
      },
      *wishes.current);
  if (heads == 0) return absl::OkStatus();
  if (request.num_heads() != 0 && request.num_heads() != heads) {
    return InvalidField("num_heads", Cat(request.num_heads()), Cat(heads, ", which current has, or nothing"));
  }
  wishes.num_heads = heads;
  return absl::OkStatus();
}

absl::Status ReadCurrent(const v1::RecommendRequest& request, Wishes& wishes) {
  if (!request.has_current()) {
    if (wishes.tuning != Tuning::kNone || wishes.wanted_length <= wishes.trained_length) return absl::OkStatus();
    return InvalidField("current", "nothing", "what the model has now: without tuning nothing else can be lengthened");
  }
  auto spec = ReadSpec(request.current(), "current");
  if (!spec.ok()) return spec.status();
  wishes.current = std::move(spec->spec);
  if (absl::Status status = ReadHeads(request, wishes); !status.ok()) return status;
  const RopeSpec* rope = std::get_if<RopeSpec>(&*wishes.current);
  if (rope == nullptr) return absl::OkStatus();
  if (request.head_dim() != 0 && request.head_dim() != rope->head_dim) {
    return InvalidField("head_dim", Cat(request.head_dim()), Cat(rope->head_dim, ", which current has, or nothing"));
  }
  wishes.head_dim = rope->head_dim;
  return absl::OkStatus();
}

void Write(const RankedChoice& choice, v1::Choice* out) {
  out->set_scheme(choice.scheme);
  SpecToProto(choice.spec.spec, out->mutable_spec());
  for (const std::string& reason : choice.reasons) out->add_reasons(reason);
  for (const Figure& figure : choice.figures) {
    v1::Figure* to = out->add_figures();
    to->set_name(std::string(figure.name));
    to->set_value(figure.value);
    to->set_unit(std::string(figure.unit));
    to->set_meaning(std::string(figure.meaning));
  }
  for (const std::string& check : choice.checks) out->add_checks(check);
  out->set_rule(std::string(choice.rule));
  out->set_form(choice.form);
}

}  // namespace

absl::StatusOr<v1::RecommendResponse> Recommend(const KnowledgeContext&, const v1::RecommendRequest& request) {
  Wishes wishes;
  if (auto status = ReadEnums(request, wishes); !status.ok()) return status;
  if (auto status = ReadNumbers(request, wishes); !status.ok()) return status;
  if (auto status = ReadCurrent(request, wishes); !status.ok()) return status;
  const Recommendation answer = Recommend(std::move(wishes));
  v1::RecommendResponse response;
  for (const RankedChoice& choice : answer.choices) Write(choice, response.add_choices());
  response.set_contradiction(answer.contradiction);
  for (const LeftOut& left : answer.left_out) {
    v1::Rejected* out = response.add_rejected();
    out->set_scheme(left.scheme);
    out->set_reason(left.reason);
    out->set_rule(std::string(left.rule));
  }
  return response;
}

}  // namespace phasor::server
