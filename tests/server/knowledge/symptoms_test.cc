// The list of symptoms: complete, found by name and by words.
#include "server/knowledge/symptoms.h"

#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace phasor::server {
namespace {

TEST(Symptoms, EachHasChecksWithAllParts) {
  std::set<std::string_view> names;
  for (const Symptom& symptom : Symptoms()) {
    EXPECT_TRUE(names.insert(symptom.name).second) << symptom.name;
    EXPECT_FALSE(symptom.words.empty());
    EXPECT_GE(symptom.aliases.size(), 2u) << symptom.name;
    EXPECT_GE(symptom.steps.size(), 3u) << symptom.name;
    for (const SymptomStep& step : symptom.steps) {
      EXPECT_FALSE(step.cause.empty() || step.check.empty() || step.fix.empty()) << symptom.name;
      EXPECT_TRUE(step.call.starts_with("phasor ")) << step.call;
    }
  }
  for (const char* name : {"loss_spikes_at_start", "worse_beyond_length", "left_padded_batches_differ", "gpu_and_cpu_differ",
                           "decode_differs_from_prefill", "batch_differs_from_single", "long_prompts_diverge_in_bf16",
                           "quality_drops_after_port", "nan_or_inf_scores", "tensor_parallel_differs",
                           "image_or_video_tokens_misplaced", "resized_images_fail", "fine_tuned_long_context_worse",
                           "first_tokens_wrong", "kv_cache_shift_drifts", "quantised_worse", "wrong_after_upgrade"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(Symptoms, FoundByNameWordsAndAliasWhateverTheCase) {
  for (const Symptom& symptom : Symptoms()) {
    EXPECT_EQ(FindSymptom(symptom.name), &symptom);
    EXPECT_EQ(FindSymptom(symptom.words), &symptom);
    for (const std::string_view alias : symptom.aliases) EXPECT_EQ(FindSymptom(alias), &symptom) << alias;
  }
  EXPECT_EQ(FindSymptom("Loss spikes, at START!"), FindSymptom("loss_spikes_at_start"));
  EXPECT_NE(FindSymptom("worse beyond N tokens"), nullptr);
  EXPECT_EQ(FindSymptom("the coffee is cold"), nullptr);
  EXPECT_EQ(FindSymptom(""), nullptr);
}

TEST(Symptoms, NearestComeFirst) {
  EXPECT_EQ(NearestSymptoms("my loss has spikes", 3).front(), "loss_spikes_at_start");
  EXPECT_EQ(NearestSymptoms("decoding with the cache differs", 3).front(), "decode_differs_from_prefill");
  EXPECT_EQ(NearestSymptoms("left padding", 1).front(), "left_padded_batches_differ");
  EXPECT_TRUE(NearestSymptoms("zzz", 3).empty());
  EXPECT_TRUE(NearestSymptoms("", 3).empty());
}

}  // namespace
}  // namespace phasor::server
