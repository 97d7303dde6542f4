#include "server/resolve/rope_keys.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "server/resolve/position_keys.h"

namespace phasor::server {
namespace {

using Keys = std::array<std::string_view, 10>;  // the rest are empty

// What every type reads.
constexpr Keys kCommon{
    "rope_type",         "type",          "rope_theta", "partial_rotary_factor", "llama_4_scaling_beta", "mrope_section",
    "mrope_interleaved", "xdrope_section"};
constexpr Keys kYarn{"factor",         "original_max_position_embeddings",
                     "beta_fast",      "beta_slow",
                     "truncate",       "attention_factor",
                     "attn_factor",    "mscale",
                     "mscale_all_dim", "extra_method"};
constexpr Keys kLongRope{"short_factor",     "long_factor",  "factor",     "original_max_position_embeddings",
                         "attention_factor", "short_mscale", "long_mscale"};

struct TypeKeys {
  std::string_view type;
  Keys keys;  // that it reads or has a word about, beside the common ones
};
constexpr TypeKeys kTypes[] = {
    {"default", {}},
    {"mrope", {}},
    {"xdrope", {"alpha", "factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"}},
    {"linear", {"factor"}},
    {"ntk", {"factor", "mixed_b"}},
    {"dynamic", {"factor", "alpha", "original_max_position_embeddings"}},
    {"yarn", kYarn},
    {"deepseek_yarn", kYarn},
    {"telechat3-yarn", kYarn},
    {"llama3", {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}},
    {"longrope", kLongRope},
    {"su", kLongRope},
    {"proportional", {"factor"}},
};

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

bool Has(const Keys& keys, std::string_view key) {
  return !key.empty() && std::find(keys.begin(), keys.end(), key) != keys.end();
}

bool OfAnyType(std::string_view key) {
  return std::any_of(std::begin(kTypes), std::end(kTypes), [&](const TypeKeys& each) { return Has(each.keys, key); });
}

std::string List(const Keys& own) {
  std::string text;
  for (const Keys* keys : {&own, &kCommon}) {
    for (const std::string_view key : *keys) {
      if (!key.empty()) absl::StrAppend(&text, text.empty() ? "" : ", ", Absl(key));
    }
  }
  return text;
}

bool IsRead(const JsonObject& dict, const Keys& own, std::string_view key) {
  if (dict.IsNull(key) || Has(kCommon, key) || Has(own, key)) return true;
  // A factor of 1 changes nothing in any scheme.
  if (key == "factor" && dict.IsNumber(key) && dict.Number(key) == 1.0) return true;
  // The scale of queries starts there, whatever the type.
  return key == "original_max_position_embeddings" && dict.Has("llama_4_scaling_beta");
}

}  // namespace

std::vector<Note> UnreadRopeKeys(const JsonObject& dict, std::string_view rope_type) {
  constexpr size_t kLongestKey = 48;
  const auto type =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeKeys& each) { return each.type == rope_type; });
  if (type == std::end(kTypes)) return {};
  std::set<std::string> unread;
  for (const std::string& key : dict.Keys()) {
    if (!IsRead(dict, type->keys, key)) unread.insert(key);
  }
  std::vector<Note> notes;
  for (const std::string& key : unread) {
    const std::string path = dict.PathOf(absl::CHexEscape(absl::string_view(key).substr(0, kLongestKey)));
    if (notes.size() == kMostUnreadKeys) {
      notes.push_back({path, absl::StrCat("not read, like ", unread.size() - kMostUnreadKeys - 1, " keys more")});
      break;
    }
    notes.push_back({path, OfAnyType(key) ? absl::StrCat("not read: the rope type is ", Absl(rope_type))
                                          : absl::StrCat("not read: no such key is known; with rope type ", Absl(rope_type),
                                                         " there are ", List(type->keys))});
  }
  return notes;
}

std::vector<Note> UnknownRopeKeys(const JsonObject& text) {
  constexpr size_t kLongestKey = 48;
  constexpr std::string_view kStems[] = {"rope", "rotary", "mrope", "yarn"};
  std::set<std::string> unknown;
  for (const std::string& key : text.Keys()) {
    const bool speaks = std::any_of(std::begin(kStems), std::end(kStems),
                                    [&](std::string_view stem) { return std::string_view(key).starts_with(stem); });
    if (!speaks || text.IsNull(key) || IsPositionKey(key)) continue;
    unknown.insert(key);
  }
  std::vector<Note> notes;
  for (const std::string& key : unknown) {
    if (notes.size() == kMostUnreadKeys) break;
    notes.push_back(
        {text.PathOf(absl::CHexEscape(absl::string_view(key).substr(0, kLongestKey))), "not read: no class has such a key"});
  }
  return notes;
}

}  // namespace phasor::server
