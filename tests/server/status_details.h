// Reads the details of a google.rpc.Status in tests.
#ifndef PHASOR_TESTS_SERVER_STATUS_DETAILS_H_
#define PHASOR_TESTS_SERVER_STATUS_DETAILS_H_

#include <string>
#include <vector>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace phasor::server {

// Every detail of type M.
template <typename M>
std::vector<M> DetailsOf(const google::rpc::Status& status) {
  std::vector<M> found;
  for (const auto& any : status.details()) {
    M detail;
    if (any.type_url() == "type.googleapis.com/" + M::descriptor()->full_name() && detail.ParseFromString(any.value())) {
      found.push_back(detail);
    }
  }
  return found;
}

// The one ErrorInfo that every error has; an empty one when there are none or several.
inline google::rpc::ErrorInfo InfoOf(const google::rpc::Status& status) {
  const auto found = DetailsOf<google::rpc::ErrorInfo>(status);
  return found.size() == 1 ? found[0] : google::rpc::ErrorInfo();
}

// Metadata of that, "" where there is none.
inline std::string MetadataOf(const google::rpc::Status& status, const std::string& key) {
  const google::rpc::ErrorInfo info = InfoOf(status);
  const auto found = info.metadata().find(key);
  return found == info.metadata().end() ? "" : found->second;
}

}  // namespace phasor::server

#endif  // PHASOR_TESTS_SERVER_STATUS_DETAILS_H_
