#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

#include "server/precompute_job.h"

namespace phasor::server {
namespace {

// Answers of smaller pieces than this on average are copied together: many tiny slices cost more to send.
constexpr int64_t kSmallestPiece = 4096;

class BiasJob final : public PrecomputeJob {
 public:
  BiasJob(std::shared_ptr<PrecomputeCall> call, size_t index, std::shared_ptr<const PlanEntry> plan)
      : PrecomputeJob(call, index, plan, false, UsesOf(RequestOf(*call, index)), false),
        request_(RequestOf(*call, index)),
        shape_(ShapeOfBias(request_)),
        size_(SizeOf(item().dtype)) {}

 protected:
  bool IsSlices() const override {
    if (request_.form == BiasForm::kFull) return false;
    const int64_t pieces = request_.heads * (TileOf(shape_.first + shape_.count - 1) - TileOf(shape_.first) + 1);
    return pieces <= 16 || item().payload_bytes / pieces >= kSmallestPiece;
  }

  void SetSlices() override {
    for (int64_t head = 0; head < request_.heads; ++head) {
      int64_t distance = shape_.first;
      for (size_t i = 0; i < tiles().uses().size(); ++i) {
        const TileUse& use = tiles().uses()[i];
        result().bias->data.push_back(
            Piece(held_tiles(), InTile(*tiles().tiles()[i], use.index, head, distance), use.rows * size_));
        distance += use.rows;
      }
    }
  }

  absl::Status Allocate() override {
    const int64_t vector_bytes = request_.heads * shape_.count * size_;
    if (request_.form != BiasForm::kFull) {
      auto room = NewResult(vector_bytes);
      if (!room.ok()) return room.status();
      vector_ = room->data;
      result().bias->data = {Piece(room->owner, vector_, vector_bytes)};
      return absl::OkStatus();
    }
    auto vector = NewBuffer(vector_bytes);
    if (!vector.ok()) return vector.status();
    scratch_ = *std::move(vector);
    vector_ = scratch_->buffer->data();
    const int64_t bytes = request_.heads * request_.queries * request_.keys * size_;
    auto full = NewResult(bytes);
    if (!full.ok()) return full.status();
    full_ = full->data;
    result().bias->data = {Piece(full->owner, full_, bytes)};
    return absl::OkStatus();
  }

  std::vector<Step> Steps() override {
    std::vector<Step> steps = {{shape_.count, core()->backend->RowsPerSlice(VectorTask()),
                                static_cast<decltype(Step::run)>(&BiasJob::WriteVector)}};
    if (request_.form == BiasForm::kFull) {
      steps.push_back({request_.heads * request_.queries, core()->backend->RowsPerSlice(FullTask()),
                       static_cast<decltype(Step::run)>(&BiasJob::WriteFull)});
    }
    return steps;
  }

 private:
  static const BiasRequest& RequestOf(const PrecomputeCall& call, size_t index) {
    return std::get<BiasRequest>(call.item(index).window);
  }
  static std::vector<TileUse> UsesOf(const BiasRequest& request) {
    const BiasShape shape = ShapeOfBias(request);
    return TilesOfRange(shape.first, shape.count);
  }

  const std::byte* InTile(const Tile& tile, int64_t index, int64_t head, int64_t distance) const {
    return tile.data() + ((request_.first_head + head) * kTileRows + distance - index * kTileRows) * size_;
  }

  BiasVectorTask VectorTask() const {
    BiasVectorTask task;
    task.plan = *plan().bias();
    task.dtype = item().dtype;
    task.first_distance = shape_.first;
    task.first_head = request_.first_head;
    task.heads = request_.heads;
    task.out = vector_;
    task.head_stride = shape_.count;
    return task;
  }

  ToeplitzTask FullTask() const {
    ToeplitzTask task;
    task.element_size = size_;
    task.heads = request_.heads;
    task.queries = request_.queries;
    task.keys = request_.keys;
    task.vector = vector_;
    task.vector_stride = shape_.count;
    task.out = full_;
    return task;
  }

  absl::Status WriteVector(RowRange rows, const CancelFlag* cancel) {
    while (rows.begin < rows.end) {
      const int64_t distance = shape_.first + rows.begin;
      const int64_t index = TileOf(distance);
      const int64_t end = std::min(rows.end, (index + 1) * kTileRows - shape_.first);
      if (const Tile* tile = tiles().Find(index)) {
        for (int64_t head = 0; head < request_.heads; ++head) {
          std::memcpy(vector_ + (head * shape_.count + rows.begin) * size_, InTile(*tile, index, head, distance),
                      static_cast<size_t>((end - rows.begin) * size_));
        }
      } else {
        const absl::Status status = core()->backend->Run(VectorTask(), {rows.begin, end}, cancel);
        if (!status.ok()) return status;
      }
      rows.begin = end;
    }
    return absl::OkStatus();
  }

  absl::Status WriteFull(RowRange rows, const CancelFlag* cancel) { return core()->backend->Run(FullTask(), rows, cancel); }

  const BiasRequest& request_;
  const BiasShape shape_;
  const int64_t size_;
  std::byte* vector_ = nullptr;
  std::byte* full_ = nullptr;
  std::shared_ptr<HeldBuffer> scratch_;
};

}  // namespace

std::shared_ptr<PrecomputeJob> MakeBiasJob(std::shared_ptr<PrecomputeCall> call, size_t item,
                                           std::shared_ptr<const PlanEntry> plan) {
  return std::make_shared<BiasJob>(std::move(call), item, std::move(plan));
}

}  // namespace phasor::server
