// Grids, zig-zag splits and mapped positions.
#include "server/position_rules.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "kernels/core/checked_math.h"
#include "server/grpc_status.h"
#include "server/item_parser.h"

namespace phasor::server {
namespace {

// ---- Grids.

int64_t GridMerge(const v1::GridPositions& rule) { return rule.has_merge() ? rule.merge() : 1; }

// ---- Mapped positions. One function: from a position to where its side of the map stands.

struct Mapped {
  int64_t whole = 0;
  double fractional = 0;
};

int64_t FloorDivide(int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0 ? 1 : 0); }
int64_t FloorModulo(int64_t a, int64_t b) { return a - FloorDivide(a, b) * b; }

Mapped SelfExtend(const v1::SelfExtendMap& map, bool query, int64_t last, int64_t position) {
  const int64_t group = map.group_size(), window = map.neighbor_window();
  const int64_t shift = query && last >= window ? window - window / group : 0;
  return {FloorDivide(position, group) + shift, 0};
}

Mapped Rerope(const v1::ReropeMap& map, bool query, int64_t position) {
  const double w = static_cast<double>(map.window());
  if (!map.has_leaky_step()) return {query ? map.window() : 0, 0};
  const double p = static_cast<double>(position);
  return {0, query ? w + (p - w) / map.leaky_step() : p / map.leaky_step()};
}

Mapped DualChunk(const v1::DualChunkMap& map, bool query, int64_t position) {
  const int64_t chunk = map.chunk_size() - map.local_size();
  const int64_t inside = FloorModulo(position, chunk);
  if (!query) return {inside, 0};
  switch (map.part()) {
    case v1::DUAL_CHUNK_PART_SUCCESSIVE:
      return {std::min(inside + chunk, map.chunk_size()), 0};
    case v1::DUAL_CHUNK_PART_INTER:
      return {std::min(2 * chunk - 1, map.chunk_size()), 0};
    case v1::DUAL_CHUNK_PART_SUCCESSIVE_CRITICAL:
      return {inside + chunk, 0};
    case v1::DUAL_CHUNK_PART_INTER_CRITICAL:
      return {inside + map.chunk_size(), 0};
    default:
      return {inside, 0};
  }
}

Mapped Map(const v1::RemappedPositions& rule, int64_t last, int64_t position) {
  const bool query = rule.side() == v1::ATTENTION_SIDE_QUERY;
  switch (rule.map_case()) {
    case v1::RemappedPositions::kSelfExtend:
      return SelfExtend(rule.self_extend(), query, last, position);
    case v1::RemappedPositions::kRerope:
      return Rerope(rule.rerope(), query, position);
    case v1::RemappedPositions::kDualChunk:
      return DualChunk(rule.dual_chunk(), query, position);
    default:
      return {FloorModulo(position, rule.chunk_size()), 0};
  }
}

absl::Status CheckAtLeast(const std::string& field, int64_t given, int64_t lowest, int64_t highest) {
  if (given >= lowest && given <= highest) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(given), absl::StrCat(lowest, " … ", highest));
}

constexpr int64_t kFar = int64_t{1} << 31;

absl::Status CheckDualChunk(const v1::DualChunkMap& map, bool query, const std::string& path) {
  if (auto status = CheckAtLeast(path + ".chunk_size", map.chunk_size(), 1, kFar); !status.ok()) return status;
  if (auto status = CheckAtLeast(path + ".local_size", map.local_size(), 0, map.chunk_size() - 1); !status.ok())
    return status;
  if (!query) return absl::OkStatus();
  if (map.part() == v1::DUAL_CHUNK_PART_UNSPECIFIED) {
    return InvalidField(path + ".part", "nothing", "the part that the rotated queries are for");
  }
  return CheckEnum(path + ".part", map.part(), v1::DualChunkPart_descriptor());
}

absl::Status CheckMap(const v1::RemappedPositions& rule, const std::string& path) {
  const bool query = rule.side() == v1::ATTENTION_SIDE_QUERY;
  switch (rule.map_case()) {
    case v1::RemappedPositions::kSelfExtend: {
      const std::string at = path + ".self_extend";
      if (auto status = CheckAtLeast(at + ".group_size", rule.self_extend().group_size(), 1, kFar); !status.ok())
        return status;
      return CheckAtLeast(at + ".neighbor_window", rule.self_extend().neighbor_window(), 0, kFar);
    }
    case v1::RemappedPositions::kRerope: {
      const v1::ReropeMap& map = rule.rerope();
      if (auto status = CheckAtLeast(path + ".rerope.window", map.window(), 1, kFar); !status.ok()) return status;
      if (map.has_leaky_step() && !(map.leaky_step() >= 1 && map.leaky_step() <= 1e9)) {
        return InvalidField(path + ".rerope.leaky_step", absl::StrCat(map.leaky_step()), "1 … 1e9");
      }
      return absl::OkStatus();
    }
    case v1::RemappedPositions::kDualChunk:
      return CheckDualChunk(rule.dual_chunk(), query, path + ".dual_chunk");
    case v1::RemappedPositions::kChunkSize:
      return CheckAtLeast(path + ".chunk_size", rule.chunk_size(), 1, kFar);
    case v1::RemappedPositions::MAP_NOT_SET:
      break;
  }
  return InvalidField(path, "no map", "one of self_extend, rerope, dual_chunk, chunk_size");
}

}  // namespace

