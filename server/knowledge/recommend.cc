#include "server/knowledge/recommend.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

#include "server/knowledge/decision_table.h"
#include "server/knowledge/held_forms.h"

namespace phasor::server {
namespace {

// Whether a kernel of the target takes this form. Biases that no vector says have to be held in full.
bool Usable(Target target, const HeldForm& form, bool has_vector) {
  const bool whole = target == Target::kOnnx || target == Target::kNpu;  // graphs take arrays, and make none
  switch (form.what) {
    case HeldWhat::kTable:
      return form.form == "half width" || form.form == "rows";
    case HeldWhat::kInvFreq:
      return target == Target::kAny;
    case HeldWhat::kSlopes:
      return target == Target::kAny || target == Target::kTensorRt;
    case HeldWhat::kWeights:
      return !whole;
    case HeldWhat::kBias:
      break;
  }
  if (form.form == "full") return whole || !has_vector;
  return form.form == "vector" && target == Target::kAny;
}

std::string NameOf(const HeldForm& form) {
  switch (form.what) {
    case HeldWhat::kTable:
      return form.form == "rows" ? "table" : "half-width table";
    case HeldWhat::kInvFreq:
      return "inv_freq";
    case HeldWhat::kSlopes:
      return "slopes";
    case HeldWhat::kWeights:
      return "learned table";
    case HeldWhat::kBias:
      return form.form == "full" ? "full bias" : "vector";
  }
  return "";
}

// The message as a sentence.
std::string SentenceOf(const absl::Status& status) { return absl::StrCat(status.message(), "."); }

class Recommender {
 public:
  explicit Recommender(const Wishes& wishes) : wishes_(wishes), words_(WordsOf(wishes)) {
    if (!wishes.current) return;
    auto old = Resolve(CanonicalSpec{*wishes.current, {}, {}}, wishes.trained_length, Precision::kExact);
    if (!old.ok() || !std::holds_alternative<AnglePlan>(old->plan) || wishes.tuning == Tuning::kFull) return;
    old_frequencies_ = std::move(std::get<AnglePlan>(old->plan).inv_freq);
  }

  Recommendation Run() {
    for (const ExclusionRow& row : Exclusions()) {
      if (Holds(row.when, wishes_)) LeaveOut(row.rule, row.scheme, FillIn(row.reason, words_));
    }
    for (const ChoiceRow& row : RowsForExistingModels()) Consider(row);
    for (const ChoiceRow& row : RowsForTablesAndWindows()) Consider(row);
    for (const ChoiceRow& row : RowsForNewModels()) Consider(row);
    if (out_.choices.empty()) Contradict();
    return std::move(out_);
  }

 private:
  void LeaveOut(std::string_view rule, std::string_view scheme, std::string reason) {
    out_.left_out.push_back({rule, std::string(scheme), std::move(reason)});
  }

  void Consider(const ChoiceRow& row) {
    if (!Holds(row.when, wishes_)) return;
    const auto made = row.make(wishes_);
    if (!made.ok()) return LeaveOut("refused", "", SentenceOf(made.status()));
    const std::string_view scheme = SchemeOf(*made).name;
    auto canonical = Canonicalize(*made);
    if (!canonical.ok()) return LeaveOut("refused", scheme, SentenceOf(canonical.status()));
    for (const TargetRow& target : TargetRules()) {
      if (!Has(target.targets, wishes_.target) || !target.refuses(canonical->spec)) continue;
      return LeaveOut(target.rule, scheme, std::string(target.reason));
    }
    const auto resolved = Resolve(*canonical, wishes_.wanted_length, Precision::kExact);
    if (!resolved.ok()) return LeaveOut("refused", scheme, SentenceOf(resolved.status()));
    Numbers numbers = NumbersOf(wishes_, canonical->spec, *resolved, old_frequencies_);
    RankedChoice choice;
    choice.rule = row.rule;
    choice.scheme = std::string(scheme);
    choice.spec = *std::move(canonical);
    for (const std::string_view reason : row.reasons) {
      if (!reason.empty()) choice.reasons.push_back(FillIn(reason, numbers.words));
    }
    for (const std::string_view check : row.checks) {
      if (!check.empty()) choice.checks.push_back(FillIn(check, numbers.words));
    }
    if (wishes_.current_is_assumed) choice.reasons.push_back(Assumption());
    choice.figures = std::move(numbers.figures);
    if (!Fit(resolved->plan, choice)) return;
    out_.choices.push_back(std::move(choice));
  }

