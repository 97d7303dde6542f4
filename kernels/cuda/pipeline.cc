#include "kernels/cuda/pipeline.h"

#include <algorithm>
#include <vector>

namespace phasor::cuda {
namespace {

constexpr int64_t kAlignment = 256;
// More strips than this are packed into one copy.
constexpr size_t kFewStrips = 4;

int64_t AlignUp(int64_t value) { return (value + kAlignment - 1) / kAlignment * kAlignment; }

// A chunk's place in its slot: offsets of the strips.
struct Layout {
  std::vector<int64_t> inputs, outputs;
  int64_t input_bytes = 0;  // the inputs lie first, side by side
  int64_t bytes = 0;
};

Layout LayoutOf(const Transfers& moves) {
  Layout layout;
  int64_t at = 0;
  for (const Strip& strip : moves.inputs) {
    layout.inputs.push_back(at);
    at += AlignUp(strip.bytes());
  }
  layout.input_bytes = at;
  for (size_t i = 0; i < moves.outputs.size(); ++i) {
    if (i < moves.in_place.size() && moves.in_place[i] >= 0) {
      layout.outputs.push_back(layout.inputs[static_cast<size_t>(moves.in_place[i])]);
      continue;
    }
    layout.outputs.push_back(at);
    at += AlignUp(moves.outputs[i].bytes());
  }
  layout.bytes = std::max(at, kAlignment);
  return layout;
}

// Memory that chunks need, of a slot.
struct Needs {
  int64_t bytes = 0;                        // of the device
  int64_t staging_in = 0, staging_out = 0;  // pinned, where strips are packed

  void Add(const Transfers& moves, const Layout& layout) {
    bytes = std::max(bytes, layout.bytes);
    if (moves.inputs.size() > kFewStrips) staging_in = std::max(staging_in, layout.input_bytes);
    if (moves.outputs.size() > kFewStrips) staging_out = std::max(staging_out, layout.bytes);
  }
};

class Pipeline {
 public:
  Pipeline(const Lowered& lowered, Lane& lane, DeviceTimes* times) : lowered_(lowered), lane_(lane), times_(times) {}

  // Puts the task's constants on the device.
  absl::Status PlaceConstants() {
    int64_t own_bytes = 0;
    for (const Constant& constant : lowered_.constants()) {
      if (constant.id == 0) own_bytes += AlignUp(constant.bytes);
    }
    std::byte* own = nullptr;
    if (own_bytes > 0) {
      auto reserved = lane_.ReserveConstants(own_bytes);
      if (!reserved.ok()) return reserved.status();
      own = *reserved;
    }
    for (const Constant& constant : lowered_.constants()) {
      if (constant.bytes == 0) {
        constants_.push_back(nullptr);
      } else if (constant.id == 0) {
        if (absl::Status status = CopyConstant(constant, own); !status.ok()) return status;
        constants_.push_back(own);
        own += AlignUp(constant.bytes);
      } else {
        auto table = lane_.memory().FindOrUpload(constant, [&](std::byte* to) { return UploadTable(constant, to); });
        if (!table.ok()) return table.status();
        constants_.push_back((*table)->data());
        tables_.push_back(*std::move(table));
      }
    }
    return absl::OkStatus();
  }

