// Biases over windows of an image, and biases that are learned functions of positions, as steps that fill memory.
#ifndef PHASOR_KERNELS_PROGRAM_WINDOW_BIAS_H_
#define PHASOR_KERNELS_PROGRAM_WINDOW_BIAS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/encodings/encoding.h"
#include "kernels/program.h"

namespace phasor {

// One batch row of a bias: heads [first_head, first_head + heads) of the spec's, at these positions. Everything that is
// pointed to must live until the steps have ended.
struct BiasPart {
  DType dtype = DType::kF32;  // IsFloat
  int64_t first_head = 0;
  int64_t heads = 0;
  int64_t batch_row = 0;                          // of weights with a batch axis
  std::span<const int64_t> query_positions = {};  // |position| < 2^32; biases over windows take none
  std::span<const int64_t> key_positions = {};
  std::span<const uint8_t> key_padding = {};  // per key, 0: padding; empty: none is. Counts in sums of gates only
  // Over a window: these tokens alone are queries, of one head. Empty: all are.
  RowRange window_queries = {};
  // Values that several parts share and that were made before: AppendBiasVectorSteps' from distance first_value on, for
  // consecutive positions, or AppendWindowTableSteps' of all rows. Of the part's heads, value_stride elements apart. Null:
  // the steps make their own.
  const void* values = nullptr;
  int64_t value_stride = 0;
  int64_t first_value = 0;
  void* out = nullptr;  // [heads, queries, keys], dense

  int64_t queries() const { return static_cast<int64_t>(query_positions.size()); }
  int64_t keys() const { return static_cast<int64_t>(key_positions.size()); }
};

// What the schemes of this file are like; nothing for others.
struct BiasTraits {
  int64_t heads = 0;
  // Tokens of a window: queries and keys are these, and positions mean nothing. 0: by position.
  int64_t tokens = 0;
  // Positions are rows of weights: those of queries must be in [0, query_rows), of keys in [0, key_rows). 0: any.
  int64_t query_rows = 0;
  int64_t key_rows = 0;
  // Batch rows of the weights; 0: the same for all.
  int64_t batch = 0;
  // A row for every key: positions are places among all keys, also where those of several sequences are packed.
  bool places_are_keys = false;
  // Sums gates, of which padded keys have none (BiasPart::key_padding).
  bool sums_gates = false;
  // Depends on key − query only.
  bool by_distance = false;
  // Without weights: only index maps.
  bool indices_only = false;
};
std::optional<BiasTraits> TraitsOf(const EncodingSpec& canonical);

// Multiplications of the learned function (FIRE, dynamic positions, Swin v2's windows) of a spec for so many queries and
// keys; 0 where the spec has none. `consecutive`: both sides' positions are. For all heads at once, or for each alone.
double LearnedProducts(const EncodingSpec& canonical, int64_t queries, int64_t keys, bool consecutive,
                       bool head_by_head = false);

// Bytes of scratch for a part of so many heads, queries and keys. Reused from part to part. `canonical` has traits.
int64_t BiasScratchBytes(const EncodingSpec& canonical, DType dtype, int64_t heads, int64_t queries, int64_t keys);

// Appends the steps that fill the part. `plan` is that of a spec with traits (others append nothing); positions are within
// its rows. `scratch` is aligned to 64 bytes. The bits are the same for every cut of heads, queries and keys.
void AppendBiasSteps(const Plan& plan, const BiasPart& part, std::byte* scratch, std::vector<ProgramStep>* steps);

// The bias of a spec with by_distance at key − query = first_distance … first_distance + count − 1, as [heads, count].
// Scratch: BiasScratchBytes with queries = 1 and keys = count.
void AppendBiasVectorSteps(const Plan& plan, DType dtype, int64_t first_head, int64_t heads, int64_t first_distance,
                           int64_t count, void* out, std::byte* scratch, std::vector<ProgramStep>* steps);

// Rows [rows.begin, rows.end) of the table of a bias over a window, as [heads, rows]; other plans append nothing. A window
// without a table has none. `features`: [rows, 2].
void AppendWindowTableSteps(const Plan& plan, DType dtype, int64_t first_head, int64_t heads, RowRange rows, void* out,
                            double* features, std::vector<ProgramStep>* steps);

// Table rows of a window, [queries, tokens] of kI64 or kI32, for queries of its tokens. Scratch: table_rows · SizeOf(dtype),
// rounded up to 64.
void AppendWindowIndexSteps(const TokenWindow& window, DType dtype, RowRange queries, void* out, std::byte* scratch,
                            std::vector<ProgramStep>* steps);

}  // namespace phasor

#endif  // PHASOR_KERNELS_PROGRAM_WINDOW_BIAS_H_
