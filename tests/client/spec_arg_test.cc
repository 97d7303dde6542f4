#include "client/cli/spec_arg.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include "client/cli/positions_arg.h"

namespace phasor::cli {
namespace {

using ::google::protobuf::util::MessageDifferencer;
using ::testing::HasSubstr;

TEST(SpecFromPairsTest, SetsFieldsOfSchemeAndOfRope) {
  const auto spec = SpecFromPairs({"rope_yarn", "head_dim=128", "base=1e6", "factor=4", "original_max_position=32768",
                                   "truncate=false", "pairing=interleaved", "attention_factor=1.5"});
  ASSERT_TRUE(spec.ok()) << spec.status();
  v1::EncodingSpec want;
  want.mutable_rope()->set_head_dim(128);
  want.mutable_rope()->set_base(1e6);
  want.mutable_rope()->set_pairing(v1::PAIRING_INTERLEAVED);
  want.mutable_rope()->set_attention_factor(1.5);
  want.mutable_rope()->mutable_yarn()->set_factor(4);
  want.mutable_rope()->mutable_yarn()->set_original_max_position(32768);
  want.mutable_rope()->mutable_yarn()->set_truncate(false);
  EXPECT_TRUE(MessageDifferencer::Equals(*spec, want)) << spec->ShortDebugString();
}

TEST(SpecFromPairsTest, ReadsListsAndEnums) {
  const auto spec = SpecFromPairs({"alibi", "slopes=0.5,0.25", "form=symmetric"});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(spec->alibi().slopes(), testing::ElementsAre(0.5, 0.25));
  EXPECT_EQ(spec->alibi().form(), v1::ALIBI_FORM_SYMMETRIC);
  const auto sinusoidal = SpecFromPairs({"sinusoidal", "dim=8", "spacing=endpoint_inclusive", "layout=concatenated"});
  ASSERT_TRUE(sinusoidal.ok()) << sinusoidal.status();
  EXPECT_EQ(sinusoidal->sinusoidal().spacing(), v1::SINUSOIDAL_SPACING_ENDPOINT_INCLUSIVE);
}

TEST(SpecFromPairsTest, SchemeWithoutParametersSelectsItsSchedule) {
  const auto spec = SpecFromPairs({"rope_default", "head_dim=64"});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_TRUE(spec->rope().has_default_schedule());
}

TEST(SpecFromPairsTest, SaysWhatIsAllowed) {
  const auto message = [](const std::vector<std::string>& tokens) {
    return std::string(SpecFromPairs(tokens).status().message());
  };
  EXPECT_THAT(message({"rope_yarm"}), HasSubstr("rope_yarn"));
  EXPECT_THAT(message({"rope_linear", "head_dim=64", "facter=2"}),
              testing::AllOf(HasSubstr("'facter'"), HasSubstr("factor"), HasSubstr("rotary_dim")));
  EXPECT_THAT(message({"rope_linear", "factor=two"}),
              testing::AllOf(HasSubstr("factor"), HasSubstr("'two'"), HasSubstr("a number")));
  EXPECT_THAT(message({"rope_linear", "pairing=neox"}), HasSubstr("half_split, interleaved"));
  EXPECT_THAT(message({"rope_linear", "factor"}), HasSubstr("key=value"));
  EXPECT_TRUE(IsUsageError(SpecFromPairs({"rope_yarm"}).status()));
}

TEST(ParsePositionsTest, RangesAndLists) {
  const auto range = ParsePositions("0:10:3");
  ASSERT_TRUE(range.ok());
  EXPECT_EQ(range->count, 4);
  EXPECT_EQ(range->Window(1, 3).range().start(), 3);
  EXPECT_EQ(range->Window(1, 3).range().count(), 2);
  EXPECT_EQ(ParsePositions("-4:4")->count, 8);
  EXPECT_EQ(ParsePositions("5:5")->count, 0);
  EXPECT_EQ(ParsePositions("5:1")->count, 0);
  EXPECT_EQ(ParsePositions("5:1:-2")->count, 2);
  const auto list = ParsePositions("0,5,17");
  ASSERT_TRUE(list.ok());
  EXPECT_THAT(list->ids, testing::ElementsAre(0, 5, 17));
  EXPECT_THAT(list->Window(1, 3).list().ids(), testing::ElementsAre(5, 17));
}

TEST(ParsePositionsTest, FractionsAndGrids) {
  const auto list = ParsePositions("0.5,2,-1.25");
  ASSERT_TRUE(list.ok());
  EXPECT_EQ(list->count, 3);
  EXPECT_EQ(list->Text(1), "2");
  EXPECT_EQ(list->Text(2), "-1.25");
  const v1::Tensor ids = list->Window(1, 3).ids();
  EXPECT_EQ(ids.dtype(), v1::DTYPE_F64);
  EXPECT_THAT(ids.shape(), testing::ElementsAre(2));
  EXPECT_EQ(ids.data().size(), 16u);

  const auto grid = ParsePositions("grid:2x3");
  ASSERT_TRUE(grid.ok());
  EXPECT_EQ(grid->count, 6);
  EXPECT_EQ(grid->Text(4), "[1, 1]");
  EXPECT_EQ(grid->Window(0, 6).multi_axis().axes_size(), 2);
  for (const char* text : {"grid:", "grid:4", "grid:0x2", "grid:2x3x4x5x6", "grid:99999x99999", "0.5,"}) {
    EXPECT_TRUE(IsUsageError(ParsePositions(text).status())) << text;
  }
}

TEST(ParsePositionsTest, RefusesTheRest) {
  for (const char* text : {"", "a", "1:", ":", "1:2:0", "1:2:3:4", "1,,2", "-9223372036854775808:9223372036854775807",
                           "0:9223372036854775808", "1:-9223372036854775807:-1"}) {
    EXPECT_TRUE(IsUsageError(ParsePositions(text).status())) << text;
  }
}

}  // namespace
}  // namespace phasor::cli
