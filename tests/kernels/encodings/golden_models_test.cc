// Every rope, mrope, alibi and sinusoidal entry of the golden models, from the scheme's parameters to the plan's numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "kernels/encodings/encoding.h"
#include "tests/kernels/encodings/decimal.h"
#include "tests/kernels/encodings/golden_specs.h"

namespace phasor {
namespace {

const GoldenModels& Models() {
  static const GoldenModels* const models = new GoldenModels(PHASOR_SOURCE_DIR "/tests/golden/models");
  return *models;
}

class GoldenModelsTest : public testing::TestWithParam<int> {};

Resolved ResolveOrDie(const GoldenEntry& entry) {
  const auto canonical = Canonicalize(entry.spec);
  EXPECT_TRUE(canonical.ok()) << canonical.status();
  if (!canonical.ok()) return {};
  auto resolved = Resolve(*canonical, entry.sequence_length, Precision::kExact);
  EXPECT_TRUE(resolved.ok()) << resolved.status();
  return resolved.ok() ? *std::move(resolved) : Resolved{};
}

// The frequency that the plan's turns stand for, 2π·turns.
void ExpectTurnsMatch(const Turns& turns, const Mpfr& inv_freq) {
  Mpfr sum(0.0);
  for (int i = 0; i < 4; ++i) {
    Mpfr limb;
    mpfr_set_ui(limb.get(), turns.limb[i], MPFR_RNDN);
    mpfr_mul_2si(limb.get(), limb.get(), 64 * (i - 3), MPFR_RNDN);
    mpfr_add(sum.get(), sum.get(), limb.get(), MPFR_RNDN);
  }
  Mpfr two_pi;
  mpfr_const_pi(two_pi.get(), MPFR_RNDN);
  mpfr_mul_ui(two_pi.get(), two_pi.get(), 2, MPFR_RNDN);
  mpfr_mul(sum.get(), sum.get(), two_pi.get(), MPFR_RNDN);
  // The strings have 20 significant digits.
  EXPECT_LE(sum.RelativeError(inv_freq), 5.1e-20);
}

void ExpectAngles(const GoldenEntry& entry) {
  const rapidjson::Value& expect = *entry.expect;
  const Resolved resolved = ResolveOrDie(entry);
  const AnglePlan& plan = std::get<AnglePlan>(resolved.plan);
  const auto& inv_freq = expect["inv_freq"].GetArray();
  ASSERT_EQ(plan.pairs(), static_cast<int64_t>(inv_freq.Size()));
  ASSERT_EQ(plan.inv_freq.size(), inv_freq.Size());
  for (rapidjson::SizeType i = 0; i < inv_freq.Size(); ++i) {
    SCOPED_TRACE(testing::Message() << "pair " << i);
    const Mpfr exact(std::string(inv_freq[i].GetString()));
    ExpectTurnsMatch(plan.frequencies[i], exact);
    // Correct rounding, but for a string whose own 20 digits end beside a tie.
    EXPECT_LE(Mpfr(plan.inv_freq[i]).RelativeError(exact), 1.12e-16);
    EXPECT_EQ(plan.inv_freq_f32[i], mpfr_get_flt(exact.get(), MPFR_RNDN));
  }
  const Mpfr factor(std::string(expect["attention_factor_exact"].GetString()));
  EXPECT_EQ(resolved.attention_factor, factor.ToDouble());
  EXPECT_EQ(plan.attention_factor.hi, factor.ToDouble());
  Mpfr sum(plan.attention_factor.hi);
  mpfr_add_d(sum.get(), sum.get(), plan.attention_factor.lo, MPFR_RNDN);
  EXPECT_LE(sum.RelativeError(factor), 5.1e-20);
  EXPECT_EQ(plan.attention_factor_f32, mpfr_get_flt(factor.get(), MPFR_RNDN));
  if (expect["softmax_scale_multiplier"].IsNull()) {
    EXPECT_EQ(resolved.softmax_scale_multiplier, std::nullopt);
  } else {
    EXPECT_EQ(resolved.softmax_scale_multiplier,
              Mpfr(std::string(expect["softmax_scale_multiplier_exact"].GetString())).ToDouble());
  }
}

void ExpectDerived(const GoldenEntry& entry) {
  if (!entry.expect->HasMember("derived")) return;
  const Resolved resolved = ResolveOrDie(entry);
  std::set<std::string> seen;
  for (const Note& note : resolved.derived) {
    SCOPED_TRACE(note.field);
    seen.insert(note.field);
    const rapidjson::Value& derived = (*entry.expect)["derived"];
    if (!derived.HasMember(note.field.c_str())) continue;
    const rapidjson::Value& value = derived[note.field.c_str()];
    if (note.field == "list") {
      EXPECT_EQ(note.message, value.GetString());
    } else {
      const Mpfr expected = value.IsString() ? Mpfr(std::string(value.GetString())) : Mpfr(value.GetDouble());
      EXPECT_LE(Mpfr(note.message).RelativeError(expected), 1e-14) << note.message;
    }
  }
  for (const auto& member : (*entry.expect)["derived"].GetObject()) {
    EXPECT_TRUE(seen.contains(member.name.GetString())) << member.name.GetString();
  }
}

void ExpectSlopes(const GoldenEntry& entry) {
  const Resolved resolved = ResolveOrDie(entry);
  const BiasPlan& plan = std::get<BiasPlan>(resolved.plan);
  const auto& slopes = (*entry.expect)["slopes"].GetArray();
  ASSERT_EQ(plan.heads(), static_cast<int64_t>(slopes.Size()));
  for (rapidjson::SizeType h = 0; h < slopes.Size(); ++h) {
    EXPECT_EQ(plan.slopes[h].hi, Mpfr(std::string(slopes[h].GetString())).ToDouble()) << "head " << h;
  }
}

TEST_P(GoldenModelsTest, PlanMatches) {
  const GoldenEntry& entry = Models().entries()[GetParam()];
  SCOPED_TRACE(entry.name);
  if (entry.kind == "alibi") return ExpectSlopes(entry);
  if (entry.kind == "sinusoidal") {
    const Resolved resolved = ResolveOrDie(entry);
    EXPECT_EQ(std::get<AnglePlan>(resolved.plan).pairs(), ((*entry.expect)["dim"].GetInt64() + 1) / 2);
    return;  // its numbers are samples of the table: see the backend's golden test
  }
  ExpectAngles(entry);
  ExpectDerived(entry);
}

TEST(GoldenModelsCoverage, EveryKindIsThere) {
  std::set<std::string> kinds;
  std::set<std::string_view> schemes;
  for (const GoldenEntry& entry : Models().entries()) {
    kinds.insert(entry.kind);
    schemes.insert(SchemeOf(entry.spec).name);
  }
  EXPECT_THAT(kinds, testing::UnorderedElementsAre("rope", "mrope", "alibi", "sinusoidal"));
  EXPECT_THAT(schemes,
              testing::IsSupersetOf({"rope_default", "rope_linear", "rope_dynamic_ntk", "rope_yarn", "rope_llama3",
                                     "rope_longrope", "rope_proportional", "rope_qwen1_ntk", "sinusoidal", "alibi"}));
  EXPECT_GE(Models().entries().size(), 70u);
}

std::string NameOf(const testing::TestParamInfo<int>& test) {
  std::string name = Models().entries()[test.param].name;
  for (char& c : name) {
    if (!isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, GoldenModelsTest, testing::Range(0, static_cast<int>(Models().entries().size())), NameOf);

}  // namespace
}  // namespace phasor
