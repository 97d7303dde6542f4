// Fits of small functions for the tests: what is fitted, and how.
#ifndef PHASOR_TESTS_SERVER_KNOWLEDGE_FITTED_H_
#define PHASOR_TESTS_SERVER_KNOWLEDGE_FITTED_H_

#include <cmath>
#include <numbers>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/cpu/cpu_backend.h"
#include "server/knowledge/distill.h"

namespace phasor::server {

inline Side Of(const EncodingSpec& spec, std::optional<int64_t> length = std::nullopt) {
  const auto canonical = Canonicalize(spec);
  EXPECT_TRUE(canonical.ok()) << canonical.status();
  auto side = SideOfSpec(*canonical, length, Precision::kExact);
  EXPECT_TRUE(side.ok()) << side.status();
  return *std::move(side);
}

inline Side TableOf(InputContent content, std::vector<int64_t> shape, std::vector<double> values,
                    std::optional<int64_t> first = std::nullopt) {
  InputTable table;
  table.content = content;
  table.tensors.push_back({DType::kF64, std::move(shape), std::move(values)});
  table.first_position = first;
  auto side = SideOfTable(table, nullptr);
  EXPECT_TRUE(side.ok()) << side.status();
  return *std::move(side);
}

// Smooth columns that a few cosines do not exhaust.
inline std::vector<double> Smooth(int64_t rows, int64_t columns) {
  std::vector<double> values;
  for (int64_t m = 0; m < rows; ++m) {
    for (int64_t c = 0; c < columns; ++c) {
      const double x = static_cast<double>(m) / static_cast<double>(rows);
      values.push_back(0.02 * std::sin(static_cast<double>(c + 1) * 3 * x + static_cast<double>(c)));
    }
  }
  return values;
}

inline std::string ErrorOf(const absl::Status& status) {
  const auto error = SpecErrorOf(status);
  return error ? error->field + ": " + error->given + ": " + error->allowed : status.ToString();
}

inline DistillSamples SamplesAt(const Side& side, int64_t first = 0, int64_t count = 0) {
  const auto window = ChooseSamples(side, first, count);
  EXPECT_TRUE(window.ok()) << window.status();
  auto samples = SamplesOf(*MakeCpuBackend(), side, *window);
  EXPECT_TRUE(samples.ok()) << samples.status();
  return *std::move(samples);
}

inline Distilled Fit(const Side& side, const DistillSamples& samples, DistillForm form, const DistillOptions& options) {
  auto fitted = Distill(*MakeCpuBackend(), side, samples, form, options, [](const DistillProgress&) {}, nullptr);
  EXPECT_TRUE(fitted.ok()) << fitted.status();
  return *std::move(fitted);
}

inline Distilled FitTable(int64_t rows, int64_t columns, DistillForm form, const DistillOptions& options) {
  const Side side = TableOf(InputContent::kSinusoidal, {rows, columns}, Smooth(rows, columns));
  return Fit(side, SamplesAt(side), form, options);
}

}  // namespace phasor::server

#endif  // PHASOR_TESTS_SERVER_KNOWLEDGE_FITTED_H_
