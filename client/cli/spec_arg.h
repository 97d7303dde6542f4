// SPEC on the command line: a model's config.json or .gguf file, an EncodingSpec as proto3 JSON (a file, "-" or inline), or
// a scheme's name with key=value pairs.
#ifndef PHASOR_CLIENT_CLI_SPEC_ARG_H_
#define PHASOR_CLIENT_CLI_SPEC_ARG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "phasor/v1/catalog_service.pb.h"
#include "phasor/v1/encoding.pb.h"

#include "client/cli/tool.h"

namespace phasor::cli {

// SPEC and the options that go with it.
struct SpecArg {
  std::vector<std::string> tokens;
  std::string layer_type;
  std::optional<int64_t> length;
  std::vector<std::string> weights;  // "NAME=FILE"

  void AddTo(CLI::App& command);
};

// What SPEC stands for.
struct LoadedSpec {
  v1::EncodingSpec spec;
  std::string name;  // the file's or scheme's name, for messages
  std::optional<int64_t> sequence_length;
  std::optional<int64_t> max_position;  // the model's own
};

// Reads SPEC. Of a configuration with several layer types --layer-type chooses; without it the error lists them, unless only
// one has numbers.
absl::StatusOr<LoadedSpec> LoadSpec(const SpecArg& argument, Tool& tool);

// Whether the scheme has a table (else it is an attention bias or a score term).
bool IsTable(const v1::EncodingSpec& spec);

// The request for a model's configuration, for `resolve`: a .gguf file, or a config.json (a path, "-" or inline).
absl::StatusOr<v1::ResolveModelRequest> LoadConfig(const SpecArg& argument);

// "rope_yarn" with {"head_dim=128", "factor=4", …}. Keys are the fields of the scheme's message and, for RoPE, of RopeSpec;
// lists are separated by commas; enums by their short names ("half_split").
absl::StatusOr<v1::EncodingSpec> SpecFromPairs(const std::vector<std::string>& tokens);

}  // namespace phasor::cli

#endif  // PHASOR_CLIENT_CLI_SPEC_ARG_H_
