#include "server/knowledge/symptoms.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

namespace phasor::server {
namespace {

using Words = std::vector<std::string>;

// Lower case, cut at whatever is no letter or digit.
Words WordsOf(std::string_view text) {
  Words words;
  std::string word;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, {}));
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

std::vector<std::string_view> SayingsOf(const Symptom& symptom) {
  std::vector<std::string_view> sayings{symptom.name, symptom.words};
  sayings.insert(sayings.end(), symptom.aliases.begin(), symptom.aliases.end());
  return sayings;
}

// Words of less meaning than length.
bool IsFiller(const std::string& word) {
  static constexpr std::string_view kFillers[] = {"the", "a",    "an",   "is",    "are",  "of", "in",
                                                  "on",  "and",  "or",   "with",  "my",   "to", "at",
                                                  "it",  "than", "from", "after", "when", "n",  "model"};
  return std::find(std::begin(kFillers), std::end(kFillers), word) != std::end(kFillers);
}

// Whether two words share their beginning: "diverge", "diverges", "divergence".
bool Alike(const std::string& a, const std::string& b) {
  const size_t least = std::min(a.size(), b.size());
  const size_t shared = static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(least), b.begin()).first - a.begin());
  return a == b || (shared >= 4 && shared + 3 >= std::max(a.size(), b.size()));
}

// How much of the text a saying has.
double Likeness(const Words& text, std::string_view saying) {
  const Words words = WordsOf(saying);
  double shared = 0;
  for (const std::string& word : text) {
    if (IsFiller(word)) continue;
    shared += std::any_of(words.begin(), words.end(), [&](const std::string& other) { return Alike(word, other); }) ? 1 : 0;
  }
  return shared / static_cast<double>(text.size() + words.size());
}

}  // namespace

std::span<const Symptom> Symptoms() {
  static const auto* const symptoms = [] {
    auto* all = new std::vector<Symptom>;
    for (const auto part : {QualitySymptoms(), ServingSymptoms()}) all->insert(all->end(), part.begin(), part.end());
    return all;
  }();
  return *symptoms;
}

const Symptom* FindSymptom(std::string_view text) {
  const Words wanted = WordsOf(text);
  for (const Symptom& symptom : Symptoms()) {
    for (const std::string_view saying : SayingsOf(symptom)) {
      if (WordsOf(saying) == wanted) return &symptom;
    }
  }
  return nullptr;
}

std::vector<std::string_view> NearestSymptoms(std::string_view text, size_t most) {
  const Words wanted = WordsOf(text.substr(0, 200));
  std::vector<std::pair<double, std::string_view>> ranked;
  for (const Symptom& symptom : Symptoms()) {
    double best = 0;
    for (const std::string_view saying : SayingsOf(symptom)) best = std::max(best, Likeness(wanted, saying));
    if (best > 0) ranked.emplace_back(best, symptom.name);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string_view> names;
  for (size_t i = 0; i < std::min(most, ranked.size()); ++i) names.push_back(ranked[i].second);
  return names;
}

}  // namespace phasor::server
