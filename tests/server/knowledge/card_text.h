// All that a card or a symptom says, as one text.
#ifndef PHASOR_TESTS_SERVER_KNOWLEDGE_CARD_TEXT_H_
#define PHASOR_TESTS_SERVER_KNOWLEDGE_CARD_TEXT_H_

#include <string>
#include <string_view>

#include "kernels/encodings/cards/card_list.h"
#include "kernels/encodings/encoding.h"
#include "server/knowledge/symptoms.h"

namespace phasor::server {

inline std::string CardText(std::string_view scheme) {
  const Card& card = *FindScheme(scheme)->card;
  const CardDetails& details = *FindCardDetails(scheme);
  std::string text;
  for (const std::string_view part : {card.summary, card.formula, card.pitfalls, details.extrapolation})
    text.append(part).append("\n");
  for (const FailureDetail& failure : details.failures) {
    for (const std::string_view part : {failure.symptom, failure.cause, failure.check, failure.fix})
      text.append(part).append("\n");
  }
  return text;
}

inline std::string SymptomText(std::string_view name) {
  std::string text;
  for (const Symptom& symptom : Symptoms()) {
    if (symptom.name != name) continue;
    for (const SymptomStep& step : symptom.steps) {
      for (const std::string_view part : {step.cause, step.check, step.call, step.fix}) text.append(part).append("\n");
    }
  }
  return text;
}

}  // namespace phasor::server

#endif  // PHASOR_TESTS_SERVER_KNOWLEDGE_CARD_TEXT_H_
