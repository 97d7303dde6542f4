// Which numbers an operation takes.
#ifndef PHASOR_SERVER_TABLE_SOURCE_H_
#define PHASOR_SERVER_TABLE_SOURCE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

#include "kernels/encodings/encoding.h"

namespace phasor::server {

// What both operations share: which numbers.
struct TableSource {
  CanonicalSpec spec;
  std::optional<int64_t> sequence_length;  // set when the scheme needs it
  Precision precision = Precision::kExact;
  int64_t weight_bytes = 0;             // of the spec's weights: what a plan that is kept keeps
  std::optional<int64_t> max_position;  // the model's own, as the caller says; for a warning only
  std::string path = "spec";            // of the spec in its item, for errors
};

// An error of the kernels library about the source's spec, with where that stands; others as they are.
absl::Status AtSource(const TableSource& source, absl::Status status);
// Where the spec stands that an error is about: "spec" unless AtSource said something else.
std::string SourcePathOf(const absl::Status& status);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_TABLE_SOURCE_H_
