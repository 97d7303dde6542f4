// What to look at when a model misbehaves: a closed list, each symptom with its checks in order.
#ifndef PHASOR_SERVER_KNOWLEDGE_SYMPTOMS_H_
#define PHASOR_SERVER_KNOWLEDGE_SYMPTOMS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace phasor::server {

// The likeliest and quickest checks come first.
struct SymptomStep {
  std::string_view cause;
  std::string_view check;  // what to look at, and what it says
  std::string_view call;   // a command line of the tool; capital words and file names are the caller's
  std::string_view fix;
};

struct Symptom {
  std::string_view name;                      // "worse_beyond_length"
  std::string_view words;                     // "worse beyond N tokens"
  std::span<const std::string_view> aliases;  // other ways to say it
  std::span<const SymptomStep> steps;
};

std::span<const Symptom> Symptoms();

// By name, words or an alias: case and punctuation do not count. Null: none.
const Symptom* FindSymptom(std::string_view text);

// Names of the symptoms nearest to a text that none is, nearest first; up to `most`. May be empty.
std::vector<std::string_view> NearestSymptoms(std::string_view text, size_t most);

// The parts of the list.
std::span<const Symptom> QualitySymptoms();
std::span<const Symptom> ServingSymptoms();

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_SYMPTOMS_H_
