#include "client/cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_format.h"

namespace phasor::cli {
namespace {

// One line, drawn over the last one on a terminal.
void DrawLine(bool terminal, const std::string& label, double share, const std::string& text) {
  constexpr int kWidth = 28;
  share = std::min(1.0, share);
  const int filled = static_cast<int>(share * kWidth);
  const std::string line = absl::StrFormat("%-8s [%s%s] %3.0f%%  %s", label, std::string(filled, '#'),
                                           std::string(kWidth - filled, '.'), share * 100, text);
  std::fprintf(stderr, terminal ? "\r%s\x1b[K" : "%s\n", line.c_str());
  if (terminal) std::fflush(stderr);
}

}  // namespace

ProgressBar::ProgressBar(Progress mode, std::string label, int64_t total_bytes)
    : mode_(mode),
      label_(std::move(label)),
      total_(std::max<int64_t>(total_bytes, 1)),
      start_(std::chrono::steady_clock::now()) {
  terminal_ = isatty(STDERR_FILENO) != 0;
}

ProgressBar::~ProgressBar() {
  if (terminal_ && mode_ != Progress::kNever && done_ > 0) std::fputc('\n', stderr);
}

double ProgressBar::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void ProgressBar::Advance(int64_t bytes) {
  done_ += bytes;
  if (mode_ == Progress::kNever) return;
  const auto now = std::chrono::steady_clock::now();
  const bool last = done_ >= total_;
  if (terminal_) {
    if (!last && now - drawn_ < std::chrono::milliseconds(100)) return;
    drawn_ = now;
    Draw(last);
  } else if (mode_ == Progress::kAlways) {
    const int quarters = static_cast<int>(done_ * 4 / total_);
    if (quarters == quarters_) return;
    quarters_ = quarters;
    Draw(last);
  }
}

void ProgressBar::Draw(bool last) {
  const double rate = static_cast<double>(done_) / std::max(seconds(), 1e-9);
  DrawLine(terminal_, label_, static_cast<double>(done_) / static_cast<double>(total_),
           absl::StrFormat("%s of %s  %s/s", FormatBytes(static_cast<double>(done_)),
                           FormatBytes(static_cast<double>(total_)), FormatBytes(rate)));
}

ProgressLine::ProgressLine(Progress mode, std::string label)
    : mode_(mode), terminal_(isatty(STDERR_FILENO) != 0), label_(std::move(label)) {}

ProgressLine::~ProgressLine() {
  if (terminal_ && shown_) std::fputc('\n', stderr);
}

void ProgressLine::Show(double share, const std::string& text) {
  if (mode_ == Progress::kNever || (!terminal_ && mode_ != Progress::kAlways)) return;
  const int quarters = static_cast<int>(std::min(1.0, share) * 4);
  if (!terminal_ && quarters == quarters_) return;
  quarters_ = quarters;
  shown_ = true;
  DrawLine(terminal_, label_, share, text);
}

}  // namespace phasor::cli
