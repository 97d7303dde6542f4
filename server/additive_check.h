// What an additive mask may hold: finite numbers, and −∞ where it masks.
#ifndef PHASOR_SERVER_ADDITIVE_CHECK_H_
#define PHASOR_SERVER_ADDITIVE_CHECK_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

#include "server/tensor_parser.h"

namespace phasor::server {

// The storage of a tensor's elements in the order of its shape, without what lies between them. Parts may end inside an
// element. `storage` holds the bytes that the parts point into where the tensor has strides; the tensor's keys, its last
// axis, lie side by side.
std::vector<std::string_view> PartsInOrder(const ParsedTensor& tensor, std::string* storage);

// Refuses the first NaN or +∞ of F64, F32, F16 or BF16 elements, by its place below `path`: "…additive[1, 7]".
// `parts`: PartsInOrder of it.
absl::Status CheckAdditive(const ParsedTensor& tensor, const std::vector<std::string_view>& parts, std::string_view path);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_ADDITIVE_CHECK_H_
