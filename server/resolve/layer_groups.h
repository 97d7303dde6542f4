// Which layers share a schedule: from layer_types, from a pattern that lives in class code, or none; and the loop that reads
// one LayerEncoding for each group.
#ifndef PHASOR_SERVER_RESOLVE_LAYER_GROUPS_H_
#define PHASOR_SERVER_RESOLVE_LAYER_GROUPS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "server/resolve/rope_parameters.h"

namespace phasor::server {

struct LayerGroup {
  std::string name;             // empty: the model has a single schedule
  std::vector<int64_t> layers;  // empty: all, or not said
  std::vector<Note> defaults;   // where class code made the group
  std::string entry;            // its name in a nested dict; empty: `name`
};

// The type that a group's layers have in the file: rules of classes go by it, also where the group has no name.
std::string_view TypeOf(const LayerGroup& group);

// What a family knows about one group before its dict is read; the fields are those of RopeRequest.
struct GroupRule {
  bool rotates = true;
  RopeRequest request;
  std::string query_scale;                         // of the group's layers, whether they rotate or not
  std::optional<QueryScaleRule> query_scale_rule;  // the same
  int64_t num_q_heads = 0, num_kv_heads = 0;       // the same; 0: the model's
  std::vector<Note> defaults;                      // the same
  std::vector<Note> warnings;                      // of layers that rotate
  std::vector<Note> head_defaults;                 // of request.head_dim, where it counts
};
// `type` is TypeOf the group; empty where the file names no type.
using RuleOf = std::function<GroupRule(std::string_view type)>;

// Whether layers of this type have attention; others carry no positions.
bool HasAttention(std::string_view type);

// The answer for a group that carries no positions.
LayerEncoding NoPositions(const Model& model, const LayerGroup& group);

// Groups by the list of names, in order of first appearance.
std::vector<LayerGroup> GroupByName(const std::vector<std::string>& names);

// The names at `key`, one for each layer; empty when there are none, or after an error: more than kMaxLayers names, or one
// longer than kMaxLayerTypeLength.
std::vector<std::string> LayerNames(const Model& model, std::string_view key);

// The same of whole numbers, 0 … `high`.
std::vector<int64_t> LayerIntegers(const Model& model, std::string_view key, int64_t high);
std::vector<double> LayerNumbers(const Model& model, std::string_view key);  // finite ones

// Whether there are at most kMaxLayerTypes groups, else an error at `key`.
bool FewTypes(const Model& model, std::string_view key, const std::vector<LayerGroup>& groups);

// Groups from the file's layer_types; empty when it has none. Layers that carry no attention are left out, and when just
// one type remains beside them, that is the model's single schedule, without a name.
std::vector<LayerGroup> GroupsFromFile(const Model& model);

// Groups without those that have no attention, of which there is a warning at `key`. Where one group is left, it is the
// model's single schedule; where none is, all stay.
std::vector<LayerGroup> WithAttention(const Model& model, std::string_view key, std::vector<LayerGroup> groups);

// As GroupsFromFile, else by `pattern`, the name of layer i of n.
std::vector<LayerGroup> GroupsOr(const Model& model, const std::function<std::string(int64_t i, int64_t n)>& pattern);

// layer i is full_attention when (i + 1) % period == 0 (period 0: always), else sliding_attention.
std::function<std::string(int64_t, int64_t)> EveryNthFull(int64_t period);

// Notes in every group that the class's pattern, not the file, decided which layers it has.
void NotePattern(const Model& model, std::string_view key, std::vector<LayerGroup>& groups);

// The request that the family's defaults make for a group, before any rule of its own.
GroupRule DefaultRule(const Model& model);

// What the file gives a group's first layer apart. transformers 5.20 and later saves it under the layer's number:
// "per_layer_config": {"05": {"head_dim": 512}}. Keys are numbers, with or without zeros in front; others are not read.
std::optional<JsonObject> LayerOverrides(const Model& model, const LayerGroup& group);

// Reads every group. An empty list stands for one group without a name, or for the entries of a nested dict.
void ReadGroups(const Model& model, std::vector<LayerGroup> groups, const RuleOf& rule, ModelEncoding& out);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RESOLVE_LAYER_GROUPS_H_