absl::StatusOr<RuleSize> SizeOfGrid(const v1::GridPositions& rule, const std::string& path, const Limits& limits) {
  const int axes = rule.extents_size();
  if (axes < 2 || axes > 4) return InvalidField(path + ".extents", absl::StrCat(axes, " axes"), "2 … 4 axes");
  int64_t count = 1;
  for (int i = 0; i < axes; ++i) {
    const std::string field = absl::StrCat(path, ".extents[", i, "]");
    if (auto status = CheckAtLeast(field, rule.extents(i), 1, limits.max_positions); !status.ok()) return status;
    count *= rule.extents(i);  // both are at most 2^31
    if (auto status = CheckLimit(field, count, "max_positions", limits.max_positions, "positions"); !status.ok())
      return status;
  }
  if (!rule.starts().empty() && rule.starts_size() != axes) {
    return InvalidField(path + ".starts", absl::StrCat(rule.starts_size(), " entries"), absl::StrCat("none, or ", axes));
  }
  for (int i = 0; i < rule.starts_size(); ++i) {
    const std::string field = absl::StrCat(path, ".starts[", i, "]");
    if (auto status = CheckAtLeast(field, rule.starts(i), -kFar, kFar); !status.ok()) return status;
  }
  if (auto status = CheckEnum(path + ".coordinate", rule.coordinate(), v1::GridCoordinate_descriptor()); !status.ok()) {
    return status;
  }
  if (rule.coordinate() == v1::GRID_COORDINATE_CENTERED && !rule.starts().empty()) {
    return InvalidField(path + ".starts", absl::StrCat(rule.starts_size(), " entries"), "none with centred coordinates");
  }
  const int64_t merge = GridMerge(rule);
  if (merge < 1 || rule.extents(axes - 2) % merge != 0 || rule.extents(axes - 1) % merge != 0) {
    return InvalidField(path + ".merge", absl::StrCat(merge), "1 or more, dividing the last two extents");
  }
  if (auto status = CheckAtLeast(path + ".prefix", rule.prefix(), 0, limits.max_positions - count); !status.ok())
    return status;
  return RuleSize{.axes = axes, .count = count + rule.prefix()};
}

RuleIds IdsOfGrid(const v1::GridPositions& rule, const RuleSize& size) {
  const bool centred = rule.coordinate() == v1::GRID_COORDINATE_CENTERED;
  const auto axes = static_cast<size_t>(size.axes);
  const int64_t merge = GridMerge(rule);
  RuleIds ids;
  if (centred) {
    ids.fractional.assign(axes, std::vector<double>(static_cast<size_t>(rule.prefix()), 0));
  } else {
    ids.whole.assign(axes, std::vector<int64_t>(static_cast<size_t>(rule.prefix()), 0));
  }
  const int64_t height = rule.extents(static_cast<int>(axes) - 2), width = rule.extents(static_cast<int>(axes) - 1);
  for (int64_t point = 0; point < size.count - rule.prefix(); ++point) {
    // In blocks of merge × merge: rows of blocks, blocks, rows in the block, columns in the block.
    const int64_t plane = point / (height * width), in_plane = point % (height * width);
    const int64_t band = in_plane / (merge * width), in_band = in_plane % (merge * width);
    const int64_t block = in_band / (merge * merge), in_block = in_band % (merge * merge);
    int64_t index[4];
    index[axes - 2] = band * merge + in_block / merge;
    index[axes - 1] = block * merge + in_block % merge;
    int64_t rest = plane;
    for (size_t axis = axes - 2; axis-- > 0;) {
      index[axis] = rest % rule.extents(static_cast<int>(axis));
      rest /= rule.extents(static_cast<int>(axis));
    }
    for (size_t axis = 0; axis < axes; ++axis) {
      const int a = static_cast<int>(axis);
      if (centred) {
        // 2·(i + ½)/N − 1 = (2·i + 1 − N)/N: one rounding.
        ids.fractional[axis].push_back(static_cast<double>(2 * index[axis] + 1 - rule.extents(a)) /
                                       static_cast<double>(rule.extents(a)));
      } else {
        ids.whole[axis].push_back(index[axis] + (rule.starts().empty() ? 0 : rule.starts(a)));
      }
    }
  }
  return ids;
}

