// The header of a .npy file (numpy's format 1.0 to 3.0).
#ifndef PHASOR_CLIENT_CLI_NPY_H_
#define PHASOR_CLIENT_CLI_NPY_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

#include "client/cli/array_file.h"

namespace phasor::cli {

// Magic, version and header of a C-ordered array, padded to 64 bytes. INVALID_ARGUMENT for bf16, which numpy lacks.
absl::StatusOr<std::string> NpyHeader(const ArrayInfo& info);

// A whole file: one byte string as an array without axes (|S). numpy.load(…)["…"].item() gives it back.
std::string NpyBytes(std::string_view text);

// What a header says, and how many bytes it takes.
struct NpyParsed {
  ArrayInfo info;
  size_t header_bytes = 0;
};
absl::StatusOr<NpyParsed> ParseNpyHeader(std::string_view bytes);

}  // namespace phasor::cli

#endif  // PHASOR_CLIENT_CLI_NPY_H_
