// The sub-configurations of a file: image and sound towers, encoders, heads that draft. Each is read as a model of its own.
#ifndef PHASOR_SERVER_RESOLVE_PARTS_H_
#define PHASOR_SERVER_RESOLVE_PARTS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/resolve/json_reader.h"

namespace phasor::server {

// Bounds on what one file can ask for.
inline constexpr int kMaxParts = 32;
inline constexpr int kMaxPartDepth = 4;

// The way from an object to the part that describes its language model.
struct TextPath {
  std::vector<JsonObject> objects;  // from the object to its language model; at least the object itself
  std::vector<std::string> keys;    // one for each step

  const JsonObject& text() const { return objects.back(); }
};
// A language model's configuration of another type than an object is an error.
TextPath FindText(const JsonObject& object);

struct Part {
  std::string name;  // "vision", "audio", "encoder" …: the key without _config
  std::string key;
  JsonObject object;
  JsonObject parent;
};

// The sub-configurations beside the language model, in the order of the file. Of one that the class has and that is no
// object there is a warning in `problems`, where that is not null.
std::vector<Part> PartsBeside(const TextPath& path, Problems* problems = nullptr);

// A row of the table of parts: what a class makes of one of its keys.
struct PartClass {
  std::string_view parent;  // a family's name
  std::string_view key;
  std::string_view model_type;     // as the library writes it
  std::string_view defaults = {};  // JSON: what the class around it changes in the part's own defaults; may be empty
};
std::span<const PartClass> PartClasses();

// The class of a part whose own configuration does not name it, by the class around it and the key; empty: not known.
std::string_view ClassOfPart(std::string_view parent_type, std::string_view key);

// Puts the sub-configurations that the classes of a file would make by themselves where it has none, each with the class's
// defaults and a warning in `problems`. A language model whose keys stand beside the others is left as it is.
void AddDefaultParts(rapidjson::Document& document, Problems& problems);

// "audio" under "talker" is "talker.audio".
std::string JoinPart(std::string_view outer, std::string_view inner);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RESOLVE_PARTS_H_
