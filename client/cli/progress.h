// A progress bar on standard error.
#ifndef PHASOR_CLIENT_CLI_PROGRESS_H_
#define PHASOR_CLIENT_CLI_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "client/cli/tool.h"

namespace phasor::cli {

// Redraws itself at most ten times a second on a terminal; elsewhere prints a line per quarter (kAlways) or nothing (kAuto).
class ProgressBar {
 public:
  ProgressBar(Progress mode, std::string label, int64_t total_bytes);
  ~ProgressBar();  // leaves the last state on the screen

  void Advance(int64_t bytes);
  double seconds() const;

 private:
  void Draw(bool last);

  Progress mode_;
  bool terminal_ = false;
  std::string label_;
  int64_t total_ = 0, done_ = 0;
  int quarters_ = 0;
  std::chrono::steady_clock::time_point start_, drawn_;
};

// The same for work that is not counted in bytes.
class ProgressLine {
 public:
  ProgressLine(Progress mode, std::string label);
  ~ProgressLine();  // leaves the last state on the screen

  // `share` of the work is done; `text` says what of it.
  void Show(double share, const std::string& text);

 private:
  Progress mode_;
  bool terminal_ = false, shown_ = false;
  std::string label_;
  int quarters_ = 0;
};

}  // namespace phasor::cli

#endif  // PHASOR_CLIENT_CLI_PROGRESS_H_
