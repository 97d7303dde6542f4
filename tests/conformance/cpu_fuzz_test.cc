// Every backend against the reference over random specs of every scheme, bit for bit: random parameters, weights, positions,
// types, layouts and cuts of the rows, on every instruction set. Seeds are fixed; a failure names the one that made it.
//   PHASOR_FUZZ_ROUNDS=N   rounds over all schemes (default 12: a few seconds)
//   PHASOR_FUZZ_SEED=N     of the first round (default 1)
//   PHASOR_FUZZ_SCHEME=S   only this scheme
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "tests/conformance/case_run.h"
#include "tests/conformance/fuzz/generators.h"
#include "tests/conformance/fuzz/run.h"

namespace phasor {
namespace {

constexpr int kAttempts = 40;
constexpr uint64_t kRounds = 12;

uint64_t NumberFrom(const char* variable, uint64_t fallback) {
  const char* text = std::getenv(variable);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

// A spec that the seed gives; nothing where its numbers meet a limit.
std::optional<FuzzSubject> MakeSubject(const SpecGenerator& generator, uint64_t seed) {
  Rng rng(seed);
  const EncodingSpec spec = generator.make(rng);
  EXPECT_EQ(SchemeOf(spec).name, generator.scheme);
  const auto canonical = Canonicalize(spec);
  if (!canonical.ok()) return std::nullopt;
  FuzzSubject subject;
  subject.spec = canonical->spec;
  subject.sequence_length = rng.LogInt(1, 1 << 22);
  subject.precision = rng.OneIn(3) && generator.scheme != "fope" ? Precision::kCompatF32 : Precision::kExact;
  auto resolved = Resolve(*canonical, subject.sequence_length, subject.precision);
  if (!resolved.ok()) return std::nullopt;
  subject.resolved = *std::move(resolved);
  return subject;
}

// True when there was something to compare.
bool CompareOnce(const SpecGenerator& generator, uint64_t seed, const Backend& reference,
                 const std::vector<Variant>& variants) {
  const auto subject = MakeSubject(generator, seed);
  if (!subject) return false;
  const auto expected = MakeFuzzRun(*subject, seed, 0xff);
  if (!expected) return false;
  const absl::Status status = RunReference(reference, *expected);
  for (const Variant& variant : variants) {
    SCOPED_TRACE(variant.name + ": PHASOR_FUZZ_SCHEME=" + std::string(generator.scheme) + " seed " + std::to_string(seed) +
                 ": " + expected->what);
    const auto got = MakeFuzzRun(*subject, seed, 0x5a);
    Rng cuts(seed + 1);
    const absl::Status mine = RunInPieces(variant.Select(), *got, cuts);
    EXPECT_EQ(mine.code(), status.code()) << mine << " where the reference says " << status;
    if (status.ok() && mine.ok()) {
      EXPECT_EQ(Difference(*got, *expected), "");
    }
  }
  return true;
}

TEST(CpuFuzzTest, EverySchemeHasAGenerator) {
  std::multiset<std::string_view> names;
  for (const SpecGenerator& generator : SpecGenerators()) names.insert(generator.scheme);
  for (const Scheme* scheme : Schemes()) EXPECT_EQ(names.count(scheme->name), 1u) << scheme->name;
  EXPECT_EQ(names.size(), Schemes().size());
}

TEST(CpuFuzzTest, SameBitsAsTheReference) {
  const uint64_t rounds = NumberFrom("PHASOR_FUZZ_ROUNDS", kRounds), first = NumberFrom("PHASOR_FUZZ_SEED", 1);
  const char* only = std::getenv("PHASOR_FUZZ_SCHEME");
  const auto reference = CreateBackend("reference");
  ASSERT_TRUE(reference.ok());
  const std::vector<Variant> variants = VariantsUnderTest();
  for (const SpecGenerator& generator : SpecGenerators()) {
    if (only != nullptr && generator.scheme != only) continue;
    for (uint64_t round = first; round < first + rounds; ++round) {
      bool compared = false;
      for (uint64_t attempt = 0; attempt < kAttempts && !compared; ++attempt) {
        compared = CompareOnce(generator, round * 1000 + attempt, **reference, variants);
      }
      EXPECT_TRUE(compared) << generator.scheme << ": no spec in " << kAttempts << " attempts from seed " << round * 1000;
      if (testing::Test::HasFailure() && only == nullptr && rounds > kRounds) break;  // the next scheme
    }
  }
  ASSERT_TRUE(ForceCpuTarget("auto").ok());
}

}  // namespace
}  // namespace phasor
