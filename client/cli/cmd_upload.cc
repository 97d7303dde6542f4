// phasor upload: send arrays once, to name them by their hash afterwards.
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "client/cli/array_file.h"
#include "client/cli/tool.h"

namespace phasor::cli {
namespace {

struct UploadArgs {
  std::string path;
  std::string format;
};

// The lines of a person, or JSON.
absl::Status Show(Tool& tool, const LoadedArray& array, const v1::UploadTensorResponse& answer) {
  if (tool.json) return tool.PrintJson(answer);
  const std::string shape = absl::StrJoin(array.info.shape, ", ");
  const std::string dtype(Name(array.info.dtype));
  tool.Say(absl::StrCat(array.info.name.empty() ? "" : absl::StrCat(array.info.name, ": "), dtype, " [", shape, "], ",
                        FormatBytes(static_cast<double>(answer.size_bytes())), ", kept for ", answer.ttl_seconds(),
                        " s after its last use"));
  return tool.Print(absl::StrCat(FormatHex(answer.sha256()), "\n"));
}

absl::Status Run(Tool& tool, const UploadArgs& args) {
  absl::StatusOr<ArrayFormat> format = FormatOf(args.path, args.format);
  if (!format.ok()) return format.status();
  absl::StatusOr<std::vector<LoadedArray>> arrays = ReadArrays(args.path, *format);
  if (!arrays.ok()) return arrays.status();
  absl::StatusOr<client::Client*> client = tool.Connect();
  if (!client.ok()) return client.status();
  for (const LoadedArray& array : *arrays) {
    if (array.data.empty()) return UsageError(absl::StrCat(args.path, ": given an empty array; allowed: at least 1 byte"));
    const auto answer = (*client)->UploadTensor(array.data);
    if (!answer.ok()) return answer.status();
    if (absl::Status status = Show(tool, array, *answer); !status.ok()) return status;
  }
  if (tool.server.empty())
    tool.Say("(the embedded server has ended, and what it held with it; --server names one that stays)");
  return absl::OkStatus();
}

}  // namespace

Command AddUpload(CLI::App& app, Tool& tool) {
  auto args = std::make_shared<UploadArgs>();
  CLI::App* command = app.add_subcommand("upload", "Send arrays once, to name them by their SHA-256 afterwards");
  command->footer(
      "Prints the SHA-256 of each array's bytes, which goes (as 32 bytes) into Tensor.upload of later requests: learned\n"
      "tables then do not travel with every call.\n\n"
      "  phasor --server localhost:50051 upload wpe.npy");
  command->add_option("FILE", args->path, ".npy, .npz or .safetensors; - is standard input")->required();
  command->add_option("--format", args->format, "npy, npz or safetensors, where the name does not tell");
  return {command, [args, &tool] { return Run(tool, *args); }};
}

}  // namespace phasor::cli
