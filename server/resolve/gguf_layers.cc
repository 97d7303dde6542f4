#include "server/resolve/gguf_layers.h"

#include <algorithm>
#include <functional>

#include "kernels/encodings/spec_check.h"
#include "server/resolve/family.h"
#include "server/text.h"

namespace phasor::server {
namespace {

constexpr std::string_view kHeads = "attention.head_count";
constexpr std::string_view kKvHeads = "attention.head_count_kv";
constexpr std::string_view kWindow = "attention.sliding_window";
constexpr std::string_view kPattern = "attention.sliding_window_pattern";

int64_t BlockCount(const GgufKeys& keys) {
  const auto count = keys.Integer("block_count", 1, kMaxLayers);
  if (!count) keys.problems().Fail(keys.PathOf("block_count"), "nothing", Cat("a whole number, 1 … ", kMaxLayers));
  return count.value_or(1);
}

// Without the layers that predict further tokens.
int64_t MainLayers(const GgufKeys& keys) {
  const int64_t all = BlockCount(keys);
  return all - keys.Integer("nextn_predict_layers", 0, all).value_or(0);
}

std::vector<bool> Attends(const GgufKeys& keys, const GgufArchitecture& architecture, int64_t count, GgufGroup& group) {
  std::vector<bool> attends(static_cast<size_t>(count), true);
  if (architecture.attention == GgufAttention::kWhereHeads) {
    for (const std::string_view key : {kHeads, kKvHeads}) {
      const auto heads = keys.PerLayer(key, count, 0, kMaxHeads);
      for (size_t i = 0; heads && i < attends.size(); ++i) attends[i] = attends[i] && (*heads)[i] != 0;
    }
  } else if (architecture.attention == GgufAttention::kInterval) {
    if (const auto recurrent = keys.PerLayer("attention.recurrent_layers", count, 0, 1)) {
      for (size_t i = 0; i < attends.size(); ++i) attends[i] = (*recurrent)[i] == 0;
      return attends;
    }
    constexpr int64_t kInterval = 4;
    const auto given = keys.Integer("full_attention_interval", 1, kMaxLayers);
    if (!given) {
      group.defaults.push_back(
          {keys.PathOf("full_attention_interval"), Cat(kInterval, " (default of architecture ", architecture.name, ")")});
    }
    for (int64_t i = 0; i < count; ++i) attends[static_cast<size_t>(i)] = (i + 1) % given.value_or(kInterval) == 0;
  }
  return attends;
}

// Which layers slide: the file's list, its period, or the architecture's.
std::vector<bool> Slides(const GgufKeys& keys, const GgufArchitecture& architecture, int64_t count,
                         std::vector<Note>& defaults) {
  std::vector<bool> slides(static_cast<size_t>(count), false);
  if (keys.IsList(kPattern)) {
    const auto list = keys.PerLayer(kPattern, count, 0, 1);
    for (size_t i = 0; list && i < slides.size(); ++i) slides[i] = (*list)[i] != 0;
    return slides;
  }
  int64_t period = architecture.period;
  if (const auto given = keys.Integer(kPattern, 0, kMaxLayers)) {
    period = *given;
  } else if (period == 0) {
    keys.problems().Fail(keys.PathOf(kPattern), "nothing",
                         "a list with 1 for each layer with a sliding window, 0 for others");
    return slides;
  } else {
    defaults.push_back({keys.PathOf(kPattern), Cat("every ", period, "th layer has full attention (default of architecture ",
                                                   architecture.name, ")")});
  }
  for (int64_t i = 0; i < count; ++i) {
    const bool full = period != 0 && (architecture.full_first ? i % period == 0 : i % period == period - 1);
    slides[static_cast<size_t>(i)] = !full;
  }
  return slides;
}

std::vector<GgufGroup> Grouped(int64_t count, const std::vector<bool>& attends,
                               const std::function<GgufGroup(int64_t)>& group_of) {
  std::vector<GgufGroup> groups;
  for (int64_t i = 0; i < count; ++i) {
    if (!attends[static_cast<size_t>(i)]) continue;
    GgufGroup wanted = group_of(i);
    auto at = std::find_if(groups.begin(), groups.end(), [&](const GgufGroup& group) { return group.name == wanted.name; });
    if (at == groups.end()) at = groups.insert(groups.end(), std::move(wanted));
    at->layers.push_back(i);
  }
  return groups;
}

// Heads of a group's layers by a key that may be a number or a list.
int64_t Common(const GgufKeys& keys, std::string_view key, const GgufGroup& group, std::vector<Note>& notes) {
  if (!keys.IsList(key)) return keys.Integer(key, 0, kMaxHeads).value_or(0);
  const auto heads = keys.PerLayer(key, BlockCount(keys), 0, kMaxHeads);
  if (!heads || heads->empty()) return 0;
  int64_t common = -1;
  const auto differs = [&](int64_t value) { return common >= 0 && value != common; };
  for (size_t i = 0; i < heads->size(); ++i) {
    const bool member = group.layers.empty() || std::binary_search(group.layers.begin(), group.layers.end(), int64_t(i));
    if (!member) continue;
    if (differs((*heads)[i])) {
      notes.push_back({keys.PathOf(key), "differs between these layers"});
      return 0;
    }
    common = (*heads)[i];
  }
  return std::max<int64_t>(common, 0);
}

}  // namespace

std::vector<GgufGroup> GgufGroups(const GgufKeys& keys, const GgufArchitecture& architecture) {
  GgufGroup all;
  const bool windowed = keys.Integer(kWindow, 0, kMaxLength).value_or(0) > 0;
  GgufPattern pattern = architecture.pattern;
  if (architecture.window_decides && !windowed) pattern = GgufPattern::kOne;
  if (pattern == GgufPattern::kEveryFourth && keys.Has(kWindow) && !windowed) pattern = GgufPattern::kOne;
  if (pattern == GgufPattern::kOne && architecture.attention == GgufAttention::kAll) return {all};

  const int64_t count = MainLayers(keys);
  const std::vector<bool> attends = Attends(keys, architecture, count, all);
  const auto attending = std::count(attends.begin(), attends.end(), true);
  if (!keys.problems().ok()) return {};
  if (attending == 0) {
    keys.problems().Fail(keys.PathOf(kHeads), "no layer with attention", "some");
    return {};
  }
  if (attending != count) {
    keys.problems().Warn(keys.PathOf(kHeads),
                         Cat(count - attending, " of ", count, " layers have no attention: no positions"));
  }
  if (pattern == GgufPattern::kOne) {
    std::vector<GgufGroup> groups = Grouped(count, attends, [&](int64_t) { return all; });
    if (attending == count) groups.front().layers.clear();
    return groups;
  }
  if (pattern == GgufPattern::kEveryFourth) {
    return Grouped(count, attends, [&](int64_t i) {
      GgufGroup group;
      group.rotates = (i + 1) % 4 != 0;
      group.name = group.rotates ? "rope_layers" : "nope_layers";
      group.defaults.push_back({keys.PathOf("block_count"), "every 4th layer does not rotate, which no key says"});
      return group;
    });
  }
  std::vector<Note> defaults;
  const std::vector<bool> slides = Slides(keys, architecture, count, defaults);
  return Grouped(count, attends, [&](int64_t i) {
    GgufGroup group;
    group.sliding = slides[static_cast<size_t>(i)];
    group.rotates = group.sliding || architecture.full_rotates;
    group.name = group.sliding ? "sliding_attention" : "full_attention";
    group.defaults = defaults;
    return group;
  });
}

GgufHeads GgufHeadsOf(const GgufKeys& keys, const GgufGroup& group, std::vector<Note>& notes) {
  GgufHeads heads;
  heads.query = Common(keys, kHeads, group, notes);
  heads.key_value = keys.Has(kKvHeads) ? Common(keys, kKvHeads, group, notes) : heads.query;
  return heads;
}

}  // namespace phasor::server
