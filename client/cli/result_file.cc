#include "client/cli/result_file.h"

#include "client/cli/tool.h"
#include "client/cli/wire_names.h"

namespace phasor::cli {

void OutputArg::AddTo(CLI::App& command, bool required) {
  command
      .add_option(
          "-o,--output", path,
          "File to write: .npy (one array), .npz or .safetensors; - is standard output. bf16 goes to .safetensors only")
      ->required(required);
  command.add_option("--format", format, "npy, npz or safetensors, where the name does not say it");
}

ArrayInfo InfoOf(const std::string& name, const v1::Tensor& tensor) {
  return {name, FromWire(tensor.dtype()), std::vector<int64_t>(tensor.shape().begin(), tensor.shape().end())};
}

absl::Status AppendTensor(ArrayWriter& writer, size_t index, const v1::Tensor& tensor, const raw::Payloads& payloads) {
  const auto pieces = payloads.Find(tensor.data());
  if (!pieces) return absl::InternalError("the answer lacks its data");
  for (const raw::Piece& piece : *pieces) {
    if (absl::Status status = writer.Append(index, piece.data, static_cast<int64_t>(piece.size)); !status.ok())
      return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<ArrayWriter::Metadata> MetadataOf(client::Client& client, const v1::EncodingSpec& spec,
                                                 const std::string& fingerprint) {
  const auto info = client.GetServerInfo();
  if (!info.ok()) return info.status();
  const auto json = ToJson(spec, /*pretty=*/false);
  if (!json.ok()) return json.status();
  ArrayWriter::Metadata metadata;
  metadata["phasor.version"] = info->version();
  metadata["phasor.numerics_version"] = std::to_string(info->numerics_version());
  metadata["phasor.spec"] = *json;
  if (!fingerprint.empty()) metadata["phasor.fingerprint"] = FormatHex(fingerprint);
  return metadata;
}

}  // namespace phasor::cli
