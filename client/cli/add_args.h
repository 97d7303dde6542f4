// The options of `phasor apply --add`.
#ifndef PHASOR_CLIENT_CLI_ADD_ARGS_H_
#define PHASOR_CLIENT_CLI_ADD_ARGS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "phasor/v1/position_service.pb.h"

#include "client/cli/rotate_args.h"
#include "client/cli/tool.h"
#include "proto/raw/payloads.h"

namespace phasor::cli {

struct AddArgs {
  bool add = false;
  std::optional<double> scale;
  bool scale_sqrt_dim = false;
  v1::Dtype scale_dtype = v1::DTYPE_UNSPECIFIED;
  std::optional<double> dropout;
  uint64_t seed = 0;
  std::string gate, gate_spec, first, last, mask;

  void AddTo(CLI::App& command);

  // Sets the operation of `item`, and the mask of its positions; arrays go into `payloads`. Of `rotate`, --backward may be
  // set and nothing else. Errors: usage, files.
  absl::Status Fill(Tool& tool, const RotateArgs& rotate, v1::ApplyItem& item, raw::Payloads& payloads) const;
};

}  // namespace phasor::cli

#endif  // PHASOR_CLIENT_CLI_ADD_ARGS_H_
