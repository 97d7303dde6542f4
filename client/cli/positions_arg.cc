#include "client/cli/positions_arg.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "client/cli/tool.h"
#include "kernels/core/checked_math.h"

namespace phasor::cli {
namespace {

absl::Status Bad(const std::string& given) {
  return UsageError(absl::StrCat("--positions: given '", given,
                                 "'; allowed: START:STOP, START:STOP:STEP (STOP not included) or a list such as 0,5,17"));
}

}  // namespace

v1::Positions PositionsArg::Window(int64_t begin, int64_t end) const {
  v1::Positions positions;
  if (!ids.empty()) {
    for (int64_t i = begin; i < end; ++i) positions.mutable_list()->add_ids(ids[static_cast<size_t>(i)]);
    return positions;
  }
  positions.mutable_range()->set_start(start + begin * stride);
  positions.mutable_range()->set_count(end - begin);
  positions.mutable_range()->set_stride(stride);
  return positions;
}

absl::StatusOr<PositionsArg> ParsePositions(const std::string& text) {
  PositionsArg positions;
  if (text.find(':') == std::string::npos) {
    for (const absl::string_view part : absl::StrSplit(text, ',')) {
      int64_t id = 0;
      if (!absl::SimpleAtoi(part, &id)) return Bad(text);
      positions.ids.push_back(id);
    }
    positions.count = static_cast<int64_t>(positions.ids.size());
    return positions;
  }
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  int64_t stop = 0;
  if (parts.size() > 3 || !absl::SimpleAtoi(parts[0], &positions.start) || !absl::SimpleAtoi(parts[1], &stop))
    return Bad(text);
  if (parts.size() == 3 && (!absl::SimpleAtoi(parts[2], &positions.stride) || positions.stride == 0)) return Bad(text);
  const std::optional<int64_t> span = stop == INT64_MIN ? std::nullopt : CheckedAdd(stop, -positions.start);
  if (!span || positions.start == INT64_MIN) return Bad(text);
  const int64_t step = positions.stride;
  if ((step > 0) == (*span > 0) && *span != 0) positions.count = *span / step + (*span % step != 0 ? 1 : 0);
  return positions;
}

}  // namespace phasor::cli
