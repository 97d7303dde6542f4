#include "server/knowledge/side_heads.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "kernels/program.h"
#include "kernels/program/window_bias.h"
#include "server/knowledge/aligned.h"

namespace phasor::server {
namespace {

constexpr DType kType = DType::kF64;

// One head of a spec's bias at key − query = first_distance …, ascending.
struct HeadRequest {
  int64_t head = 0;
  int64_t query = 0;  // of a bias that depends on it
  int64_t first_distance = 0;
  int64_t count = 0;
};

// The steps that make it. `keys` and `scratch` must outlive them.
void AppendHead(const Side& side, const HeadRequest& request, std::vector<int64_t>* keys, std::byte* scratch, void* out,
                std::vector<ProgramStep>* steps) {
  const Plan& plan = side.resolved->plan;
  if (const auto by_distance = DistancePlanOf(plan); by_distance && !side.by_query) {
    BiasVectorTask task;
    task.plan = *by_distance;
    task.dtype = kType;
    task.first_distance = request.first_distance;
    task.first_head = request.head;
    task.heads = 1;
    task.out = out;
    task.head_stride = request.count;
    steps->push_back(ProgramStep::Of(task, request.count));
  } else if (side.by_query) {
    keys->resize(static_cast<size_t>(request.count) + 1);  // the query is the last of them
    std::iota(keys->begin(), keys->end() - 1, request.query + request.first_distance);
    keys->back() = request.query;
    BiasPart part;
    part.dtype = kType;
    part.first_head = request.head;
    part.heads = 1;
    part.key_positions = std::span(*keys).first(static_cast<size_t>(request.count));
    part.query_positions = std::span(*keys).last(1);
    part.out = out;
    AppendBiasSteps(plan, part, scratch, steps);
  } else {
    AppendBiasVectorSteps(plan, kType, request.head, 1, request.first_distance, request.count, out, scratch, steps);
  }
}

}  // namespace

std::vector<int64_t> EvenIndices(int64_t count, int64_t most) {
  const int64_t shown = std::min(count, most);
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < shown; ++i) indices.push_back(shown > 1 ? i * (count - 1) / (shown - 1) : 0);
  return indices;
}

absl::StatusOr<Grid> EntriesOfHeads(const Backend& backend, const Side& side, const std::vector<int64_t>& heads,
                                    int64_t first, int64_t count, const CancelFlag* cancel) {
  const auto width = static_cast<int64_t>(heads.size());
  Grid rows{count, width, std::vector<double>(static_cast<size_t>(count * width))};
  // A table is there already, and rows that there are not are refused there.
  if (!side.resolved || first < side.first_row || count > side.rows - (first - side.first_row)) {
    const auto all = EntriesOf(backend, side, first, count, kType);
    if (!all.ok()) return all.status();
    for (int64_t row = 0; row < count; ++row) {
      for (int64_t i = 0; i < width; ++i) rows.at(row, i) = all->first.at(row, heads[static_cast<size_t>(i)]);
    }
    return rows;
  }
  const AlignedMemory out = AllocateAligned(count * SizeOf(kType));
  const bool by_distance = DistancePlanOf(side.resolved->plan).has_value() && !side.by_query;
  const AlignedMemory scratch = AllocateAligned(by_distance ? 0 : BiasScratchBytes(side.spec->spec, kType, 1, 1, count));
  std::vector<int64_t> keys;
  HeadRequest request{0, side.query.value_or(first + count - 1), -(first + count - 1), count};
  for (int64_t i = 0; i < width; ++i) {
    if (cancel != nullptr && cancel->load()) return absl::CancelledError("the caller has gone");
    request.head = heads[static_cast<size_t>(i)];
    std::vector<ProgramStep> steps;
    AppendHead(side, request, &keys, scratch.get(), out.get(), &steps);
    if (auto status = RunProgram(backend, steps, cancel); !status.ok()) return status;
    const std::vector<double> values = Widen(kType, out.get(), count);  // ascending: the last is row 0
    for (int64_t row = 0; row < count; ++row) rows.at(row, i) = values[static_cast<size_t>(count - 1 - row)];
  }
  return rows;
}

}  // namespace phasor::server
