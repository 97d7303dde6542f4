// The engine's small parts: admission, control-group quota, limits, fingerprints, plan cache.
#include <filesystem>
#include <fstream>
#include <set>

#include "gtest/gtest.h"

#include "server/admission.h"
#include "server/cgroup.h"
#include "server/describe.h"
#include "server/fingerprint.h"
#include "server/limits.h"
#include "server/plan_cache.h"
#include "server/refusal.h"
#include "tests/server/engine_test_util.h"

namespace phasor::server {
namespace {

TEST(Admission, ChargesUntilTheHandleDies) {
  Admission admission(100);
  auto first = admission.Charge(60);
  ASSERT_TRUE(first.ok());
  auto refused = admission.Charge(41);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(RefusalOf(refused.status()), Refusal::kInflightBytes);
  auto second = admission.Charge(40);
  ASSERT_TRUE(second.ok());
  std::shared_ptr<const void> copy = *first;
  first = absl::UnknownError("");
  EXPECT_EQ(admission.used_bytes(), 100);
  copy.reset();
  EXPECT_EQ(admission.used_bytes(), 40);
}

TEST(Admission, OneCallIsServedWhateverItsSize) {
  Admission admission(100);
  auto large = admission.Charge(1000);
  ASSERT_TRUE(large.ok());
  EXPECT_FALSE(admission.Charge(1).ok());
  EXPECT_FALSE(admission.Charge(std::numeric_limits<int64_t>::max()).ok());
}

TEST(Admission, HandlesOutliveIt) {
  std::shared_ptr<const void> handle;
  {
    Admission admission(100);
    handle = *admission.Charge(1);
  }
  handle.reset();
}

TEST(Refusal, OtherErrorsHaveNone) {
  EXPECT_EQ(RefusalOf(absl::UnavailableError("")), std::nullopt);
  EXPECT_EQ(RefusalOf(MakeRefusal(Refusal::kQueueFull, "x")), Refusal::kQueueFull);
}

class CgroupTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  void SetUp() override {
    root_ = ::testing::TempDir() + "cgroup_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  std::string root_;
};

TEST_F(CgroupTest, Version2TakesTheSmallestOnThePath) {
  Write("/proc/self/cgroup", "0::/kubepods/pod1/box\n");
  Write("/sys/fs/cgroup/kubepods/cpu.max", "800000 100000\n");
  Write("/sys/fs/cgroup/kubepods/pod1/cpu.max", "150000 100000\n");
  Write("/sys/fs/cgroup/kubepods/pod1/box/cpu.max", "max 100000\n");
  EXPECT_EQ(CgroupCpuQuota(root_), 1.5);
}

TEST_F(CgroupTest, Version2InsideAContainer) {
  Write("/proc/self/cgroup", "0::/not/mounted/here\n");
  Write("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(CgroupCpuQuota(root_), 0.5);
}

TEST_F(CgroupTest, Version1) {
  Write("/proc/self/cgroup", "7:memory:/x\n4:cpu,cpuacct:/docker/abc\n");
  Write("/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "400000\n");
  Write("/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CgroupCpuQuota(root_), 4.0);
}

TEST_F(CgroupTest, NoQuota) {
  EXPECT_EQ(CgroupCpuQuota(root_), std::nullopt);
  Write("/proc/self/cgroup", "4:cpu:/\n0::/\nnonsense\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  Write("/sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(CgroupCpuQuota(root_), std::nullopt);
  EXPECT_GE(DefaultWorkerThreads(), 1);
}

TEST(Limits, EveryLimitHasOneRowAndItsDefaultIsAllowed) {
  std::set<std::string_view> names;
  const Limits defaults;
  for (const LimitRow& row : LimitRows()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_LE(row.lowest, defaults.*row.field) << row.name;
    EXPECT_GE(row.highest, defaults.*row.field) << row.name;
    EXPECT_FALSE(row.meaning.empty());
  }
  EXPECT_EQ(names.size() * sizeof(int64_t), sizeof(Limits));
}

TEST(Fingerprint, Sha256OfKnownText) {
  const std::string digest = Sha256("abc");  // FIPS 180-2, appendix B.1
  const unsigned char start[] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea};
  ASSERT_EQ(digest.size(), 32u);
  EXPECT_EQ(std::memcmp(digest.data(), start, sizeof(start)), 0);
}

std::string PrintOf(const TableContent& content, DType dtype = DType::kF32, std::string_view key = "plan") {
  return *TableFingerprint(PlanHash(key), content, dtype);
}

TEST(Fingerprint, DependsOnAllThatDecidesBitsAndNothingElse) {
  const PositionSet range = Range(3, 4), ids = Ids({3, 4, 5, 6}), other_ids = Ids({3, 4, 6, 5}), longer = Range(3, 5);
  const PositionSet strided = Range(3, 4, 2), later = Range(4, 4), one = Range(3, 1), one_strided = Range(3, 1, 9);
  TableContent base;
  base.positions = &range;
  base.columns = 8;
  std::set<std::string> seen = {PrintOf(base)};
  const auto differs = [&](const std::string& print) { EXPECT_TRUE(seen.insert(print).second); };
  differs(PrintOf(base, DType::kF16));
  differs(PrintOf(base, DType::kF32, "plan2"));
  TableContent content = base;
  content.positions = &other_ids;
  differs(PrintOf(content));
  content.positions = &longer;
  differs(PrintOf(content));
  content.positions = &strided;
  differs(PrintOf(content));
  content.positions = &one;
  differs(PrintOf(content));
  const std::string print_of_one = PrintOf(content);
  content.positions = &one_strided;
  EXPECT_EQ(PrintOf(content), print_of_one);
  content = base;
  content.inverse = true;
  differs(PrintOf(content));
  content = base;
  const double inv_freq[] = {1, 0.5};
  content.inv_freq = inv_freq;
  differs(PrintOf(content));
  content = base;
  content.zero_row = 4;
  differs(PrintOf(content));
  content = base;
  content.columns = 7;
  differs(PrintOf(content));
  content = base;
  content.form = TableForm::kConcatenated;
  differs(PrintOf(content));

  content = base;
  content.positions = &ids;
  EXPECT_EQ(PrintOf(content), PrintOf(base));
  TableContent moved = base;
  moved.position_offset = 1;
  content.positions = &later;
  EXPECT_EQ(PrintOf(content), PrintOf(moved));
}

TEST(PlanCache, FindsWhatItResolvedAndForgetsTheOldest) {
  PlanCache plans(2);
  const TableSource a = Rope(4, 10000), b = Rope(4, 20000), c = Rope(4, 30000);
  EXPECT_EQ(plans.Find(a.spec, std::nullopt, a.precision), nullptr);
  const auto first = plans.Resolve(a.spec, std::nullopt, a.precision);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ((*first)->angle()->pairs(), 4);
  EXPECT_EQ((*first)->fingerprint, PlanFingerprint((*first)->resolved.plan));
  EXPECT_EQ(plans.Find(a.spec, 4096, a.precision), *first);  // the scheme does not depend on the length
  EXPECT_EQ(plans.Find(a.spec, std::nullopt, Precision::kCompatF32), nullptr);
  ASSERT_TRUE(plans.Resolve(b.spec, std::nullopt, b.precision).ok());
  EXPECT_EQ(*plans.Resolve(a.spec, std::nullopt, a.precision), *first);
  ASSERT_TRUE(plans.Resolve(c.spec, std::nullopt, c.precision).ok());
  EXPECT_EQ(plans.Find(b.spec, std::nullopt, b.precision), nullptr);
  EXPECT_EQ(plans.Find(a.spec, std::nullopt, a.precision), *first);
}

TEST(PlanCache, ForgetsTheOldestWhenTheyAreTooLarge) {
  PlanCache plans(100, 1 << 20);
  const TableSource narrow = Rope(4, 10000);
  ASSERT_TRUE(plans.Resolve(narrow.spec, std::nullopt, narrow.precision).ok());
  std::vector<TableSource> wide;
  for (int i = 0; i < 5; ++i) {
    wide.push_back(Rope(4096, 10000 + i));  // some 300 KiB each
    ASSERT_TRUE(plans.Resolve(wide.back().spec, std::nullopt, narrow.precision).ok());
  }
  EXPECT_EQ(plans.Find(narrow.spec, std::nullopt, narrow.precision), nullptr);
  EXPECT_EQ(plans.Find(wide.front().spec, std::nullopt, narrow.precision), nullptr);
  EXPECT_NE(plans.Find(wide.back().spec, std::nullopt, narrow.precision), nullptr);
  // The newest is kept however large it is.
  PlanCache one(100, 1);
  ASSERT_TRUE(one.Resolve(narrow.spec, std::nullopt, narrow.precision).ok());
  EXPECT_NE(one.Find(narrow.spec, std::nullopt, narrow.precision), nullptr);
}

TEST(PlanCache, CountsWeightsAndDoesNotKeepLargeOnes) {
  PlanCache plans(100, 1 << 20);
  const TableSource a = Rope(4, 10000), b = Rope(4, 500), c = Rope(4, 600), d = Rope(4, 700);
  for (const auto& [source, bytes] : {std::pair(&a, 262144), {&b, 262144}, {&c, 262144}, {&d, 262144}}) {
    ASSERT_TRUE(plans.Resolve(source->spec, std::nullopt, source->precision, bytes).ok());
  }
  EXPECT_EQ(plans.Find(a.spec, std::nullopt, a.precision), nullptr);
  EXPECT_NE(plans.Find(b.spec, std::nullopt, b.precision), nullptr);
  ASSERT_TRUE(plans.Resolve(a.spec, std::nullopt, a.precision, 262145).ok());
  EXPECT_EQ(plans.Find(a.spec, std::nullopt, a.precision), nullptr);
  EXPECT_NE(plans.Find(b.spec, std::nullopt, b.precision), nullptr);  // nothing had to go for it
}

TEST(PlanCache, KeepsLengthsApartWhereTheyCount) {
  RopeSpec spec;
  spec.head_dim = 8;
  spec.schedule = DynamicNtkSchedule{2, 1024};
  const TableSource source = Source(spec);
  PlanCache plans(8);
  EXPECT_EQ(plans.Resolve(source.spec, std::nullopt, source.precision).status().code(), absl::StatusCode::kInvalidArgument);
  const auto shorter = plans.Resolve(source.spec, 512, source.precision);
  const auto longer = plans.Resolve(source.spec, 4096, source.precision);
  ASSERT_TRUE(shorter.ok() && longer.ok());
  EXPECT_NE((*shorter)->key, (*longer)->key);
  // Below the trained length all are one plan, and so share their tiles.
  EXPECT_EQ((*plans.Resolve(source.spec, 1024, source.precision))->key, (*shorter)->key);
}

TEST(Warnings, BeyondTheModelsMaximum) {
  RopeSpec spec;
  spec.head_dim = 8;
  spec.schedule = YarnSchedule{.factor = 4,
                               .original_max_position = 1000,
                               .beta_fast = {},
                               .beta_slow = {},
                               .truncate = {},
                               .mscale = {},
                               .mscale_all_dim = {},
                               .attention_coefficient = {},
                               .log_blend = {},
                               .attention_factor_multiplier = {},
                               .extrapolation_factor = {}};
  const TableSource yarn = Source(spec);
  const size_t own = yarn.spec.warnings.size();
  EXPECT_EQ(WarningsFor(yarn, 3999, "table.positions").size(), own);
  const auto warnings = WarningsFor(yarn, 4000, "table.positions");
  ASSERT_EQ(warnings.size(), own + 1);
  EXPECT_EQ(warnings.back().field, "table.positions");
  EXPECT_EQ(warnings.back().message, "position 4000 is beyond the model's own maximum of 4000 positions");
  // The last of 4000 positions is 3999: one between two of them is said as it is.
  EXPECT_EQ(WarningsFor(yarn, 3998.5, "table.positions").size(), own);
  ASSERT_EQ(WarningsFor(yarn, 3999.25, "table.positions").size(), own + 1);
  EXPECT_EQ(WarningsFor(yarn, 3999.25, "table.positions").back().message,
            "position 3999.25 is beyond the model's own maximum of 4000 positions");
  spec.schedule = DynamicNtkSchedule{2, 1024};
  TableSource dynamic = Source(spec);
  dynamic.sequence_length = 4096;
  EXPECT_EQ(WarningsFor(dynamic, 4095, "x").size(), dynamic.spec.warnings.size());
  EXPECT_EQ(WarningsFor(dynamic, 4096, "x").size(), dynamic.spec.warnings.size() + 1);
  EXPECT_TRUE(WarningsFor(Rope(), 1 << 30, "x").empty());
  spec.schedule = Llama3Schedule{8, 1, 4, 8192};
  TableSource llama = Source(spec);
  EXPECT_TRUE(WarningsFor(llama, 131072, "x").empty()) << "the schedule does not say what the model was made for";
  llama.max_position = 131072;
  EXPECT_TRUE(WarningsFor(llama, 131071, "x").empty());
  EXPECT_EQ(WarningsFor(llama, 131072, "x").size(), 1u);
}

}  // namespace
}  // namespace phasor::server
