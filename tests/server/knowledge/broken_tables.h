// Tables with one thing wrong, made by plain arithmetic of the C library.
#ifndef PHASOR_TESTS_SERVER_KNOWLEDGE_BROKEN_TABLES_H_
#define PHASOR_TESTS_SERVER_KNOWLEDGE_BROKEN_TABLES_H_

#include <string>

#include "tests/server/knowledge/angle_samples.h"

namespace phasor::server {

struct Broken {
  std::string fault;  // name that the diagnosis must give
  DiagnoseInput input;
  double moved_ulps = 0;  // largest change of a stored value
};

inline constexpr int kFaultKinds = 18;
Broken DrawBroken(Random& random, int kind);

}  // namespace phasor::server

#endif  // PHASOR_TESTS_SERVER_KNOWLEDGE_BROKEN_TABLES_H_
