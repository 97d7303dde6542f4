// --weight NAME=FILE on the command line: learned numbers of a scheme.
#ifndef PHASOR_CLIENT_CLI_WEIGHT_ARG_H_
#define PHASOR_CLIENT_CLI_WEIGHT_ARG_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "phasor/v1/encoding.pb.h"

#include "client/cli/tool.h"

namespace phasor::cli {

// Adds a weight to the spec for each "NAME=FILE.npy" (or .npz and .safetensors with one array): sent to the server once and
// named by hash. Errors: of usage, of the file, or of the server.
absl::Status AddWeights(const std::vector<std::string>& arguments, Tool& tool, v1::EncodingSpec* spec);

}  // namespace phasor::cli

#endif  // PHASOR_CLIENT_CLI_WEIGHT_ARG_H_
