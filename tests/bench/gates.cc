#include "tests/bench/gates.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace phasor::bench {
namespace {

// Keeps the time of every repetition.
class Collector : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration) continue;
      if (run.error_occurred) {
        std::fprintf(stderr, "%s: %s\n", run.benchmark_name().c_str(), run.error_message.c_str());
        continue;
      }
      const std::string name = run.run_name.function_name;
      seconds_[name].push_back(run.real_accumulated_time / static_cast<double>(run.iterations));
      std::fputc('.', stderr);
    }
  }
  void Finalize() override { std::fputc('\n', stderr); }

  // NaN when the benchmark did not run.
  double Median(const std::string& name) const {
    const auto found = seconds_.find(name);
    if (found == seconds_.end() || found->second.empty()) return std::nan("");
    std::vector<double> sorted = found->second;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }

 private:
  std::map<std::string, std::vector<double>> seconds_;
};

std::string Quote(const std::string& text) {
  static const std::regex kSpecial(R"([.^$|()\[\]{}*+?\\])");
  return std::regex_replace(text, kSpecial, R"(\$&)");
}

void RunBenchmarks(const std::vector<Gate>& gates, int repetitions, double min_seconds, Collector& collector) {
  std::set<std::string> names;
  for (const Gate& gate : gates) {
    names.insert(Quote(gate.numerator));
    if (!gate.denominator.empty()) names.insert(Quote(gate.denominator));
  }
  const std::string filter = absl::StrCat("--benchmark_filter=^(", absl::StrJoin(names, "|"), ")(/.*)?$");
  const std::string repeat = absl::StrCat("--benchmark_repetitions=", repetitions),
                    time = absl::StrCat("--benchmark_min_time=", min_seconds);
  std::vector<std::string> arguments = {"phasor_bench", filter, repeat, time, "--benchmark_enable_random_interleaving=true"};
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  int argc = static_cast<int>(argv.size());
  benchmark::Initialize(&argc, argv.data());
  benchmark::RunSpecifiedBenchmarks(&collector);
}

struct Row {
  std::string id, what, versus;
  double ratio = 0, first_ratio = std::nan(""), limit = 0, seconds = std::nan("");
  bool at_least = false, holds = false;
};

Row Measure(const Gate& gate, const Collector& collector) {
  Row row{.id = gate.id, .what = gate.what, .versus = gate.denominator, .limit = gate.limit, .at_least = gate.at_least};
  row.seconds = collector.Median(gate.numerator);
  // "At least" gates say how many times faster the numerator is than the denominator.
  const double floor = collector.Median(gate.denominator);
  row.ratio = gate.at_least ? floor / row.seconds : row.seconds / floor;
  row.holds = gate.at_least ? row.ratio >= gate.limit : row.ratio <= gate.limit;
  return row;
}

std::vector<Row> RowsOf(const std::vector<MeasuredGate>& gates, const std::vector<Measurement>& values) {
  std::vector<Row> rows;
  for (size_t i = 0; i < gates.size(); ++i) {
    rows.push_back({.id = gates[i].id, .what = gates[i].what, .versus = gates[i].versus, .limit = gates[i].limit});
    rows[i].ratio = values[i].value;
    rows[i].seconds = values[i].seconds;
    rows[i].holds = values[i].value <= gates[i].limit;
  }
  return rows;
}

// Measures, and once more when something does not hold: what held keeps its first figure.
std::vector<Row> MeasureTwice(const std::vector<MeasuredGate>& gates,
                              const std::function<std::vector<Measurement>()>& measure) {
  std::vector<Row> rows = RowsOf(gates, measure());
  if (std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.holds; })) return rows;
  const std::vector<Row> again = RowsOf(gates, measure());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].holds) continue;
    const double first = rows[i].ratio;
    rows[i] = again[i];
    rows[i].first_ratio = first;
  }
  return rows;
}

void Print(const std::vector<Row>& rows) {
  std::printf("%-5s %-52s %-28s %9s %8s  %s\n", "gate", "what", "against", "ratio", "limit", "holds");
  for (const Row& row : rows) {
    std::printf("%-5s %-52s %-28s %9.3f %s%7.3g  %s", row.id.c_str(), row.what.c_str(), row.versus.c_str(), row.ratio,
                row.at_least ? "≥" : "≤", row.limit, row.holds ? "yes" : "NO");
    if (!std::isnan(row.first_ratio)) std::printf("  (first run %.3f)", row.first_ratio);
    if (!std::isnan(row.seconds)) std::printf("  %.3f ms", row.seconds * 1e3);
    std::printf("\n");
  }
}

bool WriteJson(const std::vector<Row>& rows, const std::string& path) {
  std::ofstream out(path);
  out << "[\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    out << absl::StrFormat("  {\"gate\": \"%s %s\", \"ratio\": %.6g, \"limit\": %.6g, \"at_least\": %s, \"holds\": %s}%s\n",
                           rows[i].id, rows[i].what, std::isfinite(rows[i].ratio) ? rows[i].ratio : -1, rows[i].limit,
                           rows[i].at_least ? "true" : "false", rows[i].holds ? "true" : "false",
                           i + 1 < rows.size() ? "," : "");
  }
  out << "]\n";
  return out.good();
}

}  // namespace

bool GateList::Run(const std::string& filter, int repetitions, double min_seconds, const std::string& json_path) {
  const std::regex wanted(filter.empty() ? ".*" : filter);
  std::vector<Gate> gates;
  for (const Gate& gate : gates_) {
    if (std::regex_search(gate.id, wanted)) gates.push_back(gate);
  }
  std::vector<Row> rows;
  if (!gates.empty()) {
    Collector collector;
    RunBenchmarks(gates, repetitions, min_seconds, collector);
    std::vector<Gate> again;
    for (const Gate& gate : gates) {
      rows.push_back(Measure(gate, collector));
      if (!rows.back().holds) again.push_back(gate);
    }
    if (!again.empty()) {
      // A busy neighbour can spoil one run; both figures are printed.
      Collector second;
      RunBenchmarks(again, repetitions, min_seconds, second);
      size_t next = 0;
      for (Row& row : rows) {
        if (row.holds) continue;
        const double first = row.ratio;
        row = Measure(again[next++], second);
        row.first_ratio = first;
      }
    }
  }
  for (const Measured& measured : measured_) {
    const auto is_wanted = [&](const MeasuredGate& gate) { return std::regex_search(gate.id, wanted); };
    if (std::none_of(measured.gates.begin(), measured.gates.end(), is_wanted)) continue;
    for (Row& row : MeasureTwice(measured.gates, measured.measure)) rows.push_back(std::move(row));
  }
  for (const Count& count : counts_) {
    if (!std::regex_search(count.id, wanted)) continue;
    const double value = count.count();
    rows.push_back({.id = count.id, .what = count.what, .ratio = value, .holds = value == 0});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    const auto key = [](const std::string& id) { return std::pair(id[0], std::atoi(id.c_str() + 1)); };
    return key(a.id) < key(b.id);
  });
  Print(rows);
  for (const std::string& note : notes_) std::printf("%s\n", note.c_str());
  const bool written = json_path.empty() || WriteJson(rows, json_path);
  if (!written) std::fprintf(stderr, "cannot write %s\n", json_path.c_str());
  return written && std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.holds; });
}

}  // namespace phasor::bench
