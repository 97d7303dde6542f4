// What single tables of angles are said to be.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "kernels/cpu/cpu_backend.h"
#include "server/knowledge/diagnosis.h"
#include "server/knowledge/fault_cards.h"
#include "server/knowledge/numbers.h"
#include "server/knowledge/round_numbers.h"
#include "tests/server/knowledge/angle_samples.h"

namespace phasor::server {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class DiagnoseAnglesTest : public testing::Test {
 protected:
  Diagnosis Of(const DiagnoseInput& input) {
    auto diagnosis = DiagnoseAngles(*backend_, input);
    EXPECT_TRUE(diagnosis.ok()) << diagnosis.status();
    return diagnosis.ok() ? *std::move(diagnosis) : Diagnosis{};
  }
  Diagnosis Of(const Sample& sample) {
    DiagnoseInput input;
    input.table = MakeTable(*backend_, sample);
    return Of(input);
  }
  static Sample RopeOf(double base, RopeSchedule schedule, int64_t dim = 128) {
    RopeSpec rope;
    rope.head_dim = dim;
    rope.base = base;
    rope.schedule = std::move(schedule);
    Sample sample;
    sample.spec = rope;
    sample.rows = 128;
    return sample;
  }
  static const RopeSpec& Rope(const Diagnosis& diagnosis) { return std::get<RopeSpec>(diagnosis.hypotheses[0].spec.spec); }

