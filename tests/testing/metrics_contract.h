// deploy/metrics.md as data.
#ifndef PHASOR_TESTS_TESTING_METRICS_CONTRACT_H_
#define PHASOR_TESTS_TESTING_METRICS_CONTRACT_H_

#include <algorithm>
#include <fstream>
#include <map>
#include <ostream>
#include <set>
#include <sstream>
#include <string>

namespace phasor::server {

struct Family {
  std::string type;
  std::set<std::string> labels;
  bool operator==(const Family&) const = default;
};
inline void PrintTo(const Family& family, std::ostream* out) {
  *out << family.type << " {";
  for (const std::string& label : family.labels) *out << label << " ";
  *out << "}";
}
using Families = std::map<std::string, Family>;

// The words in backquotes of one cell of a table.
inline std::set<std::string> Quoted(const std::string& cell) {
  std::set<std::string> words;
  for (size_t start = cell.find('`'); start != std::string::npos;) {
    const size_t end = cell.find('`', start + 1);
    words.insert(cell.substr(start + 1, end - start - 1));
    start = cell.find('`', end + 1);
  }
  return words;
}

// The metrics of a section of deploy/metrics.md, by its heading; "" is what stands before the first.
inline Families DocumentedMetrics(const std::string& section) {
  Families families;
  std::ifstream file(std::string(PHASOR_SOURCE_DIR) + "/deploy/metrics.md");
  std::string line, heading;
  while (std::getline(file, line)) {
    if (line.starts_with("## ")) heading = line.substr(3);
    if (heading != section) continue;
    if (!line.starts_with("| `")) continue;
    std::istringstream cells(line.substr(1));
    std::string name, type, labels;
    std::getline(cells, name, '|');
    std::getline(cells, type, '|');
    std::getline(cells, labels, '|');
    type.erase(std::remove(type.begin(), type.end(), ' '), type.end());
    families[*Quoted(name).begin()] = {type, Quoted(labels)};
  }
  return families;
}

}  // namespace phasor::server

#endif  // PHASOR_TESTS_TESTING_METRICS_CONTRACT_H_
