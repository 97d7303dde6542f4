// What an item computes when it is no plain window of a cached table and no plain rotation: plans to resolve, tensors to
// read, arrays to make, steps to run. Parsers make these; the engine admits, resolves, gathers, runs and answers all of them
// alike.
#ifndef PHASOR_SERVER_WORK_H_
#define PHASOR_SERVER_WORK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "kernels/core/dtype.h"
#include "kernels/encodings/encoding.h"
#include "kernels/program.h"
#include "server/bytes.h"
#include "server/table_source.h"

namespace phasor::server {

// Which field of the answer an array goes to. kTensor may come several times, in order.
enum class Slot : uint8_t { kTable, kCos, kSin, kBias, kTensor, kScores, kValues, kInvFreq };

// A tensor of the request: its storage as it came, strides and all.
struct WorkInput {
  int64_t bytes = 0;
  Chunks payload;  // empty under validate_only
};

struct WorkArray {
  Slot slot = Slot::kTable;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // empty: dense
  int64_t bytes = 0;
  int input = -1;  // this input's memory becomes the array (work in place); its bytes must be equal
};

// Memory of a run. Everything is aligned to 4 KiB.
struct WorkMemory {
  std::vector<std::byte*> inputs;   // gathered
  std::vector<std::byte*> outputs;  // in the order of Work::outputs; null when empty
  std::byte* scratch = nullptr;     // scratch_bytes
};

// How a stream may make a work in parts, so that its size needs no memory.
enum class Cut : uint8_t {
  kNone,       // not at all
  kFirstAxis,  // along the outputs' first axis: Rows
  kRows,       // along all axes of the one output but the last: PieceAt
};

class Work;

// Some rows of a work's output, as a work.
struct WorkPiece {
  std::shared_ptr<const Work> work;
  int64_t rows = 0;
};

class Work {
 public:
  virtual ~Work() = default;

  // ---- Filled in by the parser, constant afterwards.
  std::vector<TableSource> sources;  // specs whose plans are needed, in the order of `plans` below
  std::vector<WorkInput> inputs;
  std::vector<WorkArray> outputs;
  int64_t scratch_bytes = 0;   // charged with the call
  int64_t position_bytes = 0;  // of position lists that the work holds (PositionSet::bytes), charged likewise
  // Canonical bytes of all that decides bits beside plans, tensors and outputs' types and shapes. Empty: plans and the like
  // decide nothing, so the answer has no fingerprint (resize).
  std::string key;
  std::vector<int64_t> rope_delta;  // for the answer
  std::vector<Note> warnings;       // for the answer; fields relative to the item ("spec.…")

  // Leaves `count` of the outputs' `rows` rows, as Rows says, and nothing that is said of the whole alone.
  void CutOutputs(int64_t rows, int64_t count);

  int64_t output_bytes() const {
    int64_t total = 0;
    for (const WorkArray& array : outputs) total += array.bytes;
    return total;
  }

  // Memory of a run.
  int64_t run_bytes() const {
    int64_t total = output_bytes() + scratch_bytes;
    for (const WorkInput& input : inputs) total += input.bytes;
    return total;
  }

  // The fingerprint of the plain window that this is another spelling of, or empty: WorkFingerprint then. `plans` as below.
  virtual std::string PlainFingerprint(std::span<const Resolved* const> /*plans*/) const { return {}; }

  // Whether it works in place on a tensor that lies on a device: every step that touches it is a task that DeviceSharing
  // names.
  virtual bool WorksOnDevice(size_t /*input*/) const { return false; }

  virtual Cut cut() const { return Cut::kNone; }
  // Cut::kFirstAxis: this work for rows [first, first + count) of that axis alone, without inv_freq unless count is 0.
  virtual std::shared_ptr<const Work> Rows(int64_t /*first*/, int64_t /*count*/) const { return nullptr; }

  // Cut::kRows: the piece that begins with row `row`, of `most` ≥ 1 rows or fewer. `prepared`: what Preparation made.
  virtual WorkPiece PieceAt(int64_t /*row*/, int64_t /*most*/, const Bytes& /*prepared*/) const { return {}; }
  // Memory of a run of the largest piece, of about `bytes` bytes of rows, or of one row where that is more.
  virtual int64_t PieceBytes(int64_t /*bytes*/) const { return 0; }
  // Makes what pieces share, which is little beside the whole, as its one output; null: there is nothing.
  virtual std::shared_ptr<const Work> Preparation() const { return nullptr; }
  // Whether pieces compute again what the whole computes once, so that the whole is to be preferred where it may be made.
  virtual bool prefers_whole() const { return false; }
  // Products of the spec's learned function in the costliest run of them: of a piece of `bytes` bytes or one row, or of the
  // preparation. 0: there is no such function.
  virtual int64_t PieceProducts(int64_t /*bytes*/) const { return 0; }

  // The steps in order. Called once per run, on a worker, when inputs have been gathered; must be quick (work belongs in
  // steps). What the steps point at (plans, this object, memory) lives until they have ended. Errors become the item's;
  // SpecErrors are paths relative to the item.
  virtual absl::StatusOr<std::vector<ProgramStep>> Steps(std::span<const Resolved* const> plans,
                                                         const WorkMemory& memory) const = 0;

  // Where steps are as many as batch rows, they are made a part at a time: one part's are run before the next is asked for,
  // and no more than those are held. Steps then gives those of all parts.
  virtual int64_t parts() const { return 1; }
  virtual absl::StatusOr<std::vector<ProgramStep>> StepsOf(int64_t /*part*/, std::span<const Resolved* const> plans,
                                                           const WorkMemory& memory) const {
    return Steps(plans, memory);
  }

 protected:
  // Batch rows whose steps are made at once.
  static constexpr int64_t kRowsOfPart = 256;
  static int64_t PartsOf(int64_t batch_rows) { return std::max<int64_t>(1, (batch_rows + kRowsOfPart - 1) / kRowsOfPart); }
  static RowRange RowsOfPart(int64_t part, int64_t batch_rows) {
    return {part * kRowsOfPart, std::min((part + 1) * kRowsOfPart, batch_rows)};
  }

  absl::StatusOr<std::vector<ProgramStep>> StepsOfAll(std::span<const Resolved* const> plans,
                                                      const WorkMemory& memory) const {
    std::vector<ProgramStep> steps;
    for (int64_t part = 0; part < parts(); ++part) {
      auto some = StepsOf(part, plans, memory);
      if (!some.ok()) return some.status();
      std::move(some->begin(), some->end(), std::back_inserter(steps));
    }
    return steps;
  }
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_WORK_H_
