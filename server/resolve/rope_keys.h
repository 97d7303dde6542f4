// Which keys of a rope dict are read. One that is misspelt, or that belongs to another rope type, would otherwise be as good
// as absent without a word.
#ifndef PHASOR_SERVER_RESOLVE_ROPE_KEYS_H_
#define PHASOR_SERVER_RESOLVE_ROPE_KEYS_H_

#include <string_view>
#include <vector>

#include "server/resolve/json_reader.h"

namespace phasor::server {

// Warnings at most; one more counts the rest.
inline constexpr int kMostUnreadKeys = 16;

// A warning for every key of `dict` that its rope type does not read. Null values count as absent.
std::vector<Note> UnreadRopeKeys(const JsonObject& dict, std::string_view rope_type);

// A warning for every key beside those dicts that speaks of rotation by its name and that no class has: one that is
// misspelt.
std::vector<Note> UnknownRopeKeys(const JsonObject& text);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RESOLVE_ROPE_KEYS_H_
