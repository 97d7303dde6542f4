#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/backend_choice.h"

namespace phasor {
namespace {

using testing::HasSubstr;

TEST(BackendListTest, IsOrderedAndSaysWhy) {
  std::vector<std::string_view> names;
  for (const BackendInfo& info : ListBackends()) {
    names.push_back(info.name);
    EXPECT_EQ(info.usable, info.reason.empty()) << info.name;
  }
  EXPECT_THAT(names, testing::ElementsAre("cuda", "cpu", "reference"));
}

TEST(CreateBackendTest, EveryUsableOneByName) {
  for (const BackendInfo& info : ListBackends()) {
    const auto backend = CreateBackend(info.name);
    ASSERT_EQ(backend.ok(), info.usable) << backend.status();
    if (!info.usable) {
      EXPECT_EQ(backend.status().code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(std::string(backend.status().message()), HasSubstr(info.reason));
      continue;
    }
    EXPECT_EQ((*backend)->name(), info.name);
    EXPECT_FALSE((*backend)->description().empty());
  }
}

TEST(CreateBackendTest, AutoIsTheFirstUsableOne) {
  std::string_view first;
  for (const BackendInfo& info : ListBackends()) {
    if (info.usable && first.empty()) first = info.name;
  }
  const auto backend = CreateBackend("auto");
  ASSERT_TRUE(backend.ok());
  EXPECT_EQ((*backend)->name(), first);
}

// A device that is there and does not work: the server starts on the next backend, and says why.
TEST(ChooseBackendTest, AutoGoesOnWhereOneCannotBeMade) {
  const auto well = [] { return absl::OkStatus(); };
  constexpr auto kCpu = [](const BackendOptions&) { return CreateBackend("cpu"); };
  const BackendEntry entries[] = {
      {"gone", kCpu, [] { return absl::UnavailableError("no driver"); }},
      {"broken",
       [](const BackendOptions&) -> absl::StatusOr<std::unique_ptr<Backend>> { return absl::AbortedError("device lost"); },
       well},
      {"good", kCpu, well},
      {"spare",
       [](const BackendOptions&) -> absl::StatusOr<std::unique_ptr<Backend>> { return absl::InternalError("never made"); },
       well}};
  const auto choice = ChooseBackend(entries, "auto", {});
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->backend->name(), "cpu");
  const auto is = [](std::string_view name, bool usable, const std::string& reason) {
    return testing::AllOf(testing::Field(&BackendInfo::name, name), testing::Field(&BackendInfo::usable, usable),
                          testing::Field(&BackendInfo::reason, reason));
  };
  EXPECT_THAT(choice->list, testing::ElementsAre(is("gone", false, "no driver"), is("broken", false, "device lost"),
                                                 is("good", true, ""), is("spare", true, "")));
  for (const auto& [name, why] : {std::pair{"gone", "gone (no driver)"}, {"broken", "broken (device lost)"}}) {
    const auto refused = ChooseBackend(entries, name, {});
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition) << name;
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr(why));
  }
  // A flag that is wrong is no reason to go on without it.
  const BackendEntry wrong[] = {{"wrong",
                                 [](const BackendOptions&) -> absl::StatusOr<std::unique_ptr<Backend>> {
                                   return absl::InvalidArgumentError("device");
                                 },
                                 well},
                                {"good", kCpu, well}};
  EXPECT_EQ(ChooseBackend(wrong, "auto", {}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(PlaceOfWorkTest, NamesTheBackendAndWhyTheCpu) {
  const auto backend = CreateBackend("cpu");
  ASSERT_TRUE(backend.ok());
  CancelFlag notes{false};
  EXPECT_EQ(PlaceOfWork(**backend, notes), "cpu");
  notes.NoteCpu(CpuReason::kTask);
  EXPECT_EQ(PlaceOfWork(**backend, notes), "cpu:task");
  notes.NoteCpu(CpuReason::kMemory);
  EXPECT_EQ(PlaceOfWork(**backend, notes), "cpu:task,memory");
  EXPECT_FALSE(notes.ran_on_device());
  notes.NoteDevice();
  EXPECT_EQ(PlaceOfWork(**backend, notes), "cpu,cpu:task,memory");  // the first is the backend's own name
  EXPECT_FALSE(notes.load());
}

TEST(CreateBackendTest, UnknownNamesListTheKnownOnes) {
  const auto backend = CreateBackend("tpu");
  EXPECT_EQ(backend.status().code(), absl::StatusCode::kFailedPrecondition);
  const std::string message(backend.status().message());
  for (const char* part : {"given tpu", "auto", "cpu", "reference", "cuda"}) EXPECT_THAT(message, HasSubstr(part));
}

TEST(RowsPerSliceTest, IsAtLeastOneHoweverWideTheRows) {
  AnglePlan plan;
  plan.frequencies.resize(1 << 19);
  AngleTask angle;
  angle.plan = &plan;
  RotateTask rotate;
  rotate.heads = 65536;
  rotate.head_dim = 65536;
  rotate.pairs = 32768;
  BiasVectorTask bias;
  bias.heads = 65536;
  ToeplitzTask toeplitz;
  toeplitz.keys = int64_t{1} << 31;
  AssembleTask assemble;
  assemble.pairs = 1 << 19;
  assemble.columns = 1 << 20;
  for (const Task& task : {Task(angle), Task(rotate), Task(bias), Task(toeplitz), Task(assemble)}) {
    EXPECT_GE(RowsPerSlice(task), 1);
    EXPECT_LE(RowsPerSlice(task), 4);
  }
}

}  // namespace
}  // namespace phasor
