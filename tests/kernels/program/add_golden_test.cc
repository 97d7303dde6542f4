// Sums as libraries compute them (tests/golden/add/make.py).
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/core/narrow.h"
#include "kernels/encodings/encoding.h"
#include "kernels/program/add.h"

namespace phasor {
namespace {

struct Record {
  std::string name;
  DType dtype = DType::kF32;
  int64_t tokens = 0, dim = 0, width = 0;  // width: channels that are in the file
  std::optional<DType> rounded_to;         // of the factor √dim
  std::vector<std::byte> x, y;
};

std::vector<std::byte> ReadBits(std::istream& in, int64_t size) {
  std::string line, word;
  std::getline(in, line);
  std::istringstream words(line);
  std::vector<std::byte> bytes;
  while (words >> word) {
    const uint64_t bits = std::stoull(word, nullptr, 16);
    const auto* from = reinterpret_cast<const std::byte*>(&bits);
    bytes.insert(bytes.end(), from, from + size);
  }
  return bytes;
}

std::vector<Record> ReadRecords() {
  std::ifstream in(std::string(PHASOR_SOURCE_DIR) + "/tests/golden/add/expected.txt");
  EXPECT_TRUE(in.is_open());
  const std::map<std::string, DType> types = {{"f64", DType::kF64}, {"f32", DType::kF32}, {"bf16", DType::kBF16}};
  std::vector<Record> records;
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream head(line);
    std::string dtype, factor;
    Record r;
    head >> r.name >> dtype >> r.tokens >> r.dim >> factor;
    r.dtype = types.at(dtype);
    if (factor == "sqrt_bf16") r.rounded_to = DType::kBF16;
    r.x = ReadBits(in, SizeOf(r.dtype));
    r.y = ReadBits(in, SizeOf(r.dtype));
    r.width = static_cast<int64_t>(r.x.size()) / SizeOf(r.dtype) / r.tokens;
    records.push_back(std::move(r));
  }
  return records;
}

std::vector<double> Values(const std::vector<std::byte>& bytes, DType dtype) {
  std::vector<double> values;
  VisitFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (size_t at = 0; at < bytes.size(); at += sizeof(T)) {
      T value;
      std::memcpy(&value, bytes.data() + at, sizeof(T));
      values.push_back(Widen<double>(value));
    }
  });
  return values;
}

// What we make of x; `resolved` must live until the step has run.
std::vector<std::byte> Add(const Record& r, double scale) {
  std::vector<std::byte> y = r.x;
  AddTask task;
  task.dtype = r.dtype;
  task.tokens = r.tokens;
  task.dim = r.width;
  task.x = task.y = y.data();
  task.x_token_stride = task.y_token_stride = r.width;
  task.scale = scale;
  const auto backend = CreateBackend("cpu");
  EXPECT_TRUE(backend.ok());
  AddSources sources;
  const bool interleaved = r.name == "formula";
  SinusoidalSpec spec;
  spec.dim = r.dim;
  spec.layout = interleaved ? SinusoidalLayout::kInterleaved : SinusoidalLayout::kConcatenated;
  const auto canonical = Canonicalize(spec);
  EXPECT_TRUE(canonical.ok());
  const auto resolved = Resolve(*canonical, std::nullopt, Precision::kExact);
  EXPECT_TRUE(resolved.ok());
  if (r.name != "gemma") {
    AbsolutePositions positions;
    positions.rows = r.tokens;
    sources.pe = std::make_shared<const RowMaker>(canonical->spec, resolved->plan, positions);
  }
  EXPECT_TRUE(RunProgram(**backend, {{AddStep(task, sources)}}).ok());
  return y;
}

TEST(AddGoldenTest, AgreesWithLibrariesAndTheFormula) {
  const std::vector<Record> records = ReadRecords();
  ASSERT_EQ(records.size(), 5u);
  for (const Record& r : records) {
    SCOPED_TRACE(r.name + " " + std::to_string(r.dim));
    const double scale = AddScale(std::nullopt, r.dim, r.rounded_to, r.dtype);
    const std::vector<std::byte> y = Add(r, scale);
    ASSERT_EQ(y.size(), r.y.size());
    if (r.name == "gemma") {
      // One product, rounded once, either way: the same bits.
      EXPECT_EQ(scale, 62);
      EXPECT_EQ(y, r.y);
      EXPECT_NE(Add(r, AddScale(std::nullopt, r.dim, std::nullopt, r.dtype)), r.y);  // without rounding the factor
      continue;
    }
    // The libraries round the product and the sum apart, and their sinusoids are not correctly rounded: a unit of each.
    const double unit = std::ldexp(1, r.dtype == DType::kF64 ? -52 : -23);
    const std::vector<double> ours = Values(y, r.dtype), theirs = Values(r.y, r.dtype), x = Values(r.x, r.dtype);
    for (size_t i = 0; i < ours.size(); ++i) {
      EXPECT_NEAR(ours[i], theirs[i], unit * (std::abs(scale * x[i]) + std::abs(ours[i]) + 4)) << i;
    }
  }
}

}  // namespace
}  // namespace phasor
