// What `phasor apply` does to tensors when it rotates them: --inverse, --backward, --shift, --rerotate, --table,
// --query-scale, --roles.
#ifndef PHASOR_CLIENT_CLI_ROTATE_ARGS_H_
#define PHASOR_CLIENT_CLI_ROTATE_ARGS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "phasor/v1/position_service.pb.h"

#include "client/cli/tool.h"
#include "proto/raw/payloads.h"

namespace phasor::cli {

struct RotateArgs {
  bool inverse = false;
  bool backward = false;
  std::optional<int64_t> shift;
  std::string rerotate;  // SPEC
  std::optional<int64_t> target_length;
  std::string table;  // COS,SIN
  std::string table_pairing;
  std::string query_scale;
  std::vector<std::string> roles;

  void AddTo(CLI::App& command);
  // Sets the operation, the roles and the table of `item`; `tokens`: of every tensor (shifts need one delta each).
  absl::Status Fill(Tool& tool, int64_t tokens, v1::ApplyItem& item, raw::Payloads& payloads) const;
  // "rotated", "shifted" …
  const char* done() const;
};

}  // namespace phasor::cli

#endif  // PHASOR_CLIENT_CLI_ROTATE_ARGS_H_
