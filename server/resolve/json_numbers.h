// Numbers of a JSON text before a parser sees them.
#ifndef PHASOR_SERVER_RESOLVE_JSON_NUMBERS_H_
#define PHASOR_SERVER_RESOLVE_JSON_NUMBERS_H_

#include <string>
#include <string_view>

namespace phasor::server {

// The text with every number of more than 24 characters written as the shortest one that is the same double; what overflows
// a double, and all that is no number, stays as it is. RapidJSON 1.1 reads memory that is not its own on the way to a number
// below 10^-348 with many zeros behind the point.
std::string WithShortNumbers(std::string_view json);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RESOLVE_JSON_NUMBERS_H_
