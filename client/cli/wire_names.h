// Short names of the contract's enums, as options take them, and element types between the wire and the kernels library.
#ifndef PHASOR_CLIENT_CLI_WIRE_NAMES_H_
#define PHASOR_CLIENT_CLI_WIRE_NAMES_H_

#include <map>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "phasor/v1/position_service.pb.h"
#include "phasor/v1/tensor.pb.h"

#include "kernels/core/dtype.h"

namespace phasor::cli {

inline const std::map<std::string, v1::Dtype> kDTypeNames = {
    {"f64", v1::DTYPE_F64}, {"f32", v1::DTYPE_F32}, {"f16", v1::DTYPE_F16}, {"bf16", v1::DTYPE_BF16}};
inline const std::map<std::string, v1::Precision> kPrecisionNames = {{"exact", v1::PRECISION_EXACT},
                                                                     {"compat_f32", v1::PRECISION_COMPAT_F32}};
inline const std::map<std::string, v1::TableForm> kTableFormNames = {{"half", v1::TABLE_FORM_HALF},
                                                                     {"duplicated", v1::TABLE_FORM_DUPLICATED},
                                                                     {"interleaved", v1::TABLE_FORM_INTERLEAVED_DUPLICATED},
                                                                     {"concat", v1::TABLE_FORM_CONCATENATED}};
inline const std::map<std::string, v1::TensorRole> kRoleNames = {{"query", v1::TENSOR_ROLE_QUERY},
                                                                 {"key", v1::TENSOR_ROLE_KEY}};
inline const std::map<std::string, v1::BiasForm> kBiasFormNames = {
    {"full", v1::BIAS_FORM_FULL}, {"vector", v1::BIAS_FORM_VECTOR}, {"row", v1::BIAS_FORM_ROW}};
inline const std::map<std::string, v1::Layout> kLayoutNames = {
    {"bshd", v1::LAYOUT_BSHD}, {"bhsd", v1::LAYOUT_BHSD}, {"sbhd", v1::LAYOUT_SBHD}, {"thd", v1::LAYOUT_THD},
    {"t_hd", v1::LAYOUT_T_HD}, {"bsd", v1::LAYOUT_BSD},   {"sbd", v1::LAYOUT_SBD},   {"td", v1::LAYOUT_TD}};

// An option whose value is one of the names of `choices`, which must outlive the command.
template <typename T>
CLI::Option* AddChoice(CLI::App& command, const std::string& name, T& value, const std::map<std::string, T>& choices,
                       const std::string& description) {
  std::vector<std::string> names;
  for (const auto& [choice, unused] : choices) names.push_back(choice);
  return command
      .add_option_function<std::string>(
          name, [&value, &choices](const std::string& given) { value = choices.at(given); }, description)
      ->check(CLI::IsMember(names));
}

// The two enums number the types alike (checked where this is used).
inline DType FromWire(v1::Dtype dtype) { return static_cast<DType>(dtype); }
inline v1::Dtype ToWire(DType dtype) { return static_cast<v1::Dtype>(dtype); }
static_assert(static_cast<int>(DType::kF64) == v1::DTYPE_F64 && static_cast<int>(DType::kF32) == v1::DTYPE_F32 &&
              static_cast<int>(DType::kF16) == v1::DTYPE_F16 && static_cast<int>(DType::kBF16) == v1::DTYPE_BF16 &&
              static_cast<int>(DType::kI32) == v1::DTYPE_I32 && static_cast<int>(DType::kI64) == v1::DTYPE_I64 &&
              static_cast<int>(DType::kBool) == v1::DTYPE_BOOL);

}  // namespace phasor::cli

#endif  // PHASOR_CLIENT_CLI_WIRE_NAMES_H_
