// Sides of comparisons, as tests make them.
#ifndef PHASOR_TESTS_SERVER_KNOWLEDGE_COMPARED_SIDES_H_
#define PHASOR_TESTS_SERVER_KNOWLEDGE_COMPARED_SIDES_H_

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/cpu/cpu_backend.h"
#include "server/knowledge/compare.h"

namespace phasor::server {

inline std::string ErrorOf(const absl::Status& status) {
  const auto error = SpecErrorOf(status);
  return error ? error->field + ": " + error->given + ": " + error->allowed : status.ToString();
}

inline absl::StatusOr<Side> TrySide(const EncodingSpec& spec) {
  const auto canonical = Canonicalize(spec);
  if (!canonical.ok()) return canonical.status();
  return SideOfSpec(*canonical, std::nullopt, Precision::kExact);
}

inline Side SideOf(const EncodingSpec& spec) {
  auto side = TrySide(spec);
  EXPECT_TRUE(side.ok()) << side.status();
  return *std::move(side);
}

inline Side Table(InputContent content, std::vector<int64_t> shape, std::vector<double> values,
                  const Side* other = nullptr) {
  InputTable table;
  table.content = content;
  table.tensors.push_back({DType::kF64, std::move(shape), std::move(values)});
  auto side = SideOfTable(table, other);
  EXPECT_TRUE(side.ok()) << side.status();
  return *std::move(side);
}

inline Comparison Compared(Side a, Side b, int64_t count = 0) {
  MatchSides(&a, &b);
  EXPECT_TRUE(CheckComparable(a, b).ok()) << CheckComparable(a, b);
  const auto window = ChooseWindow(a, &b, std::nullopt, count, kDefaultRows);
  EXPECT_TRUE(window.ok()) << window.status();
  auto comparison = Compare(*MakeCpuBackend(), a, b, *window, 7, nullptr);
  EXPECT_TRUE(comparison.ok()) << comparison.status();
  return *std::move(comparison);
}

inline AlibiSpec Slopes(std::vector<double> slopes) {
  AlibiSpec alibi;
  alibi.slopes = std::move(slopes);
  return alibi;
}

}  // namespace phasor::server

#endif  // PHASOR_TESTS_SERVER_KNOWLEDGE_COMPARED_SIDES_H_
