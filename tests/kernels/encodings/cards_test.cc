// Cards of the schemes: that none is without one, and what they say where introductions get it wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "kernels/encodings/cards/card_details.h"
#include "kernels/encodings/cards/card_snippets.h"
#include "kernels/encodings/encoding.h"

namespace phasor {
namespace {

// What is wrong with a piece of LaTeX; empty: nothing that can be seen without typesetting it.
std::string LatexProblem(std::string_view latex) {
  int depth = 0, left = 0;
  std::vector<std::string> environments;
  for (size_t i = 0; i < latex.size(); ++i) {
    if (latex[i] == '$') return "has delimiters";
    if (latex[i] == '{') ++depth;
    if (latex[i] == '}' && --depth < 0) return "closes a brace that is not open";
    if (latex[i] != '\\') continue;
    const std::string_view rest = latex.substr(i + 1);
    if (rest.empty()) return "ends in a backslash";
    if (rest.starts_with("left") && !rest.starts_with("leftarrow")) ++left;
    if (rest.starts_with("right") && !rest.starts_with("rightarrow") && --left < 0) return "\\right without \\left";
    for (const std::string_view word : {"begin{", "end{"}) {
      if (!rest.starts_with(word)) continue;
      const std::string name(rest.substr(word.size(), rest.find('}') - word.size()));
      if (word == "begin{") {
        environments.push_back(name);
      } else if (environments.empty() || environments.back() != name) {
        return "ends " + name + ", which is not open";
      } else {
        environments.pop_back();
      }
    }
    if (rest[0] == '{' || rest[0] == '}' || rest[0] == '\\') ++i;  // \{ \} and line ends are no braces
  }
  if (depth != 0) return "leaves a brace open";
  if (left != 0) return "\\left without \\right";
  return environments.empty() ? "" : "leaves " + environments.back() + " open";
}

TEST(LatexProblemTest, SeesWhatIsBroken) {
  EXPECT_EQ(LatexProblem(R"(\frac{a}{b} \left( x \right) \begin{cases} a \\ b \end{cases} \{ \leftarrow)"), "");
  for (const char* broken : {"{", "}", R"(\frac{a}{b)", "$x$", R"(\left( x)", R"(x \right))", R"(\begin{cases} x)",
                             R"(\begin{cases} x \end{pmatrix})", "x\\"}) {
    EXPECT_NE(LatexProblem(broken), "") << broken;
  }
}

TEST(CardsTest, EverySchemeHasOneInTheSameOrder) {
  const auto schemes = Schemes();
  const auto cards = AllCardDetails();
  ASSERT_EQ(schemes.size(), cards.size());
  for (size_t i = 0; i < cards.size(); ++i) EXPECT_EQ(schemes[i]->name, cards[i]->scheme);
  for (const Scheme* scheme : schemes) EXPECT_NE(FindCardDetails(scheme->name), nullptr) << scheme->name;
  EXPECT_EQ(FindCardDetails("rope"), nullptr);
  EXPECT_EQ(FindCardDetails(""), nullptr);
}

TEST(CardsTest, NothingIsEmpty) {
  for (const CardDetails* card : AllCardDetails()) {
    SCOPED_TRACE(card->scheme);
    EXPECT_EQ(LatexProblem(card->latex), "") << card->latex;
    EXPECT_GE(card->latex.size(), 15u);
    EXPECT_GE(card->extrapolation.size(), 80u);
    EXPECT_GE(card->failures.size(), 2u);
    for (const FailureDetail& failure : card->failures) {
      for (const std::string_view part : {failure.symptom, failure.cause, failure.check, failure.fix}) {
        ASSERT_GE(part.size(), 5u) << failure.symptom;
        EXPECT_TRUE(part.ends_with('.')) << part;
      }
    }
    EXPECT_FALSE(card->related.empty());
    std::set<std::string_view> names{card->scheme};
    for (const std::string_view name : card->related) {
      EXPECT_NE(FindScheme(name), nullptr) << name;
      EXPECT_TRUE(names.insert(name).second) << name << " twice, or the scheme itself";
    }
  }
}

TEST(CardsTest, ProgramsAreWhole) {
  for (const CardDetails* card : AllCardDetails()) {
    SCOPED_TRACE(card->scheme);
    const std::string pytorch = PytorchSnippet(*card), cpp = CppSnippet(*card), shell = PhasorSnippet(*card);
    EXPECT_NE(pytorch.find("import torch\n"), std::string::npos);
    EXPECT_NE(pytorch.find("\nresult = {"), std::string::npos);
    EXPECT_NE(cpp.find("int main() {"), std::string::npos);
    EXPECT_EQ(cpp.find('$'), std::string::npos) << "a part that was not filled in";
    EXPECT_NE(shell.find("phasor "), std::string::npos);
    EXPECT_NE(shell.find(card->example.spec), std::string::npos);
    for (const std::string& text : {pytorch, cpp, shell}) {
      EXPECT_TRUE(text.ends_with('\n'));
      for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find('\n', at), text.size());
        // A spec in JSON is one argument and stays in one line.
        if (text.compare(at, 7, "phasor ") != 0) {
          EXPECT_LE(end - at, 125u) << text.substr(at, end - at);
        }
        at = end + 1;
      }
    }
    const CardExample& example = card->example;
    EXPECT_NE(example.positions > 0, !example.fractional_positions.empty()) << "whole positions or fractional ones";
    EXPECT_EQ(example.sequence_length > 0, FindScheme(card->scheme)->needs_sequence_length);
  }
}

