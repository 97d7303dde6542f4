#include "kernels/program/row_maker.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "kernels/program.h"

namespace phasor {
namespace {

constexpr size_t kAlignment = 64;

AbsolutePositions Part(const AbsolutePositions& all, RowRange rows) {
  AbsolutePositions part = all;
  const auto first = static_cast<size_t>(rows.begin), count = static_cast<size_t>(rows.end - rows.begin);
  part.rows = rows.end - rows.begin;
  const auto cut = [&](PositionSource& source) {
    if (!source.fractional_ids.empty()) {
      source.fractional_ids = source.fractional_ids.subspan(first, count);
    } else if (!source.ids.empty()) {
      source.ids = source.ids.subspan(first, count);
    } else {
      source.start += rows.begin * source.stride;
    }
  };
  cut(part.source);
  for (PositionSource& source : part.more_axes) cut(source);
  if (!all.hidden.empty()) part.hidden = all.hidden.subspan(first, count);
  return part;
}

}  // namespace

absl::Status RowMaker::Make(const Backend& backend, RowRange rows, DType dtype, void* out, const CancelFlag* cancel) const {
  AbsoluteRows table;
  table.spec = &spec_;
  table.plan = &plan_;
  table.positions = Part(positions_, rows);
  table.dtype = dtype;
  table.out = out;
  const auto bytes = static_cast<size_t>(AbsoluteScratchBytes(spec_, table.positions, dtype)) + kAlignment;
  const std::unique_ptr<std::byte[]> scratch(new (std::nothrow) std::byte[bytes]);
  if (scratch == nullptr) return absl::ResourceExhaustedError("no memory for a block of encodings");
  const auto address = reinterpret_cast<uintptr_t>(scratch.get());
  table.scratch = scratch.get() + (kAlignment - address % kAlignment) % kAlignment;
  const auto steps = AbsoluteSteps(table);
  if (!steps.ok()) return steps.status();
  return RunProgram(backend, *steps, cancel);
}

}  // namespace phasor
