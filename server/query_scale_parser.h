// Factors on queries by position.
#ifndef PHASOR_SERVER_QUERY_SCALE_PARSER_H_
#define PHASOR_SERVER_QUERY_SCALE_PARSER_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "phasor/v1/position_service.pb.h"

#include "kernels/program/rotation.h"

namespace phasor::server {

// Errors are InvalidField below `path`.
absl::StatusOr<PositionScale> ParseQueryScale(const v1::QueryScale& message, std::string_view path);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_QUERY_SCALE_PARSER_H_
