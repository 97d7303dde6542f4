#include "tests/conformance/fuzz/run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace phasor {
namespace {

constexpr int64_t kLast = (int64_t{1} << 31) - 1;

int64_t SignedLog(Rng& rng, int64_t largest) { return (rng.OneIn(2) ? 1 : -1) * rng.LogInt(0, largest); }

double RandomFraction(Rng& rng) {
  switch (rng.Int(0, 5)) {
    case 0:
      return 0;
    case 1:
      return static_cast<double>(SignedLog(rng, kLast));
    case 2:
      return static_cast<double>(SignedLog(rng, 1 << 20)) + rng.Pick({0.5, 0.25, 1.0 / 3});
    case 3:
      return (rng.OneIn(2) ? 1 : -1) * rng.LogReal(0x1p-63, 1);
    default:
      return rng.Real(-1000, 1000);
  }
}

// The eight bytes that a difference is in.
std::string HexFrom(const GuardedBuffer& buffer, int64_t byte) {
  std::string text;
  const int64_t first = byte / 8 * 8;
  for (int64_t i = first; i < std::min(first + 8, buffer.bytes()); ++i) {
    absl::StrAppend(&text, absl::Hex(buffer.data()[i], absl::kZeroPad2));
  }
  return text;
}

}  // namespace

PositionSource RandomPositions(Rng& rng, int64_t rows, bool fractions, FuzzRun& run) {
  PositionSource source;
  const int64_t kind = rng.Int(0, fractions ? 4 : 3);
  if (kind < 2) {
    source.stride = rng.OneIn(2) ? 1 : SignedLog(rng, std::min<int64_t>(1 << 20, kLast / std::max<int64_t>(1, rows)));
    const int64_t reach = std::abs(source.stride) * std::max<int64_t>(0, rows - 1);
    source.start = rng.OneIn(4) ? rng.Pick({kLast - reach, reach - kLast}) : SignedLog(rng, kLast - reach);
    if (kind == 0) source.start = rng.Int(-3, 3);
    if (std::abs(source.start + source.stride * (rows - 1)) > kLast) source.start = 0;
    return source;
  }
  if (kind < 4) {
    std::vector<int64_t>& ids = run.Hold(std::vector<int64_t>());
    const int64_t largest = rng.Pick<int64_t>({8, 4096, 131072, kLast});
    for (int64_t r = 0; r < rows; ++r) {
      ids.push_back(r > 0 && rng.OneIn(3) ? std::min(ids.back() + 1, kLast) : SignedLog(rng, largest));
    }
    source.ids = ids;
    return source;
  }
  std::vector<double>& ids = run.Hold(std::vector<double>());
  for (int64_t r = 0; r < rows; ++r) ids.push_back(RandomFraction(rng));
  source.fractional_ids = ids;
  return source;
}

std::optional<FuzzRun> MakeFuzzRun(const FuzzSubject& subject, uint64_t seed, unsigned char scratch_fill) {
  Rng rng(seed);
  using Kind = bool (*)(const FuzzSubject&, Rng&, FuzzRun&);
  Kind kinds[] = {&AddAngleRun, &AddAbsoluteRun, &AddBiasRun, &AddScoreRun, &AddResizeRun};
  const int64_t first = rng.Int(0, 4);
  for (int64_t i = 0; i < 5; ++i) {
    FuzzRun run;
    run.scratch_fill = scratch_fill;
    if (kinds[(first + i) % 5](subject, rng, run)) return run;
  }
  return std::nullopt;
}

absl::Status RunInPieces(const Backend& backend, const FuzzRun& run, Rng& rng) {
  for (const ProgramStep& step : run.steps) {
    std::vector<int64_t> cuts = {0, step.rows};
    for (int64_t i = rng.Int(0, 4); i > 0; --i) cuts.push_back(rng.Int(0, step.rows));
    std::sort(cuts.begin(), cuts.end());
    std::vector<RowRange> pieces;
    for (size_t i = 1; i < cuts.size(); ++i) pieces.push_back({cuts[i - 1], cuts[i]});
    for (size_t i = pieces.size(); i > 1; --i) {
      std::swap(pieces[i - 1], pieces[static_cast<size_t>(rng.Int(0, static_cast<int64_t>(i) - 1))]);
    }
    for (const RowRange& piece : pieces) {
      if (absl::Status status = RunStep(backend, step, piece, nullptr); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::Status RunReference(const Backend& reference, const FuzzRun& run) {
  if (run.sampled.empty()) return RunProgram(reference, run.steps);
  for (const RowRange& rows : run.sampled) {
    if (absl::Status status = RunStep(reference, run.steps.front(), rows, nullptr); !status.ok()) return status;
  }
  return absl::OkStatus();
}

std::string Difference(const FuzzRun& got, const FuzzRun& expected) {
  for (size_t b = 0; b < got.buffers.size(); ++b) {
    const GuardedBuffer& mine = *got.buffers[b];
    const GuardedBuffer& theirs = *expected.buffers[b];
    if (!mine.SameAs(mine)) return absl::StrCat("buffer ", b, ": written beyond its ends");
    const int64_t rows = got.sampled.empty() ? 1 : got.steps.front().rows;
    const int64_t row_bytes = mine.bytes() / std::max<int64_t>(1, rows);
    const std::vector<RowRange> all = {{0, rows}};
    for (const RowRange& range : got.sampled.empty() ? all : got.sampled) {
      for (int64_t i = range.begin * row_bytes; i < range.end * row_bytes; ++i) {
        if (mine.data()[i] != theirs.data()[i]) {
          return absl::StrCat("buffer ", b, " of ", mine.bytes(), " bytes from byte ", i, ": ", HexFrom(mine, i),
                              " instead of ", HexFrom(theirs, i));
        }
      }
    }
  }
  return {};
}

}  // namespace phasor