TEST(CardsTest, ExampleNumbersAreEighths) {
  const ExampleInput input{"x", {3, 7}, 2, 5};
  EXPECT_EQ(input.elements(), 21);
  EXPECT_EQ(ExampleValue(input, 0), -1);
  EXPECT_EQ(ExampleValue(input, 3), (15 - 8) / 8.0);
  EXPECT_EQ(ExampleValue(input, 4), (20 % 17 - 8) / 8.0);
}

// What is said wrongly elsewhere, and what the card has to say. Numbers are those that other tests compute.
struct RightStatement {
  std::string_view scheme;
  std::string_view text;
};
constexpr RightStatement kRightStatements[] = {
    {"alibi", "rewards distance"},                                             // not −s·j + s·i
    {"alibi", "slopes are positive constants"},                                // not learned, not negative
    {"alibi", "0.5, 0.25 … 0.00390625, then 0.7071, 0.3536, 0.1768, 0.0884"},  // not one series for 12 heads
    {"alibi", "no longer attending far away"},                                 // not "barely drops at any length"
    {"alibi", "slope 1/2) and 2560 for the last (slope 1/256)"},               // not 2^(−8/h), 2^(−9/h) …
    {"sinusoidal", "60611"},                                                   // not 2π·10000
    {"sinusoidal", "PE(m + k) = R_k·PE(m)"},                                   // not an orthogonal basis
    {"sinusoidal", "the difference itself does not"},                          // PE(p1) − PE(p2)
    {"sinusoidal", "order is encoded"},                                        // not "cannot model order"
    {"sinusoidal", "[max_len, D] broadcasts correctly"},                       // not "fails to add"
    {"sinusoidal", "768 against 769 raises"},                                  // not "broadcasts silently"
    {"learned", "9.2 MB"},                                                     // not "too big"
    {"learned", "padding moved every token"},                                  // not "masking makes padding harmless"
    {"rope_default", "the slow pairs, whose wavelength is longer"},            // not "high frequencies change too fast"
    {"rope_default", "Wq and Wk"},                                             // one style of two, equal by a permutation
    {"rope_default", "near 15962 bfloat16 steps by 64"},                       // the live hazard, not int64 division
    {"rope_ntk_aware", "a new base is not free"},                              // not "any length, zero cost"
    {"transformer_xl", "q·k, q·W_r R, u·k, v·W_r R"},                          // not (QKᵀ + QR + UKᵀ + VKᵀ)
    {"transformer_xl", "from keys − 1 down to 0"},                             // not a fixed table
    {"shaw", "nothing becomes zero"},                                          // clipping shares a row
    {"window_bias", "Resizing a full (tokens × tokens) matrix instead destroys it"},
    {"t5_bucket", "encoder–decoder attention, which has none"},
};

TEST(CardsTest, SaysTheRightThing) {
  for (const RightStatement& statement : kRightStatements) {
    const CardDetails* card = FindCardDetails(statement.scheme);
    ASSERT_NE(card, nullptr) << statement.scheme;
    std::string text(card->extrapolation);
    for (const FailureDetail& failure : card->failures) {
      for (const std::string_view part : {failure.symptom, failure.cause, failure.check, failure.fix}) {
        text.append("\n").append(part);
      }
    }
    EXPECT_NE(text.find(statement.text), std::string::npos) << statement.scheme << ": " << statement.text;
  }
}

}  // namespace
}  // namespace phasor
