#include "server/spec_weights.h"

#include <algorithm>
#include <memory>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "kernels/encodings/encoding.h"
#include "proto/raw/payloads.h"
#include "server/fingerprint.h"
#include "server/tensor_parser.h"
#include "server/weight_parser.h"

namespace phasor::server {

WeightRef SpecWeights::Take(std::string_view name) {
  known_.emplace_back(name);
  for (int i = 0; i < message_.weights_size(); ++i) {
    const v1::Weight& weight = message_.weights(i);
    if (weight.name() != name) continue;
    const std::string path = absl::StrCat("weights[", i, "]");
    if (reader_ == nullptr) {
      if (status_.ok()) status_ = MakeSpecError(path, weight.name(), "no weights here");
      return WeightRef();
    }
    absl::StatusOr<WeightRef> read = reader_->Read(weight.tensor(), path + ".tensor");
    if (read.ok()) return *std::move(read);
    if (status_.ok()) status_ = read.status();
    return WeightRef();
  }
  return WeightRef();
}

void WriteWeight(std::string_view name, const WeightRef& weight, v1::EncodingSpec* message) {
  if (!weight) return;
  v1::Weight* out = message->add_weights();
  out->set_name(std::string(name));
  out->mutable_tensor()->set_dtype(static_cast<v1::Dtype>(weight->dtype));
  for (const int64_t extent : weight->shape) out->mutable_tensor()->add_shape(extent);
  out->mutable_tensor()->mutable_upload()->set_sha256(weight->digest);
}

absl::Status SpecWeights::Finish() {
  if (!status_.ok()) return status_;
  std::set<std::string> seen;
  for (int i = 0; i < message_.weights_size(); ++i) {
    const std::string& name = message_.weights(i).name();
    const std::string path = absl::StrCat("weights[", i, "].name");
    if (std::find(known_.begin(), known_.end(), name) == known_.end()) {
      const std::string allowed = known_.empty() ? "no weights: the scheme has none" : absl::StrJoin(known_, ", ");
      return MakeSpecError(path, name.empty() ? "nothing" : std::string_view(name), allowed);
    }
    if (!seen.insert(name).second) return MakeSpecError(path, absl::StrCat(name, " twice"), "each name once");
  }
  return absl::OkStatus();
}

std::string WeightPath(const v1::EncodingSpec& message, const std::string& path) {
  constexpr std::string_view kPrefix = "weights.";
  if (!path.starts_with(kPrefix)) return path;
  const size_t end = std::min(path.find_first_of(".[", kPrefix.size()), path.size());
  const std::string name = path.substr(kPrefix.size(), end - kPrefix.size());
  for (int i = 0; i < message.weights_size(); ++i) {
    if (message.weights(i).name() == name) return absl::StrCat("weights[", i, "]", path.substr(end));
  }
  return path;
}

absl::StatusOr<WeightRef> InlineWeightReader::Read(const v1::Tensor& tensor, std::string_view path) const {
  // As the wire parser sees it: the payload beside the message.
  raw::Payloads payloads;
  v1::Tensor copy = tensor;
  if (tensor.has_data()) {
    auto owner = std::make_shared<const std::string>(tensor.data());
    const raw::Piece piece{owner, reinterpret_cast<const std::byte*>(owner->data()), owner->size()};
    copy.set_data(payloads.Add(std::span<const raw::Piece>(&piece, piece.size == 0 ? 0 : 1)));
  }
  const Limits limits;
  const ParseContext context{.limits = limits, .payloads = payloads};
  return ParseWeight(copy, path, context);
}

}  // namespace phasor::server
