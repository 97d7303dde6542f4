// The keys by which classes say how they encode positions, and the warning about one that a file gives to a class which has
// no such key: it would otherwise be as good as absent without a word.
#ifndef PHASOR_SERVER_RESOLVE_POSITION_KEYS_H_
#define PHASOR_SERVER_RESOLVE_POSITION_KEYS_H_

#include <string_view>
#include <vector>

#include "server/resolve/family.h"
#include "server/resolve/parts.h"

namespace phasor::server {

// Whether some class reads a key of this name beside its dicts, or published files have one.
bool IsPositionKey(std::string_view key);
// All of them.
std::vector<std::string_view> PositionKeys();

// A warning for every position key of the model with a value that means something, which its reader did not ask for and
// which the answer does not agree with, in the model's own object and in attn_config. To be called when the reader is done
// and nobody else has read the model's keys.
std::vector<Note> UnreadPositionKeys(const Model& model, const ModelEncoding& out);

// The same for the objects around the language model, where its own object does not repeat the key. Left out is what
// WarnContradictions compares.
std::vector<Note> UnreadKeysAround(const Model& model, const TextPath& path, const ModelEncoding& out);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RESOLVE_POSITION_KEYS_H_
