// Fields in which two canonical specs differ.
#ifndef PHASOR_SERVER_KNOWLEDGE_SPEC_FIELDS_H_
#define PHASOR_SERVER_KNOWLEDGE_SPEC_FIELDS_H_

#include <string>
#include <vector>

#include "kernels/encodings/spec.h"

namespace phasor::server {

struct FieldDifference {
  std::string field;  // "rope.base"
  std::string a, b;   // as JSON; empty: not there
};

// In the order of the fields; of long lists the elements that differ. At most `limit`.
std::vector<FieldDifference> DifferentFields(const EncodingSpec& a, const EncodingSpec& b, size_t limit);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_SPEC_FIELDS_H_