  std::unique_ptr<Backend> backend_ = MakeCpuBackend();
};

TEST_F(DiagnoseAnglesTest, PlainRopeFromTheStart) {
  Sample sample = RopeOf(10000, DefaultSchedule{});
  sample.form = Form::kDuplicated;
  const Diagnosis diagnosis = Of(sample);
  ASSERT_FALSE(diagnosis.hypotheses.empty());
  const Hypothesis& h = diagnosis.hypotheses[0];
  EXPECT_TRUE(h.reproduces);
  EXPECT_EQ(SchemeOf(h.spec.spec).name, "rope_default");
  EXPECT_EQ(Rope(diagnosis).base, 10000);
  EXPECT_EQ(h.layout, "duplicated");
  EXPECT_EQ(h.first_position, 0);
  EXPECT_EQ(h.computed, "exact");
  EXPECT_EQ(h.max_ulps, 0);
  EXPECT_THAT(diagnosis.faults, IsEmpty());
}

TEST_F(DiagnoseAnglesTest, ASliceOfCosinesAlone) {
  Sample sample = RopeOf(500000, DefaultSchedule{});
  sample.content = InputContent::kCos;
  sample.dtype = DType::kBF16;
  sample.start = 12345;
  const Diagnosis diagnosis = Of(sample);
  ASSERT_FALSE(diagnosis.hypotheses.empty());
  EXPECT_TRUE(diagnosis.hypotheses[0].reproduces);
  EXPECT_EQ(Rope(diagnosis).base, 500000);
  EXPECT_EQ(diagnosis.hypotheses[0].first_position, 12345);
}

TEST_F(DiagnoseAnglesTest, Yarn) {
  YarnSchedule yarn;
  yarn.factor = 4;
  yarn.original_max_position = 32768;
  Sample sample = RopeOf(1e6, yarn);
  sample.start = 40000;
  const Diagnosis diagnosis = Of(sample);
  ASSERT_FALSE(diagnosis.hypotheses.empty());
  EXPECT_TRUE(diagnosis.hypotheses[0].reproduces);
  ASSERT_TRUE(std::holds_alternative<YarnSchedule>(Rope(diagnosis).schedule));
  const YarnSchedule& found = std::get<YarnSchedule>(Rope(diagnosis).schedule);
  EXPECT_EQ(Rope(diagnosis).base, 1e6);
  EXPECT_EQ(found.factor, 4);
  EXPECT_EQ(found.original_max_position, 32768);
  EXPECT_EQ(diagnosis.hypotheses[0].first_position, 40000);
}

// Near sin 0 every row, and yet no two of them are alike.
TEST_F(DiagnoseAnglesTest, RowsThatDifferAreNotRepeated) {
  std::vector<double> values;
  for (int i = 0; i < 16 * 4; ++i) values.push_back(1e-310 * std::sin(i * i + 1));
  for (const InputContent content : {InputContent::kSin, InputContent::kUnknown}) {
    DiagnoseInput input;
    input.table.content = content;
    input.table.tensors.push_back({DType::kF64, {16, 4}, values});
    const auto diagnosis = DiagnoseTable(*backend_, input);
    ASSERT_TRUE(diagnosis.ok()) << diagnosis.status();
    for (const Fault& fault : diagnosis->faults) EXPECT_NE(fault.card->name, "rows_repeated") << fault.symptom;
  }
}

TEST_F(DiagnoseAnglesTest, Llama3) {
  const Diagnosis diagnosis = Of(RopeOf(500000, Llama3Schedule{8, 1, 4, 8192}));
  ASSERT_FALSE(diagnosis.hypotheses.empty());
  EXPECT_TRUE(diagnosis.hypotheses[0].reproduces);
  ASSERT_TRUE(std::holds_alternative<Llama3Schedule>(Rope(diagnosis).schedule));
  EXPECT_EQ(std::get<Llama3Schedule>(Rope(diagnosis).schedule), (Llama3Schedule{8, 1, 4, 8192}));
}

TEST_F(DiagnoseAnglesTest, Linear) {
  const Diagnosis diagnosis = Of(RopeOf(10000, LinearSchedule{8}));
  ASSERT_FALSE(diagnosis.hypotheses.empty());
  EXPECT_TRUE(diagnosis.hypotheses[0].reproduces);
  ASSERT_TRUE(std::holds_alternative<LinearSchedule>(Rope(diagnosis).schedule));
  EXPECT_EQ(std::get<LinearSchedule>(Rope(diagnosis).schedule).factor, 8);
}

TEST_F(DiagnoseAnglesTest, SaysWhatElseGivesTheSameNumbers) {
  const Diagnosis diagnosis = Of(RopeOf(10000, NtkAwareSchedule{4}));
  ASSERT_FALSE(diagnosis.hypotheses.empty());
  ASSERT_TRUE(std::holds_alternative<NtkAwareSchedule>(Rope(diagnosis).schedule));
  EXPECT_EQ(std::get<NtkAwareSchedule>(Rope(diagnosis).schedule).factor, 4);
  EXPECT_THAT(diagnosis.hypotheses[0].note, HasSubstr("dynamic NTK"));
}

TEST_F(DiagnoseAnglesTest, SinusoidsInBothSpacings) {
  for (SinusoidalSpacing spacing : {SinusoidalSpacing::kPaper, SinusoidalSpacing::kEndpointInclusive}) {
    for (SinusoidalLayout layout : {SinusoidalLayout::kInterleaved, SinusoidalLayout::kConcatenated}) {
      SinusoidalSpec spec;
      spec.dim = 384;
      spec.spacing = spacing;
      spec.layout = layout;
      Sample sample;
      sample.spec = spec;
      sample.content = InputContent::kSinusoidal;
      sample.rows = 200;
      sample.start = 7;
      const Diagnosis diagnosis = Of(sample);
      ASSERT_FALSE(diagnosis.hypotheses.empty());
      EXPECT_TRUE(diagnosis.hypotheses[0].reproduces);
      const auto* found = std::get_if<SinusoidalSpec>(&diagnosis.hypotheses[0].spec.spec);
      ASSERT_NE(found, nullptr);
      EXPECT_EQ(found->spacing, spacing);
      EXPECT_EQ(found->layout, layout);
      EXPECT_EQ(found->base, 10000);
      EXPECT_EQ(diagnosis.hypotheses[0].first_position, 7);
    }
  }
}

TEST_F(DiagnoseAnglesTest, AFloat32LibraryIsRecognisedAndNotBlamed) {
  Sample sample = RopeOf(10000, DefaultSchedule{});
  sample.precision = Precision::kCompatF32;
  sample.rows = 2048;
  const Diagnosis diagnosis = Of(sample);
  ASSERT_FALSE(diagnosis.hypotheses.empty());
  EXPECT_TRUE(diagnosis.hypotheses[0].reproduces);
  EXPECT_EQ(diagnosis.hypotheses[0].computed, "compat_f32");
  EXPECT_THAT(diagnosis.faults, IsEmpty());
}

TEST_F(DiagnoseAnglesTest, Frequencies) {
  DiagnoseInput input;
  input.table.content = InputContent::kInvFreq;
  InputTensor tensor{DType::kF32, {64}, {}};
  for (int i = 0; i < 64; ++i) {
    tensor.values.push_back(RoundTo(DType::kF32, std::pow(500000.0, -static_cast<double>(i) / 64)));
  }
  input.table.tensors = {tensor};
  const Diagnosis right = Of(input);
  ASSERT_FALSE(right.hypotheses.empty());
  EXPECT_TRUE(right.hypotheses[0].reproduces);
  EXPECT_EQ(Rope(right).base, 500000);
  EXPECT_THAT(right.faults, IsEmpty());
  for (double& value : input.table.tensors[0].values) value = RoundTo(DType::kBF16, value);
  const Diagnosis rounded = Of(input);
  ASSERT_FALSE(rounded.faults.empty());
  EXPECT_EQ(rounded.faults[0].card->name, "frequencies_in_bf16");
}

TEST_F(DiagnoseAnglesTest, UnknownIsSaidHonestly) {
  Random random(3);
  for (int kind = 0; kind < 4; ++kind) {
    DiagnoseInput input;
    InputTensor tensor{DType::kF32, {kind == 1 ? 1 : 64, 32}, {}};
    for (int64_t i = 0; i < tensor.shape[0] * 32; ++i) {
      const double noise = static_cast<double>(Below(random, 20001)) / 10000 - 1;
      tensor.values.push_back(RoundTo(DType::kF32, kind == 0 ? 0.5 : kind == 1 ? 1 : kind == 2 ? noise : 1e30 * noise));
    }
    input.table.tensors = {tensor};
    const Diagnosis diagnosis = Of(input);
    for (const Hypothesis& h : diagnosis.hypotheses) EXPECT_FALSE(h.reproduces) << kind << " " << h.note;
    EXPECT_FALSE(diagnosis.observations.empty());
  }
}

TEST_F(DiagnoseAnglesTest, NamesTheFirstRowThatIsNotFinite) {
  Sample sample = RopeOf(10000, DefaultSchedule{});
  DiagnoseInput input;
  input.table = MakeTable(*backend_, sample);
  input.table.tensors[1].values[77 * 64 + 3] = std::numeric_limits<double>::infinity();
  const Diagnosis diagnosis = Of(input);
  ASSERT_FALSE(diagnosis.faults.empty());
  EXPECT_EQ(diagnosis.faults[0].card->name, "not_finite");
  EXPECT_EQ(diagnosis.faults[0].first_row, 77);
  ASSERT_FALSE(diagnosis.hypotheses.empty());
  EXPECT_EQ(Rope(diagnosis).base, 10000);
  EXPECT_FALSE(diagnosis.hypotheses[0].reproduces);
}

TEST_F(DiagnoseAnglesTest, StopsWhenCancelled) {
  CancelFlag cancel;
  cancel.store(true);
  DiagnoseInput input;
  Random random(1);
  Sample sample = DrawRope(random, 12);
  sample.rows = 64;
  input.table = MakeTable(*backend_, sample);
  input.cancel = &cancel;
  EXPECT_EQ(DiagnoseAngles(*backend_, input).status().code(), absl::StatusCode::kCancelled);
}

TEST_F(DiagnoseAnglesTest, ALargeTableIsQuick) {
  Sample sample = RopeOf(500000, Llama3Schedule{8, 1, 4, 8192}, 256);
  sample.rows = 4096;
  DiagnoseInput input;
  input.table = MakeTable(*backend_, sample);
  const auto before = std::chrono::steady_clock::now();
  const Diagnosis diagnosis = Of(input);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - before;
  std::printf("[4096, 128] cos and sin: %.1f ms\n", took.count());
  ASSERT_FALSE(diagnosis.hypotheses.empty());
  EXPECT_TRUE(diagnosis.hypotheses[0].reproduces);
}

TEST_F(DiagnoseAnglesTest, EveryCardSaysWhatToDo) {
  for (const FaultCard& card : AngleFaultCards()) {
    EXPECT_FALSE(card.cause.empty()) << card.name;
    EXPECT_FALSE(card.check.empty()) << card.name;
    EXPECT_FALSE(card.fix.empty()) << card.name;
  }
}

TEST(RoundNumbers, AreTheShortestWithinTheError) {
  EXPECT_EQ(Roundest(499999.7, 1), 500000);
  EXPECT_EQ(Roundest(0.70712, 1e-4), 0.7071);
  EXPECT_EQ(Roundest(1.0 / 3, 0), 1.0 / 3);
  EXPECT_EQ(DigitsOf(500000), 1);
  EXPECT_EQ(DigitsOf(1.25), 3);
}

}  // namespace
}  // namespace phasor::server
