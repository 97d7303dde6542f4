#include "client/cli/weight_arg.h"

#include "absl/strings/str_cat.h"

#include "client/cli/array_file.h"

namespace phasor::cli {

absl::Status AddWeights(const std::vector<std::string>& arguments, Tool& tool, v1::EncodingSpec* spec) {
  for (const std::string& argument : arguments) {
    const size_t equals = argument.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return UsageError(absl::StrCat("--weight: given '", argument, "'; allowed: NAME=FILE"));
    }
    const std::string path = argument.substr(equals + 1);
    const auto format = FormatOf(path, "");
    if (!format.ok()) return format.status();
    const auto arrays = ReadArrays(path, *format);
    if (!arrays.ok()) return arrays.status();
    if (arrays->size() != 1) {
      return UsageError(absl::StrCat("--weight: given ", path, " with ", arrays->size(), " arrays; allowed: one"));
    }
    const LoadedArray& array = arrays->front();
    v1::Weight* weight = spec->add_weights();
    weight->set_name(argument.substr(0, equals));
    weight->mutable_tensor()->set_dtype(static_cast<v1::Dtype>(array.info.dtype));
    for (const int64_t extent : array.info.shape) weight->mutable_tensor()->add_shape(extent);
    const absl::StatusOr<client::Client*> client = tool.Connect();
    if (!client.ok()) return client.status();
    const auto upload = (*client)->UploadTensor(array.data);
    if (!upload.ok()) return upload.status();
    weight->mutable_tensor()->mutable_upload()->set_sha256(upload->sha256());
  }
  return absl::OkStatus();
}

}  // namespace phasor::cli
