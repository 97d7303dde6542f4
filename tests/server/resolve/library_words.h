// What an answer says in words that transformers 5 makes of a file, read back from its notes.
#ifndef PHASOR_TESTS_SERVER_RESOLVE_LIBRARY_WORDS_H_
#define PHASOR_TESTS_SERVER_RESOLVE_LIBRARY_WORDS_H_

#include <optional>
#include <regex>
#include <string>

#include "server/resolve/model_config.h"

namespace phasor::server {

// What the notes on a layer and on its file say that transformers 5 makes of it.
struct Said {
  std::string text;  // all of them; empty: the answer says that the library reads the same
  std::optional<double> base;
  std::optional<int64_t> pairs;
  bool refuses = false;       // cannot build the class from the file
  bool leaves_plain = false;  // does not scale by the file's dict
  bool scales_too = false;    // scales by the file's dict, and the answer does not
  std::string own_type;       // scales by the class's own dict, of this type
  std::string unclear;        // a note that says none of these
};

inline void Understand(const std::string& note, Said& said) {
  static const std::regex kBase(
      "base .* counts; transformers 5 takes ([^ ]+) in class .*|not given: base .*; transformers 5 takes ([^ ]+)");
  static const std::regex kPairs("[0-9]+ pairs rotate; transformers 5 rotates (?:all )?([0-9]+) in class .*");
  static const std::regex kOwn("null: .*; transformers 5 takes the class's own dict, of type ([a-z0-9]+), in class .*");
  static const std::regex kPlain(
      "transformers 5 does not read (?:it|`type`) in class .*: there the frequencies stay as they are, .*");
  static const std::regex kRefuses(
      "(?:.*; )?transformers 5 refuses (?:it|this dict|a flat dict|a number here)(?: in class |: ).*");
  static const std::regex kScales("transformers 5 scales these layers too in class .*");
  std::smatch found;
  if (std::regex_match(note, found, kBase)) {
    said.base = std::stod(found[found[1].matched ? 1 : 2]);
  } else if (std::regex_match(note, found, kPairs)) {
    said.pairs = std::stoll(found[1]);
  } else if (std::regex_match(note, found, kOwn)) {
    said.own_type = found[1];
  } else if (std::regex_match(note, kPlain)) {
    said.leaves_plain = true;
  } else if (std::regex_match(note, kRefuses)) {
    said.refuses = true;
  } else if (std::regex_match(note, kScales)) {
    said.scales_too = true;
  } else {
    said.unclear = note;
  }
}

inline Said SaidOfLibrary(const ModelEncoding& model, const LayerEncoding& layer) {
  Said said;
  for (const auto* notes : {&model.warnings, &layer.warnings}) {
    for (const Note& note : *notes) {
      for (const char* words : {"transformers 5 takes", "transformers 5 rotates", "transformers 5 does",
                                "transformers 5 refuses", "transformers 5 scales"}) {
        if (note.message.find(words) == std::string::npos) continue;
        said.text += note.field + ": " + note.message + "; ";
        Understand(note.message, said);
        break;
      }
    }
  }
  return said;
}

}  // namespace phasor::server

#endif  // PHASOR_TESTS_SERVER_RESOLVE_LIBRARY_WORDS_H_
