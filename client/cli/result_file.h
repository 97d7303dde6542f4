// A result that arrives in windows, on its way into a file.
#ifndef PHASOR_CLIENT_CLI_RESULT_FILE_H_
#define PHASOR_CLIENT_CLI_RESULT_FILE_H_

#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "phasor/v1/encoding.pb.h"
#include "phasor/v1/tensor.pb.h"

#include "client/cli/array_file.h"
#include "client/phasor_client.h"
#include "proto/raw/payloads.h"

namespace phasor::cli {

// Windows are asked for in about this many bytes.
inline constexpr int64_t kWindowBytes = 4 << 20;

// Where a result goes.
struct OutputArg {
  std::string path;
  std::string format;

  void AddTo(CLI::App& command, bool required);
};

// Name, type and shape of a tensor of an answer.
ArrayInfo InfoOf(const std::string& name, const v1::Tensor& tensor);

// Appends a tensor's payload to array `index`, piece by piece.
absl::Status AppendTensor(ArrayWriter& writer, size_t index, const v1::Tensor& tensor, const raw::Payloads& payloads);

// spec, fingerprint, and the versions of the server that made the numbers.
absl::StatusOr<ArrayWriter::Metadata> MetadataOf(client::Client& client, const v1::EncodingSpec& spec,
                                                 const std::string& fingerprint);

}  // namespace phasor::cli

#endif  // PHASOR_CLIENT_CLI_RESULT_FILE_H_
