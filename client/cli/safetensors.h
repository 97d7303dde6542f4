// The safetensors container: 8 bytes of header length, a JSON header, then the arrays' bytes.
#ifndef PHASOR_CLIENT_CLI_SAFETENSORS_H_
#define PHASOR_CLIENT_CLI_SAFETENSORS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

#include "client/cli/array_file.h"

namespace phasor::cli {

// Length and header, padded with blanks to a multiple of 8, for arrays that follow in this order without gaps.
std::string SafetensorsHeader(const std::vector<ArrayInfo>& arrays, const ArrayWriter::Metadata& metadata);

// A flat JSON object of strings, for the places where metadata goes.
std::string MetadataJson(const ArrayWriter::Metadata& metadata);

// Every array of a file in memory, in the order of their bytes. INVALID_ARGUMENT when ranges overlap, leave the file or
// disagree with shape and type.
absl::StatusOr<std::vector<LoadedArray>> ParseSafetensors(std::string_view bytes);

}  // namespace phasor::cli

#endif  // PHASOR_CLIENT_CLI_SAFETENSORS_H_
