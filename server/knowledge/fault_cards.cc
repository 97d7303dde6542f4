#include "server/knowledge/fault_cards.h"

#include <vector>

namespace phasor::server {

std::span<const FaultCard> FaultCards() {
  static const auto* const cards = [] {
    auto* all = new std::vector<FaultCard>;
    for (const auto part : {AngleFaultCards(), BiasFaultCards()}) all->insert(all->end(), part.begin(), part.end());
    return all;
  }();
  return *cards;
}

const FaultCard* FindFault(std::string_view name) {
  for (const FaultCard& card : FaultCards()) {
    if (card.name == name) return &card;
  }
  return nullptr;
}

}  // namespace phasor::server
