// phasor_bench [--filter REGEX] [--repetitions N] [--min-time SECONDS] [--json FILE]
#include <cstdio>

#include "CLI/CLI.hpp"

#include "tests/bench/case_costs.h"
#include "tests/bench/gates.h"
#include "tests/bench/server_process.h"

int main(int argc, char** argv) {
  std::string filter, json;
  int repetitions = 9;
  double min_seconds = 0.03;
  CLI::App app(
      "Speed gates of Phasor: ratios against this machine's floors, measured in one run. Exit code 0 when all hold.");
  app.add_option("--filter", filter, "Only gates whose id matches this regular expression (G1, R1 …)");
  app.add_option("--repetitions", repetitions, "Medians are over so many")->check(CLI::Range(1, 1000))->default_str("9");
  app.add_option("--min-time", min_seconds, "Seconds of one repetition")
      ->check(CLI::Range(0.001, 10.0))
      ->default_str("0.03");
  app.add_option("--json", json, "Also write a list of {gate, ratio, limit, holds}");
  bool cases = false;
  app.add_flag("--cases", cases, "Measure every conformance case instead of the gates");
  std::string serve;
  app.add_option("--serve", serve, "Be a server of the benchmarks: phasor, phasor-no-cache, echo or socket")->group("");
  std::string call;
  app.add_option("--call", call, "Be a client of the benchmarks: table:PORT or stream:PORT")->group("");
  CLI11_PARSE(app, argc, argv);
  if (!call.empty()) return phasor::bench::CallAgainAndAgain(call);
  if (!serve.empty()) return phasor::bench::Serve(serve);
  if (cases) return phasor::bench::PrintCaseCosts() ? 0 : 1;
  phasor::bench::GateList gates;
  phasor::bench::AddKernelGates(gates);
  phasor::bench::AddExactnessGates(gates);
  phasor::bench::AddScoreGates(gates);
  phasor::bench::AddRpcGates(gates);
  phasor::bench::AddApplyRpcGates(gates);
  phasor::bench::AddLatencyGates(gates);
  phasor::bench::AddSharedMemoryGates(gates);
  phasor::bench::AddKnowledgeGates(gates);
  return gates.Run(filter, repetitions, min_seconds, json) ? 0 : 1;
}
