// A .gguf file as a model's configuration: its head, and the few tensors that decide positions.
#ifndef PHASOR_CLIENT_CLI_GGUF_FILE_H_
#define PHASOR_CLIENT_CLI_GGUF_FILE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "phasor/v1/catalog_service.pb.h"

namespace phasor::cli {

// Whether a path ends in .gguf, or is a regular file that starts as one.
bool IsGgufFile(const std::string& path);

// Reads as much of the file as its head takes, and the data of the tensors that decide positions; the tokenizer is left out.
// Errors: the file cannot be read; INVALID_ARGUMENT "PATH: …" when it is no GGUF file that can be read.
absl::StatusOr<v1::GgufHeader> ReadGgufFile(const std::string& path);

// The same of a file's bytes, for what came through a pipe; `name` is for messages.
absl::StatusOr<v1::GgufHeader> ReadGgufBytes(std::string_view bytes, std::string_view name);

}  // namespace phasor::cli

#endif  // PHASOR_CLIENT_CLI_GGUF_FILE_H_
