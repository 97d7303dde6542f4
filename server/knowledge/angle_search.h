// From a table's pairs to specs that make it.
#ifndef PHASOR_SERVER_KNOWLEDGE_ANGLE_SEARCH_H_
#define PHASOR_SERVER_KNOWLEDGE_ANGLE_SEARCH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "server/knowledge/angle_check.h"
#include "server/knowledge/angle_estimate.h"
#include "server/knowledge/angle_layout.h"
#include "server/knowledge/angle_ranges.h"
#include "server/knowledge/angle_regions.h"
#include "server/knowledge/angle_schedules.h"
#include "server/knowledge/angle_start.h"
#include "server/knowledge/diagnosis.h"

namespace phasor::server {

// A spec beside a table.
struct Fit {
  CanonicalSpec spec;
  Resolved resolved;  // its plan carries the precision that fits better
  std::optional<int64_t> sequence_length;
  int64_t start = 0;      // position of row 0; negative where rows before the stretch have no position
  Difference difference;  // over the stretch
  std::string note;

  const AnglePlan& plan() const { return std::get<AnglePlan>(resolved.plan); }
  bool is_compat() const { return plan().precision == Precision::kCompatF32; }
};

// Better fits first: those that reproduce, then the nearer.
bool IsBetter(const Fit& a, const Fit& b);

// One reading of a table. Not thread-safe; the referred objects outlive it.
class AngleSearch {
 public:
  AngleSearch(const Backend& backend, const DiagnoseInput& input, PairTable table);

  const PairTable& table() const { return table_; }
  const Estimates& estimates() const { return estimates_; }
  Rows stretch() const { return {estimates_.first, estimates_.first + estimates_.count}; }
  const Backend& backend() const { return backend_; }
  const DiagnoseInput& input() const { return input_; }
  bool is_cancelled() const { return input_.cancel != nullptr && input_.cancel->load(std::memory_order_relaxed); }

  // Specs that make the stretch, best first; where none does, the nearest ones. At most four.
  absl::StatusOr<std::vector<Fit>> Find();

  // The candidate at a start, in the precision that fits better. None: it cannot be resolved.
  std::optional<Fit> Try(const Candidate& candidate, int64_t start);
  // The same at the best start for its frequencies. `scan` false: only usual starts and those that fitted before.
  std::optional<Fit> TryAnywhere(const Candidate& candidate, bool scan);
  // Whether a fit is as good as it gets.
  bool IsExact(const Fit& fit) const { return fit.difference.reproduces(); }

  // Frequencies with what the start says about them, for matching; `nearest`: values for use as they are. `float32`: of
  // tables whose frequencies and angles were rounded to float32.
  FrequencyList ListAt(int64_t start, std::vector<double>& nearest, bool float32) const;

  // More specs may be tried after Find(), whose number is bounded.
  void AllowMore() { tried_ = 0; }

  // Frequencies as given that make the table at a start; `float32`: float32 ones, whose angles were rounded to float32. None
  // where they cannot be found, or where they are a schedule's after all, which is kept then.
  std::optional<Fit> FitGiven(int64_t start, bool float32);

 private:
  void Estimate();
  void AddStart(int64_t start);
  void FindStarts();
  void ScanFrom(const FrequencyList& list);
  bool TryBlindly(TurnRegions& regions);
  bool TryFromFrequencies();
  bool TryGiven(TurnRegions& regions, bool float32);
  bool TryAll(std::vector<Candidate> candidates, int64_t start);
  bool TrySchedules(int64_t start);
  bool TryList(const FrequencyList& list, int64_t start);
  bool TryRanges(const std::vector<TurnRange>& ranges, int64_t start, double floor);
  std::string NearSchedule(const std::vector<double>& frequencies);
  bool TryUsual();
  void TryScaledSteps();
  void Keep(Fit fit);
  const Resolved* ResolveOnce(const CanonicalSpec& spec, std::optional<int64_t> length);
  void FillOneKind(int64_t start, FrequencyList& list, std::vector<double>& nearest) const;
  std::optional<Fit> PolishBase(const Fit& fit);

  const Backend& backend_;
  const DiagnoseInput& input_;
  PairTable table_;
  Estimates estimates_;
  std::vector<int64_t> starts_;
  std::vector<Fit> found_;
  int tried_ = 0;
  // The latest specs: the same ones are tried at many starts, and resolving takes many digits.
  struct Known {
    EncodingSpec spec;
    std::optional<int64_t> length;
    std::unique_ptr<Resolved> resolved;  // null: it cannot be
  };
  std::vector<Known> known_;
  size_t oldest_ = 0;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_ANGLE_SEARCH_H_
