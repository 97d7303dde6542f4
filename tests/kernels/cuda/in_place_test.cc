// Work on memory of other processes, on the fake device, where that memory ends whoever touches it but a kernel: the bits of
// the reference, nothing copied, nothing done on the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "kernels/cuda/lane.h"
#include "tests/kernels/cuda/in_place_cases.h"

namespace phasor::cuda {
namespace {

constexpr int64_t kGuard = 320;  // bytes before and behind what is worked on
constexpr DType kTypes[] = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16};

// `task` on memory that holds `bytes`, guards around them: on the host by the reference, and on the device in pieces.
// Expects the same bits, and that the device had it all.
template <typename T>
void ExpectSameBits(OnFake& on, T task, int64_t rows, const std::string& bytes, int64_t cut, const std::string& what) {
  const std::string guard(kGuard, '\x7b'), before = guard + bytes + guard;
  std::string expected = before;
  task.x = task.y = expected.data() + kGuard;
  ASSERT_TRUE((*CreateBackend("reference"))->Run(task, {0, rows}, nullptr).ok()) << what;

  const std::string handle = on.driver->Export(0, static_cast<int64_t>(before.size()));
  on.driver->Write(handle, before);
  const auto mapped = on.sharing->Open(0, handle);
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_EQ(mapped->size, static_cast<int64_t>(before.size()));
  task.x = task.y = mapped->data + kGuard;
  const BackendStats had = on.backend->stats();
  CancelFlag notes{false};
  for (int64_t begin = 0; begin < rows; begin += cut) {
    const absl::Status status = on.backend->Run(task, {begin, std::min(rows, begin + cut)}, &notes);
    ASSERT_TRUE(status.ok()) << what << ": " << status;
  }
  const BackendStats has = on.backend->stats();
  EXPECT_EQ(PlaceOfWork(*on.backend, notes), "cuda") << what;
  EXPECT_EQ(has.left_to_cpu, had.left_to_cpu);
  EXPECT_EQ(has.devices[0].bytes_out, had.devices[0].bytes_out) << what;
  EXPECT_GT(has.devices[0].launches, had.devices[0].launches);
  on.sharing->Close(0, mapped->data);
  EXPECT_EQ(on.driver->opened(), 0);
  EXPECT_TRUE(on.driver->Read(handle) == expected) << what;
}

TEST(InPlaceTest, RotationsOfEveryLayout) {
  OnFake on;
  int64_t number = 0;
  for (const DType dtype : kTypes) {
    const std::string cos = SomeBytes(dtype == DType::kF64 ? DType::kF64 : DType::kF32, 40 * 32, 5);
    const std::string sin = SomeBytes(dtype == DType::kF64 ? DType::kF64 : DType::kF32, 40 * 32, 6);
    std::vector<int32_t> rows(17);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int32_t>(i * 7 % 40);
    for (const Form form : {Form::kDense, Form::kApart, Form::kHeadsFirst}) {
      for (const Pairing pairing : {Pairing::kHalfSplit, Pairing::kInterleaved, Pairing::kInterleavedToHalf}) {
        for (const auto& [head_dim, pairs] : {std::pair<int64_t, int64_t>{64, 32}, {70, 16}, {14, 7}}) {
          RotateTask task = Rotation(dtype, 17, 3, head_dim, pairs, form);
          task.pairing = pairing;
          task.inverse = number % 2 == 1;
          task.cos = cos.data();
          task.sin = sin.data();
          if (number % 3 == 0) task.table_rows = rows;
          const int64_t elements = 17 * 3 * (head_dim + 3) + 100;
          ExpectSameBits(on, task, 17, SomeBytes(dtype, elements, 3), number % 4 == 0 ? 5 : 17,
                         absl::StrCat("case ", number));
          ++number;
        }
      }
    }
  }
  EXPECT_EQ(number, 108);
}

// Memory of the chunks' own on the device, however large the tensor: 39 MiB of one in slots of 4 MiB.
TEST(InPlaceTest, PairsThatChangePlacesTakeNoMoreThanTheChunks) {
  BackendOptions options;
  constexpr int64_t kSlotBytes = int64_t{4} << 20;
  options.device_bytes = (Lane::kSlots + 1) * kSlotBytes;
  OnFake on({}, options);
  constexpr int64_t kTokens = 5000, kHeads = 16;
  const std::string table = SomeBytes(DType::kF32, 2 * 32, 5);
  RotateTask task = Rotation(DType::kF64, kTokens, kHeads, 64, 32, Form::kDense);
  const std::string cos = SomeBytes(DType::kF64, 32, 5);
  task.pairing = Pairing::kInterleavedToHalf;
  task.cos = task.sin = cos.data();
  task.table_stride = 0;
  ExpectSameBits(on, task, kTokens, SomeBytes(DType::kF64, kTokens * kHeads * 64, 3), kTokens, "large");
  EXPECT_GE(on.launches(), 2 * 9);
  EXPECT_LE(on.backend->stats().devices[0].kept_bytes, Lane::kSlots * kSlotBytes + (int64_t{1} << 20));
  EXPECT_EQ(on.backend->stats().out_of_memory, 0);
}

// The table has a name: it goes to the device once, and one token is worked on there as well.
TEST(InPlaceTest, SmallWorkByATableThatStays) {
  OnFake on;
  const std::string table = SomeBytes(DType::kF32, 2 * 64 * 32, 5);
  const SharedTable shared{9, table.data(), static_cast<int64_t>(table.size())};
  for (int i = 0; i < 3; ++i) {
    RotateTask task = Rotation(DType::kBF16, 1, 1, 64, 32, Form::kDense);
    task.cos = table.data() + 4 * 32 * 4;
    task.sin = table.data() + (64 + 4) * 32 * 4;
    task.shared = &shared;
    ExpectSameBits(on, task, 1, SomeBytes(DType::kBF16, 64, 3), 1, "one token");
  }
  EXPECT_EQ(on.backend->stats().devices[0].table_uploads, 1);
  EXPECT_EQ(on.backend->stats().devices[0].bytes_in, shared.bytes);
}

struct AddCase {
  AddTask task;
  std::string pe, other, gate, ends;
  std::vector<int32_t> first;
  std::vector<uint8_t> hidden;
};

// Tensors [batch, tokens, dim], or [tokens, batch, dim], by `number` with a gate, dropout, ends and hidden tokens.
void Fill(AddCase& c, DType dtype, int64_t batch, int64_t tokens, int64_t dim, bool tokens_first, int number) {
  const DType compute = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  AddTask& t = c.task;
  t.dtype = dtype;
  t.batch = batch;
  t.tokens = tokens;
  t.dim = dim;
  t.x_batch_stride = t.y_batch_stride = tokens_first ? dim : tokens * dim;
  t.x_token_stride = t.y_token_stride = tokens_first ? batch * dim : dim;
  t.scale = 1.5;
  c.pe = SomeBytes(compute, tokens * dim, 11);
  t.pe = {c.pe.data(), 0, dim};
  if (number % 2 == 1) {
    c.other = SomeBytes(compute, tokens * dim, 12);
    c.gate = SomeBytes(compute, batch * tokens, 13);
    t.other = {c.other.data(), 0, dim};
    t.gate = tokens_first ? AddRows{c.gate.data(), 1, batch} : AddRows{c.gate.data(), tokens, 1};
  }
  if (number % 3 == 1) t.dropout = {true, 7, 3, DropoutThreshold(0.25), 4.0 / 3};
  t.element_batch_stride = tokens * dim;
  t.element_token_stride = dim;
  if (number % 3 == 2) {
    c.ends = SomeBytes(compute, dim, 14);
    c.first.assign(static_cast<size_t>(tokens), -1);
    c.first[0] = 0;
    t.first = {c.ends.data(), c.first.data(), 0};
    c.hidden.assign(static_cast<size_t>(batch * tokens), 0);
    c.hidden.back() = 1;
    t.hidden = c.hidden.data();
    t.hidden_batch_stride = tokens;
  }
}

TEST(InPlaceTest, Additions) {
  OnFake on;
  int number = 0;
  for (const DType dtype : kTypes) {
    for (const bool tokens_first : {false, true}) {
      for (const auto& [batch, tokens] : {std::pair<int64_t, int64_t>{1, 9}, {3, 7}, {4, 1}}) {
        AddCase c;
        Fill(c, dtype, batch, tokens, 24, tokens_first, number);
        ExpectSameBits(on, c.task, batch * tokens, SomeBytes(dtype, batch * tokens * 24, 3), number % 2 == 0 ? 4 : 100,
                       absl::StrCat("case ", number));
        ++number;
      }
    }
  }
}

// A single token of a batch of many: its vectors are far apart.
TEST(InPlaceTest, OneTokenOfEveryBatchRow) {
  OnFake on;
  AddCase c;
  Fill(c, DType::kF32, 5, 1, 16, false, 0);
  c.task.x_batch_stride = c.task.y_batch_stride = 11 * 16;
  ExpectSameBits(on, c.task, 5, SomeBytes(DType::kF32, 5 * 11 * 16, 3), 5, "apart");
}

// Vectors that do not lie as the kernel has them: gaps between them, no multiples of 16 bytes, a gate in another order than
// theirs. What lies between them is nobody's to write.
TEST(InPlaceTest, AdditionsWhereverTheVectorsLie) {
  OnFake on;
  int number = 0;
  for (const DType dtype : kTypes) {
    for (const bool tokens_first : {false, true}) {
      for (const int64_t dim : {1, 6, 13, 24}) {
        for (const int64_t gap : {0, 1, 8}) {
          AddCase c;
          Fill(c, dtype, 3, 7, dim, tokens_first, number);
          AddTask& t = c.task;
          const int64_t width = dim + gap;
          t.x_token_stride = t.y_token_stride = tokens_first ? 3 * width + gap : width;
          t.x_batch_stride = t.y_batch_stride = tokens_first ? width : 7 * width + 2 * gap;
          if (t.gate.data != nullptr && number % 4 == 1) t.gate = {c.gate.data(), 7, 1};
          ExpectSameBits(on, t, 3 * 7, SomeBytes(dtype, 3 * 7 * (width + gap) + 4 * gap, 3), number % 3 == 0 ? 4 : 100,
                         absl::StrCat("case ", number));
          ++number;
        }
      }
    }
  }
  EXPECT_EQ(number, 96);
}

TEST(InPlaceTest, WhatTheDeviceHasNoKernelForIsRefused) {
  OnFake on;
  const std::string bytes = SomeBytes(DType::kF32, 4096, 3);
  const std::string handle = on.driver->Export(0, static_cast<int64_t>(bytes.size()));
  on.driver->Write(handle, bytes);
  const auto mapped = on.sharing->Open(0, handle);
  ASSERT_TRUE(mapped.ok());
  const std::string table = SomeBytes(DType::kF32, 40 * 32, 5);
  RotateTask rotation = Rotation(DType::kF32, 10, 2, 64, 32, Form::kDense);
  rotation.cos = rotation.sin = table.data();
  rotation.x = rotation.y = mapped->data;
  rotation.y_token_stride += 64;
  EXPECT_EQ(on.backend->Run(rotation, {0, 10}, nullptr).code(), absl::StatusCode::kUnimplemented);
  AddCase c;
  const auto expect_refused = [&](const char* what) {
    c.task.x = c.task.y = mapped->data;
    EXPECT_EQ(on.backend->Run(c.task, {0, 6}, nullptr).code(), absl::StatusCode::kUnimplemented) << what;
  };
  Fill(c, DType::kF32, 2, 3, 16, false, 0);
  c.task.x_token_stride = c.task.y_token_stride = 12;
  expect_refused("vectors that overlap");
  Fill(c, DType::kF32, 2, 3, 16, false, 0);
  c.task.y_token_stride = 20;
  expect_refused("x and y apart");
  EXPECT_EQ(on.launches(), 0);
  EXPECT_EQ(on.backend->stats().left_to_cpu, (std::array<int64_t, kCpuReasons>{}));
  EXPECT_EQ(on.backend->stats().other_errors, 0);
  on.sharing->Close(0, mapped->data);
  EXPECT_TRUE(on.driver->Read(handle) == bytes);
}

}  // namespace
}  // namespace phasor::cuda
