#include "client/cli/card_html.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "client/cli/card_text.h"
#include "client/cli/text.h"
#include "client/cli/tool.h"

namespace phasor::cli {
namespace {

constexpr std::array<std::string_view, 4> kGroups = {"Rotary", "Absolute", "Biases on scores", "Terms of scores"};

constexpr char kStyle[] = R"css(
:root { color-scheme: light dark; --paper: #fdfdfb; --panel: #f3f3ee; --ink: #1d2126; --faint: #646b73; --line: #d7d8d2;
  --accent: #0b5cad; --hot: #c2410c; --cold: #1d5fae; }
@media (prefers-color-scheme: dark) { :root { --paper: #15181c; --panel: #1e2328; --ink: #e4e6e8; --faint: #9aa3ad;
  --line: #363c44; --accent: #7cb7ff; --hot: #ff9a5c; --cold: #6fb2ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1.5rem 1.25rem 4rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, sans-serif; overflow-wrap: break-word; }
body.poster { max-width: 110rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: .6rem 0 .2rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; border-bottom: 1px solid var(--line); padding-bottom: .2rem; }
h3 { font-size: 1rem; margin: 0; }
a { color: var(--accent); }
nav, .name, figcaption, .note { color: var(--faint); font-size: .88rem; }
code, pre { font: .86rem/1.45 ui-monospace, monospace; }
pre { background: var(--panel); padding: .8rem 1rem; overflow-x: auto; border-radius: 6px; }
.formula { white-space: pre-wrap; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .4rem .7rem .4rem 0; border-bottom: 1px solid var(--line); }
td.number, th.number { text-align: right; white-space: nowrap; }
figure { margin: 1rem 0; max-width: 34rem; }
figure svg { width: 100%; height: auto; }
.grid { display: grid; gap: .9rem; grid-template-columns: repeat(auto-fill, minmax(15.5rem, 1fr)); }
.tile { background: var(--panel); border: 1px solid var(--line); border-radius: 8px; padding: .7rem .8rem; min-width: 0; }
.tile a { text-decoration: none; }
.tile p { margin: .35rem 0 0; font-size: .84rem; line-height: 1.4; }
.tile svg { display: block; width: 100%; height: auto; margin-top: .5rem; }
.spark text { font: 9px system-ui, sans-serif; fill: var(--faint); }
.spark .axis { fill: none; stroke: var(--line); }
.spark .curve { fill: none; stroke: var(--accent); stroke-width: 1.6; }
.spark .hot { fill: var(--hot); }
.spark .cold { fill: var(--cold); }
@media print { body { max-width: none; } .tile { break-inside: avoid; } }
)css";

std::string Page(std::string_view title, std::string_view body_class, const std::string& body) {
  return absl::StrCat("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
                      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>", Escaped(title),
                      "</title>\n<style>", kStyle, "</style>\n</head>\n<body",
                      body_class.empty() ? "" : absl::StrCat(" class=\"", View(body_class), "\""), ">\n", body,
                      "</body>\n</html>\n");
}

std::string Link(std::string_view scheme) {
  return absl::StrCat("<a href=\"", Escaped(scheme), ".html\">", Escaped(scheme), "</a>");
}

void AppendParagraph(std::string& html, std::string_view title, std::string_view text) {
  if (!text.empty()) absl::StrAppend(&html, "<h2>", View(title), "</h2>\n<p>", Escaped(text), "</p>\n");
}

void AppendParameters(std::string& html, const v1::GetSchemeResponse& card) {
  absl::StrAppend(&html, "<h2>Parameters</h2>\n<div class=\"scroll\"><table>\n",
                  "<tr><th>name</th><th>meaning</th><th>default</th><th>range</th></tr>\n");
  for (const v1::ParameterCard& parameter : card.parameters()) {
    absl::StrAppend(&html, "<tr><td><code>", Escaped(parameter.name()), "</code></td><td>", Escaped(parameter.meaning()),
                    "</td><td>", Escaped(parameter.default_value()), "</td><td>", Escaped(parameter.range()),
                    "</td></tr>\n");
  }
  absl::StrAppend(&html, "</table></div>\n");
}

void AppendCosts(std::string& html, const v1::GetSchemeResponse& card) {
  absl::StrAppend(&html, "<h2>Costs</h2>\n<div class=\"scroll\"><table>\n",
                  "<tr><th>what</th><th class=\"number\">memory</th><th class=\"number\">operations</th><th></th></tr>\n");
  for (const v1::CostCard& cost : card.costs()) {
    absl::StrAppend(&html, "<tr><td>", Escaped(cost.what()), "</td><td class=\"number\">", FormatBytes(cost.bytes()),
                    "</td><td class=\"number\">", cost.operations() > 0 ? FormatCount(cost.operations()) : "–",
                    "</td><td class=\"note\">", Escaped(cost.note()), "</td></tr>\n");
  }
  absl::StrAppend(&html, "</table></div>\n");
}

void AppendFailures(std::string& html, const v1::GetSchemeResponse& card) {
  absl::StrAppend(&html, "<h2>When it fails</h2>\n<div class=\"scroll\"><table>\n",
                  "<tr><th>symptom</th><th>cause</th><th>check</th><th>fix</th></tr>\n");
  for (const v1::FailureCard& failure : card.failures()) {
    absl::StrAppend(&html, "<tr><td>", Escaped(failure.symptom()), "</td><td>", Escaped(failure.cause()), "</td><td>",
                    Escaped(failure.check()), "</td><td>", Escaped(failure.fix()), "</td></tr>\n");
  }
  absl::StrAppend(&html, "</table></div>\n");
}

void AppendRelated(std::string& html, const v1::GetSchemeResponse& card, const std::vector<PictureCard>& all) {
  if (card.related().empty()) return;
  absl::StrAppend(&html, "<h2>Related</h2>\n<p>");
  for (int i = 0; i < card.related_size(); ++i) {
    const bool known = std::ranges::any_of(all, [&](const auto& c) { return c.card.scheme().name() == card.related(i); });
    absl::StrAppend(&html, i > 0 ? ", " : "", known ? Link(card.related(i)) : Escaped(card.related(i)));
  }
  absl::StrAppend(&html, "</p>\n");
}

void AppendFigure(std::string& html, const std::string& svg, std::string_view caption) {
  if (svg.empty()) return;
  absl::StrAppend(&html, "<figure>", svg, "<figcaption>", Escaped(caption), "</figcaption></figure>\n");
}

// A small card of the poster or the index.
std::string Tile(const PictureCard& card, bool with_picture) {
  const v1::SchemeSummary& scheme = card.card.scheme();
  // The index has the whole summary, the poster its first sentence.
  const size_t end = scheme.summary().find(". ");
  const std::string text = with_picture && end != std::string::npos ? scheme.summary().substr(0, end + 1) : scheme.summary();
  return absl::StrCat("<div class=\"tile\"><h3><a href=\"", Escaped(scheme.name()), ".html\">", Escaped(scheme.title()),
                      "</a></h3><span class=\"name\">", Escaped(scheme.name()), "</span>", with_picture ? card.svg : "",
                      "<p>", Escaped(text), "</p></div>\n");
}

std::string Tiles(const std::vector<PictureCard>& all, bool with_pictures) {
  std::string html;
  for (const std::string_view group : kGroups) {
    std::string tiles;
    for (const PictureCard& card : all) {
      if (GroupOf(card.card) == group) tiles += Tile(card, with_pictures);
    }
    if (!tiles.empty()) absl::StrAppend(&html, "<h2>", View(group), "</h2>\n<div class=\"grid\">\n", tiles, "</div>\n");
  }
  return html;
}

}  // namespace

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string_view GroupOf(const v1::GetSchemeResponse& card) {
  if (card.scheme().family() == "bias") return kGroups[2];
  if (card.scheme().family() == "term") return kGroups[3];
  const bool rotary = card.example().has_rope() || card.example().has_pope() || card.example().has_fope();
  return rotary ? kGroups[0] : kGroups[1];
}

std::string CardPage(const PictureCard& picture, const std::vector<PictureCard>& all) {
  const v1::GetSchemeResponse& card = picture.card;
  std::string html = absl::StrCat("<nav><a href=\"index.html\">all schemes</a> · <a href=\"poster.html\">poster</a> · ",
                                  View(GroupOf(card)), "</nav>\n<h1>", Escaped(card.scheme().title()),
                                  "</h1>\n<span class=\"name\">", Escaped(card.scheme().name()),
                                  card.scheme().needs_sequence_length() ? " · depends on the sequence length" : "",
                                  "</span>\n<p>", Escaped(card.scheme().summary()), "</p>\n");
  AppendFigure(html, picture.plot.empty() ? picture.svg : picture.plot, picture.caption);
  absl::StrAppend(&html, "<h2>Formula</h2>\n<pre class=\"formula\">", Escaped(card.formula()),
                  "</pre>\n<p class=\"note\">LaTeX</p>\n<pre class=\"formula\">", Escaped(card.latex()), "</pre>\n");
  AppendParameters(html, card);
  AppendParagraph(html, "Used by", card.used_by());
  AppendParagraph(html, "How far it carries", card.extrapolation());
  AppendCosts(html, card);
  AppendParagraph(html, "How it goes wrong", card.pitfalls());
  AppendFailures(html, card);
  for (const v1::Snippet& snippet : card.snippets()) {
    absl::StrAppend(&html, "<h2>Example, ", Escaped(snippet.language()), "</h2>\n<pre><code>", Escaped(snippet.code()),
                    "</code></pre>\n");
  }
  AppendRelated(html, card, all);
  AppendParagraph(html, "Source", card.source());
  return Page(card.scheme().title(), "", html);
}

std::string IndexPage(const std::vector<PictureCard>& all) {
  return Page("Position encodings", "",
              absl::StrCat("<h1>Position encodings</h1>\n<p>", all.size(),
                           " schemes. <a href=\"poster.html\">All at a glance</a></p>\n", Tiles(all, false)));
}

std::string PosterPage(const std::vector<PictureCard>& all) {
  return Page(
      "Position encodings at a glance", "poster",
      absl::StrCat("<nav><a href=\"index.html\">all schemes</a></nav>\n<h1>Position encodings at a glance</h1>\n",
                   "<p>Rotary: the wavelength of every pair on a logarithmic scale. Absolute: the table, positions ",
                   "downwards. Biases: by distance, a curve a head, or queries by keys. Terms: queries by keys. Positive ",
                   "and negative values have colours of their own; cells without a value are empty.</p>\n",
                   Tiles(all, true)));
}

}  // namespace phasor::cli
