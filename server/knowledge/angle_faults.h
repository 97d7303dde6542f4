// What went wrong in a table of angles.
#ifndef PHASOR_SERVER_KNOWLEDGE_ANGLE_FAULTS_H_
#define PHASOR_SERVER_KNOWLEDGE_ANGLE_FAULTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "server/knowledge/angle_search.h"
#include "server/knowledge/diagnosis.h"
#include "server/knowledge/fault_cards.h"

namespace phasor::server {

// Absolute error of a value beyond which float32 angles are a fault: half a step of a float32 angle between 8192 and 16384.
// Below, they are what float32 libraries make.
inline constexpr double kFloat32AngleMatters = 5e-4;

// Rows that are not finite, that are zeros, that repeat. `usable` becomes the longest range of rows without.
struct RowHealth {
  Rows usable;
  std::vector<Fault> faults;
  std::vector<std::string> observations;
};
RowHealth InspectRows(const InputTable& table);

// Faults of a reading whose specs were found (`fits` of search.Find(), best first). What is found out on the way is put in
// front of `fits` where it explains the table better.
absl::Status FindAngleFaults(AngleSearch& search, std::vector<Fit>& fits, Diagnosis& diagnosis);

void AddFault(Diagnosis& diagnosis, std::string_view name, std::string symptom, double confidence,
              std::optional<int64_t> first_row = std::nullopt);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_ANGLE_FAULTS_H_
