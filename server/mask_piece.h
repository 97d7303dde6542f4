// Masks of some rows of a bias: the parts of its mask that these rows need, nothing copied that grows with the whole.
#ifndef PHASOR_SERVER_MASK_PIECE_H_
#define PHASOR_SERVER_MASK_PIECE_H_

#include <cstdint>
#include <vector>

#include "kernels/program.h"
#include "kernels/program/masking.h"
#include "server/bytes.h"
#include "server/contiguous_box.h"
#include "server/work.h"

namespace phasor::server {

// Rows of a piece at most whose additive rows are gathered: each may be a part of the tensor by itself.
inline constexpr int64_t kMostGatheredRows = 16384;

// The tensor of an additive mask as it came, of which pieces take their rows.
class AdditiveRows {
 public:
  explicit AdditiveRows(Chunks payload);
  // The rows of a box of [batch, heads, queries], dense in that order; axes along which the tensor is the same come once.
  WorkInput Of(const ContiguousBox& box, int64_t keys, const Masking& masking) const;

 private:
  void Append(int64_t from, int64_t size, WorkInput* rows) const;

  Chunks payload_;
  std::vector<int64_t> starts_;  // of each chunk
};

// The rule for a task whose rows are those of a box.
class MaskPiece {
 public:
  enum class Additive { kAsItCame, kGathered };  // by AdditiveRows::Of

  // `box`: rows [batch, heads, queries] of a bias of queries × keys whose first query stands at `query_offset`; some of a
  // head's queries only where it has one batch row and head. `masking` must live as long as this.
  MaskPiece(const Masking& masking, int64_t query_offset, const ContiguousBox& box, int64_t queries, int64_t keys,
            Additive additive);

  // Queries that a task with this rule must say it has: those of the box, and where it ends within a sequence of a pack
  // those of that sequence that follow. The box's rows are the task's first ones.
  int64_t queries() const { return queries_; }
  // Points into this, the masking and `additive`.
  MaskRule Rule(const void* additive) const;

 private:
  void CutPack(int64_t first, int64_t end, int64_t keys);

  const Masking& masking_;
  const ContiguousBox box_;
  const int64_t query_offset_, keys_;
  const bool gathered_;
  int64_t queries_;
  std::vector<int64_t> query_ends_, key_ends_;  // of a pack that is cut
};

// Masks rows [batch, heads, queries] of `box` in place, which lie at `data` one after the other.
ProgramStep MaskStep(const MaskPiece& piece, const MaskRule& rule, DType dtype, const ContiguousBox& box, int64_t keys,
                     void* data);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_MASK_PIECE_H_