absl::StatusOr<RuleSize> SizeOfContextParallel(const v1::ContextParallelPositions& rule, const std::string& path,
                                               const Limits& limits) {
  const int64_t size = rule.size();
  if (auto status = CheckAtLeast(path + ".size", size, 1, limits.max_positions); !status.ok()) return status;
  if (auto status = CheckAtLeast(path + ".rank", rule.rank(), 0, size - 1); !status.ok()) return status;
  if (auto status = CheckEnum(path + ".count", rule.count(), v1::ContextParallelCount_descriptor()); !status.ok()) {
    return status;
  }
  const auto& cu = rule.cu_seqlens();
  if (cu.empty()) return InvalidField(path + ".cu_seqlens", "nothing", "0, then the end of every sequence");
  if (cu[0] != 0) return InvalidField(path + ".cu_seqlens[0]", absl::StrCat(cu[0]), "0");
  for (int i = 1; i < cu.size(); ++i) {
    const std::string field = absl::StrCat(path, ".cu_seqlens[", i, "]");
    if (cu[i] < cu[i - 1] || cu[i] > kFar) {
      return InvalidField(field, absl::StrCat(cu[i]), absl::StrCat(cu[i - 1], " … ", kFar));
    }
    if ((cu[i] - cu[i - 1]) % (2 * size) != 0) {
      return InvalidField(field, absl::StrCat("a sequence of ", cu[i] - cu[i - 1], " tokens"),
                          absl::StrCat("a length that 2·size = ", 2 * size, " divides"));
    }
  }
  const int64_t count = cu[cu.size() - 1] / size;
  if (auto status = CheckLimit(path, count, "max_positions", limits.max_positions, "positions"); !status.ok()) return status;
  return RuleSize{.axes = 1, .count = count};
}

RuleIds IdsOfContextParallel(const v1::ContextParallelPositions& rule, const RuleSize& size) {
  RuleIds ids;
  auto& out = ids.whole.emplace_back();
  out.reserve(static_cast<size_t>(size.count));
  const int64_t ranks = rule.size(), rank = rule.rank();
  for (int i = 1; i < rule.cu_seqlens_size(); ++i) {
    const int64_t start = rule.count() == v1::CONTEXT_PARALLEL_COUNT_THROUGH_PACK ? rule.cu_seqlens(i - 1) : 0;
    const int64_t chunk = (rule.cu_seqlens(i) - rule.cu_seqlens(i - 1)) / (2 * ranks);
    for (int64_t which : {rank, 2 * ranks - 1 - rank}) {
      for (int64_t j = 0; j < chunk; ++j) out.push_back(start + which * chunk + j);
    }
  }
  return ids;
}

absl::StatusOr<RuleSize> SizeOfRemapped(const v1::RemappedPositions& rule, const std::string& path,
                                        std::optional<int64_t> count, const Limits& limits) {
  if (rule.side() == v1::ATTENTION_SIDE_UNSPECIFIED) {
    return InvalidField(path + ".side", "nothing", "ATTENTION_SIDE_QUERY, ATTENTION_SIDE_KEY");
  }
  if (auto status = CheckEnum(path + ".side", rule.side(), v1::AttentionSide_descriptor()); !status.ok()) return status;
  if (auto status = CheckMap(rule, path); !status.ok()) return status;
  if (auto status = CheckAtLeast(path + ".start", rule.start(), -(kFar - 1), kFar - 1); !status.ok()) return status;
  if (!rule.has_count() && !count) return InvalidField(path + ".count", "nothing", "how many positions");
  const int64_t rows = rule.has_count() ? rule.count() : *count;
  if (auto status = CheckAtLeast(path + ".count", rows, 0, kFar); !status.ok()) return status;
  if (auto status = CheckLimit(path + ".count", rows, "max_positions", limits.max_positions, "positions"); !status.ok()) {
    return status;
  }
  return RuleSize{.axes = 1, .count = rows};
}

RuleIds IdsOfRemapped(const v1::RemappedPositions& rule, const RuleSize& size) {
  RuleIds ids;
  const bool fractional = rule.has_rerope() && rule.rerope().has_leaky_step();
  if (fractional) {
    ids.fractional.emplace_back().reserve(static_cast<size_t>(size.count));
  } else {
    ids.whole.emplace_back().reserve(static_cast<size_t>(size.count));
  }
  const int64_t last = rule.start() + size.count - 1;
  for (int64_t i = 0; i < size.count; ++i) {
    const Mapped mapped = Map(rule, last, rule.start() + i);
    if (fractional) {
      ids.fractional.front().push_back(mapped.fractional);
    } else {
      ids.whole.front().push_back(mapped.whole);
    }
  }
  return ids;
}

}  // namespace phasor::server
