// One item of Precompute that needs data: finds its tiles, then hands them out or lays them out.
#ifndef PHASOR_SERVER_PRECOMPUTE_JOB_H_
#define PHASOR_SERVER_PRECOMPUTE_JOB_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "server/describe.h"
#include "server/precompute_call.h"
#include "server/table_rows.h"
#include "server/tile_set.h"

namespace phasor::server {

// Created when the item's result has been described. Either FinishNow, or Start, which ends the item (Call::EndItem).
class PrecomputeJob : public std::enable_shared_from_this<PrecomputeJob> {
 public:
  PrecomputeJob(std::shared_ptr<PrecomputeCall> call, size_t item, std::shared_ptr<const PlanEntry> plan, bool inverse,
                std::vector<TileUse> uses, bool scattered);
  virtual ~PrecomputeJob() = default;

  // True when every tile is in the cache and what is left to copy is little: the result is complete then.
  bool FinishNow();
  void Start();

 protected:
  // The result is pieces of tiles: nothing has to be copied.
  virtual bool IsSlices() const = 0;
  virtual void SetSlices() = 0;
  // Allocates what the answer needs and sets the result's arrays to it.
  virtual absl::Status Allocate() = 0;
  // The stages that write it; each runs when the one before has ended. `run` writes rows of the answer.
  struct Step {
    int64_t rows;
    int64_t rows_per_slice;
    absl::Status (PrecomputeJob::*run)(RowRange rows, const CancelFlag* cancel);
  };
  virtual std::vector<Step> Steps() = 0;

  EngineCore* core() const { return call_->core(); }
  const PrecomputeItem& item() const { return call_->item(index_); }
  PrecomputeResult& result() { return call_->result(index_); }
  const PlanEntry& plan() const { return *plan_; }
  const std::shared_ptr<const PlanEntry>& plan_owner() const { return plan_; }
  const TileSet& tiles() const { return *tiles_; }
  const std::shared_ptr<const void>& charge() const { return call_->charge(); }
  // What keeps pieces of the tiles alive (made once).
  const std::shared_ptr<const void>& held_tiles();
  absl::StatusOr<std::shared_ptr<HeldBuffer>> NewBuffer(int64_t bytes);
  // Memory for the whole result, PlacementOf's bytes: a buffer, or its place in shared memory.
  struct Room {
    std::shared_ptr<const void> owner;
    std::byte* data = nullptr;
  };
  absl::StatusOr<Room> NewResult(int64_t bytes);

 private:
  // Pieces of tiles are no answer where the result has a place.
  bool AnswersWithSlices() const { return IsSlices() && !call_->place(index_); }
  void TilesReady(absl::Status status);
  void RunSteps(std::vector<Step> steps, size_t next);

  const std::shared_ptr<PrecomputeCall> call_;
  const size_t index_;
  const std::shared_ptr<const PlanEntry> plan_;
  const std::shared_ptr<TileSet> tiles_;
  std::vector<TileUse> uses_;
  const bool scattered_;
  Stopwatch waiting_;
  std::shared_ptr<const void> held_tiles_;
};

// The job for an item, by its window.
std::shared_ptr<PrecomputeJob> MakeTableJob(std::shared_ptr<PrecomputeCall> call, size_t item,
                                            std::shared_ptr<const PlanEntry> plan);
std::shared_ptr<PrecomputeJob> MakeBiasJob(std::shared_ptr<PrecomputeCall> call, size_t item,
                                           std::shared_ptr<const PlanEntry> plan);

// `size` bytes at `data` inside something that `owner` keeps alive.
inline Bytes Piece(std::shared_ptr<const void> owner, const std::byte* data, int64_t size) {
  return Bytes{std::move(owner), data, size};
}

}  // namespace phasor::server

#endif  // PHASOR_SERVER_PRECOMPUTE_JOB_H_
