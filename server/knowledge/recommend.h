// Which encoding to take: the decision table applied to wishes.
#ifndef PHASOR_SERVER_KNOWLEDGE_RECOMMEND_H_
#define PHASOR_SERVER_KNOWLEDGE_RECOMMEND_H_

#include <string>
#include <string_view>
#include <vector>

#include "kernels/encodings/encoding.h"
#include "server/knowledge/figures.h"
#include "server/knowledge/wishes.h"

namespace phasor::server {

struct RankedChoice {
  std::string_view rule;
  std::string scheme;
  CanonicalSpec spec;
  std::vector<std::string> reasons;
  std::vector<Figure> figures;
  std::vector<std::string> checks;
  std::string form;  // what to hold, on this target and within this limit
  double form_bytes = 0;
};

struct LeftOut {
  std::string_view rule;  // of the table; "memory", "refused" for what the numbers show
  std::string scheme;
  std::string reason;
};

struct Recommendation {
  std::vector<RankedChoice> choices;  // best first
  std::string contradiction;          // why there are none
  std::string_view contradiction_rule;
  std::vector<LeftOut> left_out;
};

// Every number of the wishes is in its range. Where a short tuning is to lengthen what nobody named, what such models
// usually have is assumed, and said.
Recommendation Recommend(Wishes wishes);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_RECOMMEND_H_
