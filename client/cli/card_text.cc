#include "client/cli/card_text.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "client/cli/text.h"
#include "client/cli/tool.h"

namespace phasor::cli {
namespace {

constexpr size_t kIndent = 2;

std::string Padded(const std::string& text, size_t width) {
  const size_t size = CharactersOf(text);
  return size < width ? text + std::string(width - size, ' ') : text;
}

void AppendSection(std::string& out, std::string_view title, std::string_view text) {
  if (text.empty()) return;
  absl::StrAppend(&out, "\n", View(title), "\n", Wrapped(text, kIndent));
}

void AppendParameters(std::string& out, const v1::GetSchemeResponse& card) {
  absl::StrAppend(&out, "\nParameters\n");
  for (const v1::ParameterCard& parameter : card.parameters()) {
    absl::StrAppend(&out, Wrapped(parameter.meaning(), 6, absl::StrCat("  ", parameter.name(), ": ")),
                    Wrapped(absl::StrCat("default ", parameter.default_value(), "; range ", parameter.range()), 6));
  }
}

// What, memory, operations in columns; below each row what it stands for.
void AppendCosts(std::string& out, const v1::GetSchemeResponse& card) {
  if (card.costs().empty()) return;
  size_t width = 0;
  for (const v1::CostCard& cost : card.costs()) width = std::max(width, CharactersOf(cost.what()));
  absl::StrAppend(&out, "\nCosts\n  ", Padded("", width), "      memory  operations\n");
  for (const v1::CostCard& cost : card.costs()) {
    absl::StrAppendFormat(&out, "  %s  %10s  %10s\n", Padded(cost.what(), width), FormatBytes(cost.bytes()),
                          cost.operations() > 0 ? FormatCount(cost.operations()) : "–");
    absl::StrAppend(&out, Wrapped(cost.note(), 6));
  }
}

void AppendFailures(std::string& out, const v1::GetSchemeResponse& card) {
  if (card.failures().empty()) return;
  absl::StrAppend(&out, "\nWhen it fails\n");
  for (const v1::FailureCard& failure : card.failures()) {
    absl::StrAppend(&out, Wrapped(failure.symptom(), 4, "  • "), Wrapped(failure.cause(), 11, "    cause  "),
                    Wrapped(failure.check(), 11, "    check  "), Wrapped(failure.fix(), 11, "    fix    "));
  }
}

void AppendSnippets(std::string& out, const v1::GetSchemeResponse& card) {
  for (const v1::Snippet& snippet : card.snippets()) {
    absl::StrAppend(&out, "\nExample, ", snippet.language(), "\n");
    for (const absl::string_view line : absl::StrSplit(absl::string_view(snippet.code()), '\n')) {
      absl::StrAppend(&out, line.empty() ? "" : "    ", line, "\n");
    }
    while (out.ends_with("\n\n")) out.pop_back();
  }
}

}  // namespace

size_t CharactersOf(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string Wrapped(std::string_view text, size_t indent, std::string_view lead, size_t columns) {
  std::string out, line(lead);
  if (lead.empty()) line.assign(indent, ' ');
  bool bare = true;  // the line has no word yet
  for (const absl::string_view word : absl::StrSplit(View(text), ' ', absl::SkipEmpty())) {
    const std::string_view plain(word.data(), word.size());
    if (!bare && CharactersOf(line) + 1 + CharactersOf(plain) > columns) {
      absl::StrAppend(&out, line, "\n");
      line.assign(indent, ' ');
      bare = true;
    }
    absl::StrAppend(&line, bare ? "" : " ", word);
    bare = false;
  }
  return absl::StrCat(out, line, "\n");
}

std::string FormatCount(double count) {
  constexpr std::array kPrefixes = {"", " k", " M", " G", " T", " P", " E", " Z", " Y"};
  size_t prefix = 0;
  for (; count >= 999.5 && prefix + 1 < kPrefixes.size(); count /= 1000) ++prefix;
  return absl::StrFormat("%.3g%s", count, kPrefixes[prefix]);
}

std::string CardText(const v1::GetSchemeResponse& card) {
  std::string text =
      absl::StrCat(card.scheme().title(), "  (", card.scheme().name(), ")\n\n", Wrapped(card.scheme().summary(), 0));
  AppendSection(text, "Formula", card.formula());
  AppendSection(text, "LaTeX", card.latex());
  AppendParameters(text, card);
  AppendSection(text, "Used by", card.used_by());
  AppendSection(text, "How far it carries", card.extrapolation());
  AppendCosts(text, card);
  AppendSection(text, "How it goes wrong", card.pitfalls());
  AppendFailures(text, card);
  AppendSnippets(text, card);
  AppendSection(text, "Related", absl::StrJoin(card.related(), ", "));
  AppendSection(text, "Source", card.source());
  return text;
}

}  // namespace phasor::cli
