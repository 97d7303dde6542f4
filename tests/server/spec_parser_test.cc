#include "server/spec_parser.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "server/fingerprint.h"
#include "server/spec_weights.h"

namespace phasor::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Every field set, each number different from its default and from the others; of a oneof the member chosen by `arm`.
void FillEverything(Message* message, int arm, int* next) {
  const auto* reflection = message->GetReflection();
  for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = message->GetDescriptor()->field(i);
    if (const auto* oneof = field->real_containing_oneof();
        oneof != nullptr && oneof->field(arm % oneof->field_count()) != field) {
      continue;
    }
    const int value = ++*next;
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT64:
        if (!field->is_repeated()) reflection->SetInt64(message, field, value);
        for (int k = 0; field->is_repeated() && k < 3; ++k) reflection->AddInt64(message, field, value + k);
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        if (!field->is_repeated()) reflection->SetDouble(message, field, value + 0.5);
        for (int k = 0; field->is_repeated() && k < 3; ++k) reflection->AddDouble(message, field, value + 0.1 * k);
        break;
      case FieldDescriptor::CPPTYPE_BOOL:
        reflection->SetBool(message, field, true);
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        reflection->SetEnumValue(message, field, field->enum_type()->value_count() - 1);
        break;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        FillEverything(reflection->MutableMessage(message, field), arm, next);
        break;
      default:
        FAIL() << "a kind of field that this test does not know: " << field->full_name();
    }
  }
}

// A field that the parser or the writer forgets is lost on the way.
TEST(SpecParserTest, NoFieldIsLost) {
  for (int arm = 0; arm < 13; ++arm) {
    v1::EncodingSpec rope;
    int next = 0;
    FillEverything(rope.mutable_rope(), arm, &next);
    const auto spec = SpecFromProto(rope);
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(std::get<RopeSpec>(*spec).schedule.index(), static_cast<size_t>(arm));
    v1::EncodingSpec back;
    SpecToProto(*spec, &back);
    EXPECT_EQ(back.DebugString(), rope.DebugString());
    EXPECT_EQ(*SpecFromProto(back), *spec);
  }
  // The arms that have no schedules, but perhaps oneofs of their own; their weights are judged by Canonicalize.
  const auto* scheme = v1::EncodingSpec::descriptor()->FindOneofByName("scheme");
  for (int i = 0; i < scheme->field_count(); ++i) {
    const FieldDescriptor* field = scheme->field(i);
    if (field->name() == "rope") continue;
    for (int arm = 0; arm < 3; ++arm) {
      v1::EncodingSpec message;
      int next = 0;
      FillEverything(message.GetReflection()->MutableMessage(&message, field), arm, &next);
      const auto spec = SpecFromProto(message);
      ASSERT_TRUE(spec.ok()) << field->name() << spec.status();
      v1::EncodingSpec back;
      SpecToProto(*spec, &back);
      EXPECT_EQ(back.DebugString(), message.DebugString());
      EXPECT_EQ(*SpecFromProto(back), *spec);
    }
  }
}

// Weights come back by name, type, shape and hash.
TEST(SpecParserTest, WeightsAreNamedByTheirContent) {
  v1::EncodingSpec message;
  message.mutable_fire();
  int64_t extent = 1;
  for (const char* name : {"w1", "b1", "w2", "b2"}) {
    v1::Weight* weight = message.add_weights();
    weight->set_name(name);
    weight->mutable_tensor()->set_dtype(v1::DTYPE_F16);
    weight->mutable_tensor()->add_shape(++extent);
    weight->mutable_tensor()->set_data(std::string(static_cast<size_t>(2 * extent), 'w'));
  }
  const InlineWeightReader reader;
  const auto spec = SpecFromProto(message, &reader);
  ASSERT_TRUE(spec.ok()) << spec.status();
  v1::EncodingSpec back;
  SpecToProto(*spec, &back);
  ASSERT_EQ(back.weights_size(), 4);
  EXPECT_EQ(back.weights(2).name(), "w2");
  EXPECT_EQ(back.weights(2).tensor().dtype(), v1::DTYPE_F16);
  EXPECT_EQ(back.weights(2).tensor().shape(0), 4);
  EXPECT_EQ(back.weights(2).tensor().upload().sha256(), Sha256(std::string(8, 'w')));
}

