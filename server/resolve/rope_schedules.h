// From a rope dict to a schedule: one function per rope type, and the table of the names in use.
#ifndef PHASOR_SERVER_RESOLVE_ROPE_SCHEDULES_H_
#define PHASOR_SERVER_RESOLVE_ROPE_SCHEDULES_H_

#include <map>
#include <string>
#include <string_view>

#include "server/resolve/rope_parameters.h"

namespace phasor::server {

// A spec on its way: what was read, and which configuration key each of its fields came from, so that an error of
// Canonicalize can name the key.
struct RopeDraft {
  RopeSpec spec;
  LayerEncoding layer;
  bool own_attention_factor = false;                        // spec.attention_factor is not the file's
  std::map<std::string, std::string, std::less<>> key_of;   // last component of the spec's field → configuration path
  std::map<std::string, std::string, std::less<>> made_of;  // the same → how the number was made, as NumberSource has it

  void Take(std::string_view leaf, const NumberSource& from) {
    key_of.insert_or_assign(std::string(leaf), from.path);
    made_of.insert_or_assign(std::string(leaf), from.made);
  }
};

// The rope type that the request's dict names, "default" without one. `type` and `rope_type` are one key; the second wins.
std::string RopeTypeOf(const Model& model, const RopeRequest& request, RopeDraft& draft);

// Sets draft.spec.schedule (and attention_factor). A type that is known but not served sets draft.layer.unserved.
void ReadSchedule(const Model& model, const RopeRequest& request, std::string_view rope_type, RopeDraft& draft);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RESOLVE_ROPE_SCHEDULES_H_