  // Room for the largest of all chunks, in every slot that has one: memory is missing before the work begins, or not at all.
  template <typename EndOf>
  absl::Status ReserveFor(RowRange rows, const EndOf& end_of) {
    Needs most;
    int64_t chunks = 0;
    for (int64_t begin = rows.begin; begin < rows.end; begin = end_of(begin), ++chunks) {
      const Transfers moves = lowered_.TransfersOf({begin, end_of(begin)});
      most.Add(moves, LayoutOf(moves));
    }
    for (int64_t i = 0; i < std::min<int64_t>(chunks, Lane::kSlots); ++i) {
      if (absl::Status status = Reserve(most, lane_.slot(i)); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status Start(RowRange rows, Lane::Slot& slot) {
    const Transfers moves = lowered_.TransfersOf(rows);
    const Layout layout = LayoutOf(moves);
    std::vector<std::byte*> inputs, outputs;
    for (const int64_t offset : layout.inputs) inputs.push_back(slot.memory.data() + offset);
    for (const int64_t offset : layout.outputs) outputs.push_back(slot.memory.data() + offset);
    slot.busy = true;
    absl::Status status = CopyIn(moves, layout, slot);
    if (status.ok()) status = Compute(rows, {constants_, inputs, outputs}, slot);
    if (status.ok()) status = CopyOut(moves, layout, slot);
    return status;
  }

 private:
  Driver& driver() { return lane_.driver(); }

  absl::Status CopyConstant(const Constant& constant, std::byte* to) {
    times_->bytes_in += constant.bytes;
    // Only read.
    auto* host = const_cast<std::byte*>(static_cast<const std::byte*>(constant.host));
    return driver().CopyIn(lane_.in(), Strip{host, constant.bytes}, to);
  }

  absl::Status UploadTable(const Constant& constant, std::byte* to) {
    if (absl::Status status = CopyConstant(constant, to); !status.ok()) return status;
    if (absl::Status status = driver().Record(lane_.fence(), lane_.in()); !status.ok()) return status;
    return driver().Synchronize(lane_.fence());
  }

  absl::Status Reserve(const Needs& needs, Lane::Slot& slot) {
    if (slot.memory.size() < needs.bytes) {
      slot.memory = DeviceBuffer();
      auto memory = lane_.memory().Allocate(needs.bytes);
      if (!memory.ok()) return memory.status();
      slot.memory = *std::move(memory);
    }
    if (absl::Status status = slot.staging_in.Reserve(needs.staging_in); !status.ok()) return status;
    return slot.staging_out.Reserve(needs.staging_out);
  }

  absl::Status Mark(Lane::Slot& slot, Lane::Mark mark, Driver::Stream stream) {
    return driver().Record(slot.marks[mark], stream);
  }

  absl::Status CopyIn(const Transfers& moves, const Layout& layout, Lane::Slot& slot) {
    if (absl::Status status = Mark(slot, Lane::kInBegin, lane_.in()); !status.ok()) return status;
    if (moves.inputs.size() > kFewStrips) {
      for (size_t i = 0; i < moves.inputs.size(); ++i) {
        moves.inputs[i].Gather(slot.staging_in.data() + layout.inputs[i]);
      }
      times_->bytes_in += layout.input_bytes;
      const Strip whole{slot.staging_in.data(), layout.input_bytes};
      if (absl::Status status = driver().CopyIn(lane_.in(), whole, slot.memory.data()); !status.ok()) return status;
    } else {
      for (size_t i = 0; i < moves.inputs.size(); ++i) {
        if (moves.inputs[i].bytes() == 0) continue;
        times_->bytes_in += moves.inputs[i].bytes();
        const absl::Status status = driver().CopyIn(lane_.in(), moves.inputs[i], slot.memory.data() + layout.inputs[i]);
        if (!status.ok()) return status;
      }
    }
    return Mark(slot, Lane::kInEnd, lane_.in());
  }

  absl::Status Compute(RowRange rows, const Addresses& at, Lane::Slot& slot) {
    // Constants were put on the same stream before.
    if (absl::Status status = driver().Wait(lane_.compute(), slot.marks[Lane::kInEnd]); !status.ok()) return status;
    if (absl::Status status = Mark(slot, Lane::kKernelBegin, lane_.compute()); !status.ok()) return status;
    for (const KernelParams& params : lowered_.Launches(rows, at)) {
      if (WorksOf(params) <= 0) continue;
      ++times_->launches;
      if (absl::Status status = driver().Launch(lane_.compute(), params); !status.ok()) return status;
    }
    return Mark(slot, Lane::kKernelEnd, lane_.compute());
  }

  absl::Status CopyOut(const Transfers& moves, const Layout& layout, Lane::Slot& slot) {
    if (absl::Status status = driver().Wait(lane_.out(), slot.marks[Lane::kKernelEnd]); !status.ok()) return status;
    if (absl::Status status = Mark(slot, Lane::kOutBegin, lane_.out()); !status.ok()) return status;
    const absl::Status status =
        moves.outputs.size() > kFewStrips ? CopyOutPacked(moves, layout, slot) : CopyOutEach(moves, layout, slot);
    return status.ok() ? Mark(slot, Lane::kOutEnd, lane_.out()) : status;
  }

  // Outputs without host memory are the kernels' own.
  static bool Leaves(const Strip& strip) { return strip.host != nullptr && strip.bytes() > 0; }

  absl::Status CopyOutEach(const Transfers& moves, const Layout& layout, Lane::Slot& slot) {
    for (size_t i = 0; i < moves.outputs.size(); ++i) {
      if (!Leaves(moves.outputs[i])) continue;
      times_->bytes_out += moves.outputs[i].bytes();
      const absl::Status status = driver().CopyOut(lane_.out(), slot.memory.data() + layout.outputs[i], moves.outputs[i]);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status CopyOutPacked(const Transfers& moves, const Layout& layout, Lane::Slot& slot) {
    int64_t begin = layout.bytes, end = 0;
    for (size_t i = 0; i < moves.outputs.size(); ++i) {
      if (!Leaves(moves.outputs[i])) continue;
      begin = std::min(begin, layout.outputs[i]);
      end = std::max(end, layout.outputs[i] + moves.outputs[i].bytes());
      slot.unpack.emplace_back(moves.outputs[i], slot.staging_out.data() + layout.outputs[i]);
    }
    if (end <= begin) return absl::OkStatus();
    times_->bytes_out += end - begin;
    return driver().CopyOut(lane_.out(), slot.memory.data() + begin, Strip{slot.staging_out.data() + begin, end - begin});
  }

  const Lowered& lowered_;
  Lane& lane_;
  DeviceTimes* const times_;
  std::vector<std::byte*> constants_;
  std::vector<DeviceMemory::TableHandle> tables_;
};

}  // namespace

absl::Status RunPipeline(const Lowered& lowered, RowRange rows, const CancelFlag* cancel, const PipelineOptions& options,
                         Lane& lane, DeviceTimes* times, bool* began) {
  *began = false;
  if (rows.begin >= rows.end) return absl::OkStatus();
  Pipeline pipeline(lowered, lane, times);
  const int64_t cut = lowered.rows_per_cut();
  const int64_t per_chunk = std::max<int64_t>(1, options.chunk_bytes / lowered.bytes_per_row());
  // The first chunk is short where the range begins within a cut.
  const auto end_of = [&](int64_t begin) {
    return std::min(rows.end, std::max((begin + per_chunk) / cut * cut, (begin / cut + 1) * cut));
  };
  absl::Status status = pipeline.ReserveFor(rows, end_of);
  if (status.ok()) status = pipeline.PlaceConstants();
  int64_t chunk = 0;
  for (int64_t begin = rows.begin; status.ok() && begin < rows.end; ++chunk) {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) {
      status = absl::CancelledError("cancelled");
      break;
    }
    Lane::Slot& slot = lane.slot(chunk);
    status = lane.Finish(slot, times);
    if (!status.ok()) break;
    const RowRange piece{begin, end_of(begin)};
    status = pipeline.Start(piece, slot);
    *began |= slot.busy;
    begin = piece.end;
  }
  if (status.ok() || absl::IsCancelled(status)) status.Update(lane.FinishAll(times));
  // Constants of a call that ended early may still be on their way.
  if (!status.ok()) lane.Abandon();
  return status;
}

}  // namespace phasor::cuda
