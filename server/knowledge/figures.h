// The numbers behind a choice.
#ifndef PHASOR_SERVER_KNOWLEDGE_FIGURES_H_
#define PHASOR_SERVER_KNOWLEDGE_FIGURES_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/encodings/encoding.h"
#include "server/knowledge/wishes.h"

namespace phasor::server {

// A number with its name; name, unit and meaning are constants of this program.
struct Figure {
  std::string_view name;
  double value = 0;
  std::string_view unit;
  std::string_view meaning;
};

// What sentences fill in: name → text.
using Words = std::map<std::string, std::string, std::less<>>;

struct Numbers {
  std::vector<Figure> figures;  // for readers
  Words words;                  // figures, and numbers of the spec
};

// Numbers of the wishes alone.
Words WordsOf(const Wishes& wishes);

// Numbers of a choice. `old_frequencies`: radians per position of what the weights know, pair by pair; empty where that is
// the choice's own.
Numbers NumbersOf(const Wishes& wishes, const EncodingSpec& canonical, const Resolved& resolved,
                  const std::vector<double>& old_frequencies);

// `sentence` with every {name} of `words` filled in.
std::string FillIn(std::string_view sentence, const Words& words);

// Six digits at most: "0.125", "40889.9", "131072".
std::string NumberText(double value);

// Distance at which a slope takes this much off a score: e^7 is about 1100.
inline constexpr double kFarBias = 7;

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_FIGURES_H_
