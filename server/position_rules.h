// Rules that make positions from a description: images and videos in a text, grids, zig-zag splits, mapped positions. Each
// says first how many positions it gives, so that nothing is allocated before the count has been compared with the limits.
#ifndef PHASOR_SERVER_POSITION_RULES_H_
#define PHASOR_SERVER_POSITION_RULES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "phasor/v1/positions.pb.h"

#include "server/limits.h"

namespace phasor::server {

// Ids of every axis, all of one length. Whole numbers unless `fractional`; then the doubles count.
struct RuleIds {
  std::vector<std::vector<int64_t>> whole;
  std::vector<std::vector<double>> fractional;
  std::optional<int64_t> rope_delta;  // of M-RoPE

  bool is_fractional() const { return !fractional.empty(); }
};

// What a rule will give. `count` ≤ limits.max_positions.
struct RuleSize {
  int64_t axes = 1;
  int64_t count = 0;
};

// Check all but the bounds of positions, which are the caller's. `count`: how many tokens there are, where the rule may
// leave that out. Errors are InvalidField or OverLimit below `path`.
absl::StatusOr<RuleSize> SizeOfMrope(const v1::MropePositions& rule, const std::string& path, const Limits& limits);
absl::StatusOr<RuleSize> SizeOfGrid(const v1::GridPositions& rule, const std::string& path, const Limits& limits);
absl::StatusOr<RuleSize> SizeOfContextParallel(const v1::ContextParallelPositions& rule, const std::string& path,
                                               const Limits& limits);
absl::StatusOr<RuleSize> SizeOfRemapped(const v1::RemappedPositions& rule, const std::string& path,
                                        std::optional<int64_t> count, const Limits& limits);

// The ids of a rule whose size was found. No position leaves ±2^62.
RuleIds IdsOfMrope(const v1::MropePositions& rule, const RuleSize& size);
RuleIds IdsOfGrid(const v1::GridPositions& rule, const RuleSize& size);
RuleIds IdsOfContextParallel(const v1::ContextParallelPositions& rule, const RuleSize& size);
RuleIds IdsOfRemapped(const v1::RemappedPositions& rule, const RuleSize& size);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_POSITION_RULES_H_