  std::string Assumption() const {
    return absl::StrCat("current is not given: ", std::string(SchemeOf(*wishes_.current).name),
                        " is assumed, which such models usually have. Give it if yours differs.");
  }

  // The first form that the target takes and the limit allows; false, and left out, where there is none.
  bool Fit(const Plan& plan, RankedChoice& choice) {
    const Load load{.queries = wishes_.wanted_length, .keys = wishes_.wanted_length};
    std::vector<HeldForm> forms = FormsOf(choice.spec.spec, plan, load);
    const auto full = std::find_if(forms.begin(), forms.end(), [](const HeldForm& form) { return form.form == "full"; });
    const double full_bytes = full == forms.end() ? 0 : full->bytes;
    const bool has_vector =
        std::any_of(forms.begin(), forms.end(), [](const HeldForm& form) { return form.form == "vector"; });
    std::erase_if(forms, [&](const HeldForm& form) { return !Usable(wishes_.target, form, has_vector); });
    // The limit beyond which something must be smaller; every form fits where there is none.
    const double limit = wishes_.memory_limit_bytes ? static_cast<double>(*wishes_.memory_limit_bytes) : 1e300;
    const auto fits = std::find_if(forms.begin(), forms.end(), [&](const HeldForm& form) { return form.bytes <= limit; });
    if (forms.empty()) return true;  // nothing to hold beside weights
    if (fits == forms.end()) {
      const HeldForm& least =
          *std::min_element(forms.begin(), forms.end(), [](auto& a, auto& b) { return a.bytes < b.bytes; });
      LeaveOut("memory", choice.scheme,
               absl::StrCat("Its smallest form on this target, the ", NameOf(least), ", takes ", BytesText(least.bytes),
                            "; memory_limit_bytes is ", BytesText(limit), "."));
      if (!least_ || least.bytes < least_->second) least_ = {absl::StrCat(choice.scheme, ", ", NameOf(least)), least.bytes};
      return false;
    }
    choice.form = NameOf(*fits);
    choice.form_bytes = fits->bytes;
    choice.figures.push_back({"held_bytes", fits->bytes, "bytes", "what to hold: form"});
    if (fits != forms.begin()) {
      choice.reasons.push_back(absl::StrCat("The ", NameOf(forms.front()), " takes ", BytesText(forms.front().bytes),
                                            ", above memory_limit_bytes (", BytesText(limit), "): hold the ", choice.form,
                                            " of ", BytesText(fits->bytes), " and make rows as they are needed."));
    } else if (full_bytes > limit) {
      choice.reasons.push_back(absl::StrCat("A full bias takes ", BytesText(full_bytes), ", above memory_limit_bytes (",
                                            BytesText(limit), "): hold the ", choice.form, " of ", BytesText(fits->bytes),
                                            "."));
    }
    return true;
  }

  void Contradict() {
    if (least_) {
      out_.contradiction_rule = "memory";
      out_.contradiction =
          absl::StrCat("memory_limit_bytes ", *wishes_.memory_limit_bytes,
                       " is below the smallest form of everything that meets the "
                       "other wishes: ",
                       NumberText(least_->second), " (", least_->first, "). Give up the limit, or some of the ",
                       wishes_.wanted_length, " positions", wishes_.target == Target::kAny ? "." : ", or the target.");
      return;
    }
    for (const ContradictionRow& row : Contradictions()) {
      if (!Holds(row.when, wishes_)) continue;
      out_.contradiction_rule = row.rule;
      out_.contradiction = FillIn(row.text, words_);
      return;
    }
  }

  const Wishes& wishes_;
  const Words words_;
  std::vector<double> old_frequencies_;                  // of what is there, where it is changed
  std::optional<std::pair<std::string, double>> least_;  // the smallest form of all that were too large
  Recommendation out_;
};

}  // namespace

Recommendation Recommend(Wishes wishes) {
  if (!wishes.current && wishes.tuning == Tuning::kShort && wishes.ratio() > 1) {
    wishes.current = UsualEncoding(wishes);
    wishes.current_is_assumed = wishes.current.has_value();
  }
  return Recommender(wishes).Run();
}

}  // namespace phasor::server
