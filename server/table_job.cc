#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

#include "server/precompute_job.h"

namespace phasor::server {
namespace {

class TableJob final : public PrecomputeJob {
 public:
  TableJob(std::shared_ptr<PrecomputeCall> call, size_t index, std::shared_ptr<const PlanEntry> plan, TableShape shape)
      : PrecomputeJob(call, index, plan, RequestOf(*call, index).inverse,
                      TilesOfPositions(RequestOf(*call, index).positions, shape.offset),
                      !Consecutive(RequestOf(*call, index).positions)),
        request_(RequestOf(*call, index)),
        shape_(shape) {
    rows_ = {core(), &this->plan(), item().dtype, request_.inverse, &request_.positions, shape_.offset, &tiles()};
  }

 protected:
  bool IsSlices() const override {
    return request_.form == TableForm::kHalf && Consecutive(request_.positions) && !shape_.zero_row;
  }

  void SetSlices() override {
    SetInvFreq();
    int64_t position = request_.positions.count > 0 ? rows_.at(0) : 0;
    for (size_t i = 0; i < tiles().uses().size(); ++i) {
      const TileUse& use = tiles().uses()[i];
      const Tile& tile = *tiles().tiles()[i];
      const int64_t begin = (position - use.index * kTileRows) * rows_.row_bytes();
      const int64_t size = use.rows * rows_.row_bytes();
      result().cos->data.push_back(Piece(held_tiles(), tile.data() + begin, size));
      result().sin->data.push_back(Piece(held_tiles(), tile.data() + tile.bytes() / 2 + begin, size));
      position += use.rows;
    }
  }

  absl::Status Allocate() override {
    SetInvFreq();
    const int64_t array_bytes = request_.positions.count * out_row_bytes();
    if (array_bytes == 0) return absl::OkStatus();
    const int64_t second = AlignUp(array_bytes, 64);
    auto room = NewResult(shape_.two_arrays ? second + array_bytes : array_bytes);
    if (!room.ok()) return room.status();
    out_ = room->data;
    if (shape_.two_arrays) {
      out_sin_ = out_ + second;
      result().cos->data = {Piece(room->owner, out_, array_bytes)};
      result().sin->data = {Piece(room->owner, out_sin_, array_bytes)};
    } else {
      result().table->data = {Piece(room->owner, out_, array_bytes)};
    }
    return absl::OkStatus();
  }

  std::vector<Step> Steps() override {
    if (out_ == nullptr) return {};
    int64_t per_slice = core()->backend->RowsPerSlice(AssembleInto(0));
    if (!tiles().complete()) per_slice = std::max<int64_t>(1, std::min(per_slice, rows_.rows_per_slice()) / 2);
    return {{request_.positions.count, per_slice, static_cast<decltype(Step::run)>(&TableJob::Write)}};
  }

 private:
  static const TableRequest& RequestOf(const PrecomputeCall& call, size_t index) {
    return std::get<TableRequest>(call.item(index).window);
  }

  int64_t out_row_bytes() const { return shape_.columns * SizeOf(item().dtype); }

  void SetInvFreq() {
    if (!request_.include_inv_freq) return;
    const std::vector<double>& values = plan().angle()->inv_freq;
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(double));
    const auto held = std::make_shared<const std::pair<std::shared_ptr<const PlanEntry>, std::shared_ptr<const void>>>(
        plan_owner(), charge());
    if (bytes > 0) result().inv_freq->data = {Piece(held, reinterpret_cast<const std::byte*>(values.data()), bytes)};
  }

  AssembleTask AssembleInto(int64_t row) const {
    AssembleTask task;
    task.form = request_.form;
    task.element_size = SizeOf(item().dtype);
    task.pairs = plan().angle()->pairs();
    task.columns = shape_.columns;
    task.table_stride = task.pairs;
    task.out = out_ == nullptr ? nullptr : out_ + row * out_row_bytes();
    task.out_sin = out_sin_ == nullptr ? nullptr : out_sin_ + row * out_row_bytes();
    task.hint = StoreHint::kReadNext;  // sending reads it
    return task;
  }

  absl::Status Write(RowRange rows, const CancelFlag* cancel) {
    const TableRows::Direct direct{out_, out_sin_};
    const absl::Status status =
        rows_.Visit(rows, cancel, request_.form == TableForm::kHalf ? &direct : nullptr, [&](const TableRun& run) {
          AssembleTask task = AssembleInto(run.first);
          task.cos = run.cos;
          task.sin = run.sin;
          task.table_rows = run.table_rows;
          return core()->backend->Run(task, {0, run.rows}, cancel);
        });
    if (status.ok() && shape_.zero_row) ZeroPadding(rows);
    return status;
  }

  void ZeroPadding(RowRange rows) {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      if (rows_.at(row) != *shape_.zero_row) continue;
      std::memset(out_ + row * out_row_bytes(), 0, static_cast<size_t>(out_row_bytes()));
      if (out_sin_ != nullptr) std::memset(out_sin_ + row * out_row_bytes(), 0, static_cast<size_t>(out_row_bytes()));
    }
  }

  const TableRequest& request_;
  const TableShape shape_;
  TableRows rows_;
  std::byte* out_ = nullptr;
  std::byte* out_sin_ = nullptr;
};

}  // namespace

std::shared_ptr<PrecomputeJob> MakeTableJob(std::shared_ptr<PrecomputeCall> call, size_t item,
                                            std::shared_ptr<const PlanEntry> plan) {
  // Describing the item has checked that there is a shape.
  const auto shape =
      ShapeOfTable(call->item(item).source.spec, *plan->angle(), std::get<TableRequest>(call->item(item).window));
  return std::make_shared<TableJob>(std::move(call), item, std::move(plan), shape.value_or(TableShape{}));
}

}  // namespace phasor::server
