// A mask cut for a device: its tables, the additive rows of a range, and the launches that hide.
#ifndef PHASOR_KERNELS_CUDA_LOWER_MASK_H_
#define PHASOR_KERNELS_CUDA_LOWER_MASK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cuda/lower_parts.h"
#include "kernels/tasks/mask_rows.h"

namespace phasor::cuda {

// For a task of rows (batch, head, query) of at most kMaxMaskedKeys keys and a rule that CheckRule takes.
class LoweredMask {
 public:
  LoweredMask(const MaskRule& rule, DType dtype, int64_t batch, int64_t heads, int64_t queries, int64_t keys,
              ConstantList& constants);

  // Whether additive rows can be moved: not where they overlap.
  bool movable() const { return pitch_ == 0 || pitch_ >= keys_; }
  int64_t bytes_per_row() const;
  // The strips of the additive rows, to the end of `inputs`.
  void AddInputs(RowRange rows, std::vector<Strip>& inputs) const;
  // Device memory that the launches share.
  Strip Scratch(RowRange rows) const;
  // Masks `data`, the rows of the chunk. first_input: the number of the first strip that AddInputs gave.
  void AddLaunches(RowRange rows, const Addresses& at, size_t first_input, std::byte* scratch, std::byte* data,
                   std::vector<KernelParams>& launches) const;

 private:
  // Rows of a chunk whose additive rows are one strip.
  struct Part {
    RowRange rows;
    Strip strip;
    int64_t first_row = 0;  // AdditiveRows
  };
  std::vector<Part> PartsOf(RowRange rows) const;
  Part PartOf(RowRange rows) const;

  const MaskRule& rule_;
  const DType dtype_;
  const int64_t heads_, queries_, keys_;
  int prefix_, query_cu_seqlens_, key_cu_seqlens_, key_padding_;
  // Additive row b·per_batch_ + h·per_head_ + q·per_query_ of a part stands pitch_ elements after the one before.
  int64_t per_batch_ = 0, per_head_ = 0, per_query_ = 0, pitch_ = 0;
  int64_t rows_per_part_ = 0;  // parts begin at multiples of it; 0: one part
};

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_LOWER_MASK_H_
