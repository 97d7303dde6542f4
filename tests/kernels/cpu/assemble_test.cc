#include "kernels/cpu/assemble.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "tests/kernels/cpu/each_target.h"
#include "tests/kernels/cpu/guarded_buffer.h"

namespace phasor {
namespace {

constexpr TableForm kForms[] = {TableForm::kHalf,         TableForm::kDuplicated,        TableForm::kInterleavedDuplicated,
                                TableForm::kConcatenated, TableForm::kSinCosInterleaved, TableForm::kSinCosConcatenated};

bool HasTwoArrays(TableForm form) {
  return form == TableForm::kHalf || form == TableForm::kDuplicated || form == TableForm::kInterleavedDuplicated;
}

// Column c of the form with n pairs: c_i as i, s_i as n + i, zero as −1. For the first of two arrays.
int64_t SourceOf(TableForm form, int64_t n, int64_t columns, int64_t c) {
  std::vector<int64_t> row;
  switch (form) {
    case TableForm::kHalf:
      for (int64_t i = 0; i < n; ++i) row.push_back(i);
      break;
    case TableForm::kDuplicated:
      for (int64_t i = 0; i < 2 * n; ++i) row.push_back(i % n);
      break;
    case TableForm::kInterleavedDuplicated:
      for (int64_t i = 0; i < 2 * n; ++i) row.push_back(i / 2);
      break;
    case TableForm::kConcatenated:
      for (int64_t i = 0; i < 2 * n; ++i) row.push_back(i);
      break;
    case TableForm::kSinCosInterleaved:
      for (int64_t i = 0; i < n; ++i) row.insert(row.end(), {n + i, i});
      break;
    case TableForm::kSinCosConcatenated:
      for (int64_t i = 0; i < std::min(n, (columns + 1) / 2); ++i) row.push_back(n + i);
      for (int64_t i = 0; i < std::min(n, columns / 2); ++i) row.push_back(i);
      break;
  }
  return c < static_cast<int64_t>(row.size()) ? row[static_cast<size_t>(c)] : -1;
}

struct Case {
  TableForm form;
  int64_t element_size, pairs, columns;
  bool table_rows = false;
  int64_t misalignment = 0;
  StoreHint hint = StoreHint::kKeep;
};

void Check(const Case& c) {
  SCOPED_TRACE("form " + std::to_string(static_cast<int>(c.form)) + " size " + std::to_string(c.element_size) + " pairs " +
               std::to_string(c.pairs) + " columns " + std::to_string(c.columns));
  constexpr int64_t kRows = 7;
  AssembleTask task;
  task.form = c.form, task.element_size = c.element_size, task.pairs = c.pairs, task.columns = c.columns;
  task.hint = c.hint;
  task.table_stride = c.pairs + 3;
  std::mt19937_64 random(5);
  const int64_t table_bytes = kRows * task.table_stride * c.element_size;
  GuardedBuffer cos(table_bytes, c.misalignment % 9), sin(table_bytes, c.misalignment % 5);
  for (int64_t i = 0; i < table_bytes; ++i) {
    cos.data()[i] = static_cast<uint8_t>(random());
    sin.data()[i] = static_cast<uint8_t>(random());
  }
  task.cos = cos.data(), task.sin = sin.data();
  const std::vector<int32_t> rows = {6, 0, 0, 3, 1, 5, 2};
  if (c.table_rows) task.table_rows = rows;

  const int64_t out_bytes = kRows * c.columns * c.element_size;
  GuardedBuffer expected(out_bytes, c.misalignment), expected_sin(out_bytes, c.misalignment);
  for (int64_t r = 0; r < kRows; ++r) {
    const int64_t row = c.table_rows ? rows[static_cast<size_t>(r)] : r;
    for (int64_t column = 0; column < c.columns; ++column) {
      const int64_t source = SourceOf(c.form, c.pairs, c.columns, column);
      const int64_t to = (r * c.columns + column) * c.element_size;
      const auto put = [&](GuardedBuffer& out, const GuardedBuffer& table, int64_t pair) {
        const int64_t from = (row * task.table_stride + pair) * c.element_size;
        std::memcpy(out.data() + to, table.data() + from, static_cast<size_t>(c.element_size));
      };
      std::memset(expected.data() + to, 0, static_cast<size_t>(c.element_size));
      std::memset(expected_sin.data() + to, 0, static_cast<size_t>(c.element_size));
      if (source < 0) continue;
      put(expected, source < c.pairs ? cos : sin, source % c.pairs);
      put(expected_sin, sin, source % c.pairs);
    }
  }
  OnEachTarget([&] {
    GuardedBuffer out(out_bytes, c.misalignment), out_sin(out_bytes, c.misalignment);
    task.out = out.data();
    task.out_sin = HasTwoArrays(c.form) ? out_sin.data() : nullptr;
    ASSERT_TRUE(RunAssemble(task, {0, 3}, nullptr).ok());
    ASSERT_TRUE(RunAssemble(task, {3, kRows}, nullptr).ok());
    EXPECT_TRUE(out.SameAs(expected)) << "out";
    if (HasTwoArrays(c.form)) {
      EXPECT_TRUE(out_sin.SameAs(expected_sin)) << "out_sin";
    }
  });
}

TEST(AssembleTest, EveryFormWidthAndSize) {
  int64_t misalignment = 0;
  for (TableForm form : kForms) {
    for (int64_t size : {2, 4, 8}) {
      for (int64_t pairs : {1, 2, 3, 8, 15, 31, 32, 64, 65}) {
        const int64_t full = form == TableForm::kHalf ? pairs : 2 * pairs;
        // Full, cut by one (odd), and with a column of zeros.
        for (int64_t columns : {full, full - 1, full + 1, full + 70}) {
          Check({form, size, pairs, columns, pairs % 2 == 0, misalignment,
                 columns % 3 == 0 ? StoreHint::kReadNext : StoreHint::kKeep});
          if (testing::Test::HasFailure()) return;
          misalignment = (misalignment + size) % 64;
        }
      }
    }
  }
}

TEST(AssembleTest, WiderThanTheInterleavingBuffer) {
  for (TableForm form : kForms) Check({form, 4, 1500, 2999, true});
}

TEST(AssembleTest, AddressesThatSuitNoElement) {
  for (TableForm form : kForms) Check({form, 8, 20, 39, false, 13});
}

TEST(AssembleTest, OneOfTwoArraysMayBeLeftOut) {
  const uint16_t cos[2] = {1, 2}, sin[2] = {3, 4};
  uint16_t out[4] = {};
  AssembleTask task;
  task.element_size = 2, task.pairs = 2, task.columns = 4, task.table_stride = 2;
  task.sin = sin, task.out_sin = out;
  ASSERT_TRUE(RunAssemble(task, {0, 1}, nullptr).ok());
  EXPECT_EQ(std::vector<uint16_t>(out, out + 4), (std::vector<uint16_t>{3, 4, 3, 4}));
  task.cos = cos, task.out = out, task.out_sin = nullptr;
  ASSERT_TRUE(RunAssemble(task, {0, 1}, nullptr).ok());
  EXPECT_EQ(std::vector<uint16_t>(out, out + 4), (std::vector<uint16_t>{1, 2, 1, 2}));
}

TEST(AssembleTest, RefusesAndCancels) {
  const uint32_t table[2] = {1, 2};
  uint32_t out[4] = {};
  AssembleTask good;
  good.form = TableForm::kConcatenated;
  good.pairs = 2, good.columns = 4, good.table_stride = 2, good.cos = table, good.sin = table, good.out = out;
  CancelFlag cancel = true;
  EXPECT_TRUE(absl::IsCancelled(RunAssemble(good, {0, 1}, &cancel)));
  EXPECT_EQ(out[0], 0u);
  ASSERT_TRUE(RunAssemble(good, {0, 1}, nullptr).ok());
  const auto refused = [&](auto change) {
    AssembleTask task = good;
    change(task);
    return absl::IsInvalidArgument(RunAssemble(task, {0, 1}, nullptr));
  };
  EXPECT_TRUE(refused([](AssembleTask& t) { t.out = nullptr; }));
  EXPECT_TRUE(refused([](AssembleTask& t) { t.sin = nullptr; }));
  EXPECT_TRUE(refused([](AssembleTask& t) { t.cos = nullptr; }));
  EXPECT_TRUE(refused([](AssembleTask& t) { t.element_size = 1; }));
  EXPECT_TRUE(refused([](AssembleTask& t) { t.pairs = -1; }));
  EXPECT_GE(AssembleRowsPerSlice(good), 1);
}

}  // namespace
}  // namespace phasor
