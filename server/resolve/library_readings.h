// What transformers 5 makes of the keys that older files hold, where it is not what this program makes of them: the answer
// says both.
#ifndef PHASOR_SERVER_RESOLVE_LIBRARY_READINGS_H_
#define PHASOR_SERVER_RESOLVE_LIBRARY_READINGS_H_

#include <string>
#include <string_view>

#include "server/resolve/rope_schedules.h"

namespace phasor::server {

// One class. What a list of layer types means: "*" all of them, "" none, else their names with spaces between.
struct LibraryReading {
  // Of `rope_parameters` with one entry for all layer types, in a class that has one for each.
  enum class Flat : uint8_t { kRead, kNotRead, kRefused };

  std::string_view model_type = {};  // as Family::model_type
  // TYPE=KEY:BASE for every layer type: the key that gives its base, and the base without it. No key: the class's base
  // counts whatever the file says. Empty: rope_theta and 10000.
  std::string_view bases = {};
  std::string_view dict_bases = {};       // the same of files with a dict for all layer types; empty: as above
  std::string_view scaled = "*";          // layer types that such a dict scales; "!": it refuses types that are not its own
  std::string_view partial = {};          // where a partial_rotary_factor beside the dict counts, with rope type default
  std::string_view partial_scaled = "*";  // the same with a rope type that scales
  std::string_view partial_in_dict = {};  // where one in the dict counts, with rope type default
  bool whole_with_dict = false;  // a file's dict without the factor rotates all; the class's default is in its own dict
  bool dict_theta = true;        // whether rope_theta in a dict for all layer types counts
  bool old_type = true;          // whether `type` is read like rope_type
  Flat flat = Flat::kRead;
  bool null_dict = true;  // whether the class can be built with a rope_scaling of null
};

// Of a class of the library (transformers 5.24.0); null for others.
const LibraryReading* FindLibraryReading(std::string_view model_type);

// The key that gives the base of a layer type, and the base that the class has without it (0: not said).
struct LibraryBase {
  std::string_view key = "rope_theta";  // empty: no key
  double without = 0;
};
LibraryBase LibraryBaseOf(const LibraryReading& reading, std::string_view layer_type, bool with_dict = false);

// Warnings about what transformers 5 reads otherwise in a layer that has been read: its base, its width, its scaling.
// `rope_type` is the dict's, "default" without one.
void WarnLibraryReading(const Model& model, const RopeRequest& request, std::string_view rope_type, RopeDraft& draft);

// The rope type by which the class's own dict scales layers of a type, where a file has no dict; empty: by none.
std::string ClassRopeType(const Model& model, std::string_view layer_type);

// The same of an image tower, whose dict gives no more than a base.
void WarnAxialScaling(const Model& model, LayerEncoding& layer);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RESOLVE_LIBRARY_READINGS_H_
