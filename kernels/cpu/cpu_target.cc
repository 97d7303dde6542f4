#include "kernels/cpu/cpu_target.h"

#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/cpu_target.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

// Of the code that dispatch really chooses, not of what Highway thinks the CPU has.
int64_t ThisTarget() { return HWY_TARGET; }

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phasor {
HWY_EXPORT(ThisTarget);
namespace {

std::string NameOf(int64_t target) { return absl::AsciiStrToLower(hwy::TargetName(target)); }

// Highway's own detection, whatever is forced: its mock is lifted for the question and put back.
std::vector<int64_t> RunnableTargets() {
  const int64_t current = HWY_DYNAMIC_DISPATCH(ThisTarget)();
  hwy::SetSupportedTargetsForTest(0);
  const int64_t detected = hwy::SupportedTargets();
  const int64_t best = HWY_DYNAMIC_DISPATCH(ThisTarget)();
  if (current != best) {
    hwy::SetSupportedTargetsForTest(current);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  std::vector<int64_t> targets;
  constexpr int64_t kCompiled = HWY_TARGETS;
  for (int bit = 0; bit < 63; ++bit) {
    const int64_t target = int64_t{1} << bit;
    // The baseline needs nothing of the CPU.
    const bool runs = (detected & target) != 0 || target == HWY_STATIC_TARGET;
    if ((kCompiled & target) != 0 && runs) targets.push_back(target);
  }
  return targets;
}

}  // namespace

std::vector<std::string> CpuTargets() {
  std::vector<std::string> names;
  for (int64_t target : RunnableTargets()) names.push_back(NameOf(target));
  return names;
}

absl::Status ForceCpuTarget(std::string_view name) {
  if (name == "auto") {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    return absl::OkStatus();
  }
  for (int64_t target : RunnableTargets()) {
    if (NameOf(target) != name) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no CPU target '", std::string(name), "' here; allowed: auto, ", absl::StrJoin(CpuTargets(), ", ")));
}

std::string CurrentCpuTarget() { return NameOf(HWY_DYNAMIC_DISPATCH(ThisTarget)()); }

}  // namespace phasor
#endif
