// What a diagnosis says, and the parts that make it.
#ifndef PHASOR_SERVER_KNOWLEDGE_DIAGNOSIS_H_
#define PHASOR_SERVER_KNOWLEDGE_DIAGNOSIS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

#include "kernels/backend.h"
#include "kernels/encodings/encoding.h"
#include "server/knowledge/input_table.h"

namespace phasor::server {

// One thing that a table may be.
struct Hypothesis {
  CanonicalSpec spec;
  InputContent content = InputContent::kUnknown;
  std::string layout;  // order of the columns, in words
  int64_t first_position = 0;
  std::optional<int64_t> sequence_length;  // where the schedule depends on it
  std::string computed = "exact";          // "exact", "compat_f32", or the fault's way
  double confidence = 0;                   // 0 … 1
  double max_ulps = 0;                     // of the table's type, against what the spec makes
  double max_difference = 0;
  bool reproduces = false;   // max_ulps ≤ 1
  bool any_numbers = false;  // it keeps as many numbers as the table has: whatever they are, it makes them again
  std::string note;
};

// What can go wrong, as data: the name on the wire, and what to say of it.
struct FaultCard {
  std::string_view name;  // "positions_in_bf16"
  std::string_view cause;
  std::string_view check;
  std::string_view fix;
};
// Every fault that a diagnosis can name.
std::span<const FaultCard> FaultCards();
// By its name; never null for a name of this program.
const FaultCard* FindFault(std::string_view name);

struct Fault {
  const FaultCard* card = nullptr;
  std::string symptom;  // what is seen, with its numbers
  double confidence = 0;
  std::optional<int64_t> first_row;  // none: everywhere
};

struct Diagnosis {
  std::vector<Hypothesis> hypotheses;  // best first
  std::vector<Fault> faults;           // surest first
  std::vector<std::string> observations;
};

struct DiagnoseInput {
  InputTable table;
  std::optional<CanonicalSpec> expected;
  std::optional<int64_t> sequence_length;
  int64_t max_hypotheses = 5;
  const CancelFlag* cancel = nullptr;
};

// Tables of angles and frequencies: kCos, kSin, kCosAndSin, kCosSin, kSinusoidal, kInvFreq.
absl::StatusOr<Diagnosis> DiagnoseAngles(const Backend& backend, const DiagnoseInput& input);
// Biases: kBias, kBiasVector, kSlopes.
absl::StatusOr<Diagnosis> DiagnoseBias(const Backend& backend, const DiagnoseInput& input);
// The above, or whichever explains the table best where its content is not said.
absl::StatusOr<Diagnosis> DiagnoseTable(const Backend& backend, const DiagnoseInput& input);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_DIAGNOSIS_H_