// Whatever part of a weight an error is about, the path has the weight's place in the message.
TEST(SpecParserTest, WeightsAreBlamedByTheirPlace) {
  v1::EncodingSpec message;
  message.add_weights()->set_name("other");
  message.add_weights()->set_name("table");
  for (const char* rest : {"", ".tensor", ".tensor.shape[0]", "[0, 0]"}) {
    EXPECT_EQ(WeightPath(message, absl::StrCat("weights.table", rest)), absl::StrCat("weights[1]", rest));
  }
  for (const char* path : {"weights.tables", "weights", "t5_bucket.table", "weights.none[0]"}) {
    EXPECT_EQ(WeightPath(message, path), path);
  }
}

TEST(SpecParserTest, UnsetStaysUnset) {
  v1::EncodingSpec message;
  message.mutable_rope()->mutable_yarn();
  const auto spec = SpecFromProto(message);
  ASSERT_TRUE(spec.ok());
  const auto& rope = std::get<RopeSpec>(*spec);
  EXPECT_FALSE(rope.rotary_dim || rope.base || rope.pairing || rope.attention_factor);
  const auto& yarn = std::get<YarnSchedule>(rope.schedule);
  EXPECT_FALSE(yarn.beta_fast || yarn.beta_slow || yarn.truncate || yarn.mscale || yarn.mscale_all_dim);
  message.mutable_rope();
  message.mutable_rope()->clear_schedule();
  EXPECT_TRUE(std::holds_alternative<DefaultSchedule>(std::get<RopeSpec>(*SpecFromProto(message)).schedule));
}

TEST(SpecParserTest, ZeroThatIsWrittenIsNotAbsent) {
  v1::EncodingSpec message;
  message.mutable_rope()->mutable_yarn()->set_mscale(0);
  message.mutable_rope()->set_base(0);
  const auto spec = SpecFromProto(message);
  EXPECT_EQ(std::get<RopeSpec>(*spec).base, 0.0);
  EXPECT_EQ(std::get<YarnSchedule>(std::get<RopeSpec>(*spec).schedule).mscale, 0.0);
}

TEST(SpecParserTest, CanonicalSpecsShowEveryDefault) {
  v1::EncodingSpec message;
  message.mutable_rope()->set_head_dim(128);
  const auto canonical = Canonicalize(*SpecFromProto(message));
  ASSERT_TRUE(canonical.ok());
  SpecToProto(canonical->spec, &message);
  EXPECT_EQ(message.ShortDebugString(),
            "rope { head_dim: 128 rotary_dim: 128 base: 10000 pairing: PAIRING_HALF_SPLIT default_schedule { } }");
}

TEST(SpecParserTest, Errors) {
  const auto nothing = SpecFromProto(v1::EncodingSpec());
  ASSERT_TRUE(SpecErrorOf(nothing.status()));
  EXPECT_EQ(SpecErrorOf(nothing.status())->field, "");
  EXPECT_EQ(SpecErrorOf(nothing.status())->allowed.substr(0, 31), "one of rope, sinusoidal, alibi,");

  struct Case {
    const char* text;
    const char* field;
    const char* allowed;
  };
  for (const Case& c : {
           Case{"rope { head_dim: 8 pairing: 9 }", "rope.pairing",
                "PAIRING_HALF_SPLIT (1), PAIRING_INTERLEAVED (2), PAIRING_INTERLEAVED_TO_HALF (3)"},
           Case{"sinusoidal { dim: 8 layout: 9 }", "sinusoidal.layout",
                "SINUSOIDAL_LAYOUT_INTERLEAVED (1), SINUSOIDAL_LAYOUT_CONCATENATED (2)"},
           Case{"sinusoidal { dim: 8 spacing: 9 }", "sinusoidal.spacing",
                "SINUSOIDAL_SPACING_PAPER (1), SINUSOIDAL_SPACING_ENDPOINT_INCLUSIVE (2)"},
           Case{"alibi { num_heads: 8 form: 9 }", "alibi.form",
                "ALIBI_FORM_CAUSAL (1), ALIBI_FORM_SYMMETRIC (2), ALIBI_FORM_TWO_SIDED (3)"},
       }) {
    v1::EncodingSpec message;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(c.text, &message)) << c.text;
    const auto spec = SpecFromProto(message);
    const auto error = SpecErrorOf(spec.status());
    ASSERT_TRUE(error) << c.text;
    EXPECT_EQ(error->field, c.field);
    EXPECT_EQ(error->given, "9");
    EXPECT_EQ(error->allowed, c.allowed);
  }
}

}  // namespace
}  // namespace phasor::server
