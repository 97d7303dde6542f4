#include "server/table_source.h"

#include "absl/strings/cord.h"

namespace phasor::server {
namespace {

constexpr char kPayloadUrl[] = "phasor.v1/source-path";

}  // namespace

absl::Status AtSource(const TableSource& source, absl::Status status) {
  if (SpecErrorOf(status)) status.SetPayload(kPayloadUrl, absl::Cord(source.path));
  return status;
}

std::string SourcePathOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayloadUrl);
  return payload ? std::string(*payload) : "spec";
}

}  // namespace phasor::server
