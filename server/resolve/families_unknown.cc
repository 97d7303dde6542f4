#include "absl/strings/str_cat.h"

#include "server/resolve/layer_groups.h"
#include "server/resolve/readers.h"

namespace phasor::server {
namespace {

bool SaysAlibi(const Model& model) {
  const auto flag = [](const JsonObject& object) { return object.Has("alibi") && object.Bool("alibi").value_or(false); };
  if (flag(model.text)) return true;
  return model.text.IsObject("attn_config") && flag(*model.text.Object("attn_config"));
}

// Whether any key is one that only rotating models have; those that share a name with other things do not count.
bool SaysRope(const Model& model) {
  return model.HasRopeKeys() || !model.text
                                     .FirstOf({"swa_rope_theta", "local_rope_theta", "rope_base", "rope_interleave",
                                               "rope_scaling_layers", "no_rope_layer_interval"})
                                     .empty();
}

}  // namespace

void ReadUnknown(const Model& model, ModelEncoding& out) {
  const std::string path = model.file.PathOf("model_type");
  const auto read_as = [&](std::string_view what) {
    model.problems->Warn(path, absl::StrCat("class ", model.type_name, " is unknown: read by its keys as ",
                                            absl::string_view(what.data(), what.size())));
  };
  const bool rotates = SaysRope(model);
  const std::string type =
      model.text.Has("position_embedding_type") ? model.text.String("position_embedding_type").value_or("") : std::string();
  if (SaysAlibi(model) || (type == "alibi" && !rotates)) {
    read_as("ALiBi");
    return type == "alibi" ? ReadBert(model, out) : ReadAlibi(model, out);
  }
  if (model.text.Has("relative_attention_num_buckets") && !rotates) {
    read_as("T5 buckets");
    return ReadT5(model, out);
  }
  if (model.text.Has("qk_rope_head_dim")) {
    read_as("a rotary slice beside a wider head (MLA), pairs interleaved");
    return ReadMla(model, out);
  }
  if (!rotates && !type.empty() && type != "rope" && type != "rotary") {
    read_as("what position_embedding_type says");
    return ReadBert(model, out);
  }
  if (!rotates && type.empty()) {
    if (!model.file.Has("model_type") && !model.file.Has("architectures")) {
      return model.problems->Fail(path, "nothing", "the class's name, or a key that says how the model encodes positions");
    }
    model.problems->Warn(path,
                         absl::StrCat("class ", model.type_name, " is unknown, and no key says how it encodes positions"));
    out.layers.push_back(Unserved(model, "", "unknown"));
    return;
  }
  read_as("LLaMA's: pairs (i, i + rotary_dim/2), base 10000 unless the file says otherwise");
  if (model.text.Has("no_rope_layers")) return ReadNopeList(model, out);
  if (!model.text.FirstOf({"rope_local_base_freq", "swa_rope_theta", "local_rope_theta"}).empty()) {
    return ReadSecondBase(model, out);
  }
  ReadRope(model, out);
}

}  // namespace phasor::server
