#include "server/resolve/model_config.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "server/resolve/class_tables.h"
#include "server/resolve/contradictions.h"
#include "server/resolve/model_sizes.h"
#include "server/resolve/needed_weights.h"
#include "server/resolve/parts.h"
#include "server/resolve/position_keys.h"
#include "server/resolve/readers.h"
#include "server/resolve/rope_keys.h"

namespace phasor::server {
namespace {

constexpr size_t kMaxNameLength = 64;  // characters of model_type that are kept

constexpr Family kUnknownFamily{.model_type = "", .read = &ReadUnknown};

std::string Shortened(const std::string& name) {
  return absl::CHexEscape(absl::string_view(name).substr(0, kMaxNameLength));
}

// One network: the object that describes it, and the names of the classes around it.
struct Network {
  JsonObject object;
  std::string part;             // empty: the file's own
  std::string class_by_parent;  // what the class around it makes of this key; empty: nothing is known
  std::string parent;           // the class around it
  int depth = 0;
};

// Whether what differs between two classes is said by no more than the numbers that a file may leave out.
bool ReadAlike(const Family& a, const Family& b, const JsonObject& text) {
  return a.read == b.read && a.pairing == b.pairing && a.softmax == b.softmax && a.partial == b.partial &&
         a.mrope == b.mrope && a.axes == b.axes && a.axis_layout == b.axis_layout && a.grid == b.grid &&
         a.sinusoid == b.sinusoid && a.learned == b.learned && a.other == b.other &&
         (a.rope_interleave == b.rope_interleave || !text.Has("rope_interleave"));
}

// Compares the names under `architectures` with the class that model_type names, which counts. The one that does not: Grok 2
// was published as "git".
const Family* CheckArchitectures(const Family* family, const std::vector<std::string>& names, const JsonObject& file,
                                 const JsonObject& text, std::string& type_name, Problems& problems) {
  for (const JsonObject* object : {&text, &file}) {
    for (const std::string& name : object->Strings("architectures").value_or(std::vector<std::string>())) {
      const Family* other = FindFamilyOfArchitecture(name);
      if (!other || ReadAlike(*family, *other, text)) continue;
      if (std::any_of(names.begin(), names.end(), [&](const std::string& each) { return FindFamily(each) == other; })) {
        continue;
      }
      const bool grok = family->model_type == "git" && other->read == &ReadGrok;
      problems.Warn(object->PathOf("architectures"),
                    absl::StrCat("contradicts model_type: ", Shortened(name), " is of class ",
                                 absl::string_view(other->model_type.data(), other->model_type.size()), ", model_type says ",
                                 type_name, grok ? "; read as the former" : "; read as the latter"));
      if (!grok) return family;
      type_name = std::string(other->model_type);
      return other;
    }
  }
  return family;
}

// Which class the file means: the language model's own model_type, the file's, or an architecture's name.
const Family* Choose(const Network& network, const JsonObject& text, std::string& type_name, Problems& problems) {
  const JsonObject& file = network.object;
  const std::string& by_parent = network.class_by_parent;
  std::vector<std::string> names;
  for (const JsonObject* object : {&text, &file}) {
    if (auto name = object->String("model_type"); name && !name->empty()) names.push_back(*name);
  }
  // Older files name the whole where they should name the part.
  const bool names_whole = !names.empty() && names.front() == network.parent;
  if (!by_parent.empty() && (names.empty() || names_whole)) names.insert(names.begin(), by_parent);
  for (const std::string& name : names) {
    type_name = Shortened(name);
    if (const Family* family = FindFamily(name)) {
      return CheckArchitectures(family, names, file, text, type_name, problems);
    }
  }
  for (const JsonObject* object : {&text, &file}) {
    for (const std::string& name : object->Strings("architectures").value_or(std::vector<std::string>())) {
      const Family* family = FindFamilyOfArchitecture(name);
      if (names.empty()) type_name = Shortened(name);
      if (!family) continue;
      type_name = std::string(family->model_type);
      problems.Warn(file.PathOf("model_type"), absl::StrCat(names.empty() ? "not given" : "unknown",
                                                            ": taken from "
                                                            "architectures, ",
                                                            Shortened(name)));
      return family;
    }
  }
  if (!names.empty()) type_name = Shortened(names.front());
  if (type_name.empty()) type_name = "unnamed";
  return &kUnknownFamily;
}

// Notes that a part is not read, in the place of its layers.
void SkipPart(const Part& part, std::string_view why, ModelEncoding& out) {
  out.warnings.push_back(
      {part.parent.PathOf(part.key), absl::StrCat("not read: ", absl::string_view(why.data(), why.size()))});
}

void ReadNetwork(const Network& network, Problems& problems, ModelEncoding& out);

void ReadParts(const Network& network, const TextPath& path, const Family* family, ModelEncoding& out) {
  if (network.depth == kMaxPartDepth) return;
  Problems wrong;
  const std::vector<Part> parts = PartsBeside(path, &wrong);
  auto warnings = wrong.TakeWarnings();
  std::move(warnings.begin(), warnings.end(), std::back_inserter(out.warnings));
  for (const Part& part : parts) {
    const std::string name = JoinPart(network.part, part.name);
    if (static_cast<int>(out.layers.size()) >= kMaxParts || name.size() > kMaxNameLength) {
      SkipPart(part, "too many parts", out);
      continue;
    }
    Problems problems;
    ModelEncoding inner;
    const std::string parent = part.parent.String("model_type").value_or(std::string(family->model_type));
    ReadNetwork(
        {part.object.Reporting(&problems), name, std::string(ClassOfPart(parent, part.key)), parent, network.depth + 1},
        problems, inner);
    if (!problems.ok()) {
      const auto error = SpecErrorOf(problems.status());
      SkipPart(part, error ? absl::StrCat(error->field, " is ", error->given, ", allowed: ", error->allowed) : "", out);
      continue;
    }
    std::move(inner.layers.begin(), inner.layers.end(), std::back_inserter(out.layers));
    std::move(inner.warnings.begin(), inner.warnings.end(), std::back_inserter(out.warnings));
  }
}

// Heads layer by layer are no number that an answer has.
void WarnHeadLists(const Model& model, const ModelEncoding& out) {
  for (const std::string_view key : {"num_attention_heads", "num_key_value_heads"}) {
    const bool of_queries = key == "num_attention_heads";
    const auto is_open = [&](const LayerEncoding& layer) {
      return layer.kind != PositionKind::kNone && (of_queries ? layer.num_q_heads : layer.num_kv_heads) == 0;
    };
    if (!model.text.IsList(key) || std::none_of(out.layers.begin(), out.layers.end(), is_open)) continue;
    model.problems->Warn(model.text.PathOf(key), "a list: how many heads each layer has is not answered");
  }
}

// What the class around a language model adds to its layers.
void ReadBeside(const Network& network, const TextPath& path, const Family* of_text, Problems& problems,
                ModelEncoding& out) {
  if (path.keys.empty()) return;
  const std::string name = network.object.String("model_type").value_or("");
  const Family* whole = FindFamily(name);
  if (whole == nullptr || whole == of_text || whole->beside == nullptr) return;
  whole->beside({network.object, network.object, whole, Shortened(name), &problems}, out);
}

void ReadNetwork(const Network& network, Problems& problems, ModelEncoding& out) {
  const TextPath path = FindText(network.object);
  if (!problems.ok()) return;
  const JsonObject& text = path.text();
  std::string type_name;
  const Family* family = Choose(network, text, type_name, problems);
  const bool unknown_part = family == &kUnknownFamily && !network.part.empty();
  const Model model{network.object, text, family, type_name, &problems};
  if (out.model_type.empty()) out.model_type = Shortened(network.object.String("model_type").value_or(type_name));
  // A file that only holds others: its positions are those of its parts.
  const bool wrapper = (family == &kUnknownFamily || text.IsObject("decoder")) && !PartsBeside(path).empty() &&
                       !model.HasRopeKeys() && text.FirstOf({"hidden_size", "d_model", "n_embd"}).empty();
  if (!wrapper && unknown_part && !model.HasRopeKeys()) {
    const bool named = network.object.Has("model_type");
    problems.Warn(named ? network.object.PathOf("model_type") : network.object.path(),
                  absl::StrCat("not read: class ", type_name, " is unknown"));
  } else if (!wrapper && problems.ok()) {
    CheckSizes(model);
    if (!problems.ok()) return;
    family->read(model, out);
    AddClassTables(model, out);
    ListHeads(model, out.layers);
    std::vector<Note> unread;
    if (problems.ok()) unread = UnreadPositionKeys(model, out);
    if (problems.ok()) WarnContradictions(model, path, out);
    if (problems.ok()) WarnHeadLists(model, out);
    if (problems.ok()) ReadBeside(network, path, family, problems, out);
    for (Note& note : UnreadKeysAround(model, path, out)) unread.push_back(std::move(note));
    for (Note& note : unread) problems.Warn(note.field, std::move(note.message));
  }
  for (LayerEncoding& layer : out.layers) {
    layer.part = JoinPart(network.part, layer.part);
    layer.layer_type = JoinPart(network.part, layer.layer_type);
  }
  if (!problems.ok()) return;
  if (text.Has("dual_chunk_attention_config")) {
    problems.Warn(text.PathOf("dual_chunk_attention_config"),
                  "dual chunk attention pairs other position ids beyond chunk_size; the frequencies are as given");
  }
  for (const Note& note : UnknownRopeKeys(text)) problems.Warn(note.field, note.message);
  auto warnings = problems.TakeWarnings();
  std::move(warnings.begin(), warnings.end(), std::back_inserter(out.warnings));
  ReadParts(network, path, family, out);
}

}  // namespace

std::string KeyOfField(const std::map<std::string, std::string, std::less<>>& key_of, std::string_view field) {
  std::string_view leaf = field.substr(field.rfind('.') + 1);  // npos + 1 is 0: the whole field
  const size_t bracket = std::min(leaf.find('['), leaf.size());
  const std::string index(leaf.substr(bracket));
  const auto known = key_of.find(leaf.substr(0, bracket));
  return known == key_of.end() ? "" : known->second + index;
}

absl::StatusOr<ModelEncoding> ReadModelConfig(std::string_view json) {
  rapidjson::Document document;
  if (absl::Status status = ParseConfig(json, document); !status.ok()) return status;
  Problems problems;
  AddDefaultParts(document, problems);
  ModelEncoding out;
  ReadNetwork({JsonObject(document, "", &problems), "", "", "", 0}, problems, out);
  if (!problems.ok()) return problems.status();
  ListTables(out);
  return out;
}

}  // namespace phasor::server
