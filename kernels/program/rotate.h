// Rotations of tensors beyond one plain table: scaled or decaying with the position, from schedule to schedule, by the
// caller's own tables, PoPE and FoPE.
#ifndef PHASOR_KERNELS_PROGRAM_ROTATE_H_
#define PHASOR_KERNELS_PROGRAM_ROTATE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/encodings/encoding.h"
#include "kernels/encodings/weight.h"
#include "kernels/program.h"
#include "kernels/program/rotation.h"

namespace phasor {

// xPos with everything decided.
struct XposFactors {
  double scale_base = 512;
  int64_t center = 0;
};

enum class RotationKind : uint8_t {
  kRope,       // plans: the spec's
  kBetween,    // plans: the target's, then that of what the tensors were rotated with
  kUploaded,   // no plan; whole positions of one axis, rows of the tables
  kPolar,      // PoPE; one axis
  kFrequency,  // FoPE; one axis
  kDistilled,  // cosines and sines of a distilled function; one axis, no scale
};

// What is rotated by.
struct RotationRule {
  RotationKind kind = RotationKind::kRope;
  Pairing pairing = Pairing::kHalfSplit;
  int64_t first_channel = 0;
  int64_t pairs = 0;                   // kPolar: head_dim
  int64_t table_heads = 1;             // tables per position: FoPE's mixtures, PoPE's phases
  bool negate = false;                 // angles negated
  bool divide = false;                 // by the factors instead of multiplying
  std::optional<PositionScale> scale;  // of queries; not with kPolar
  std::optional<XposFactors> xpos;     // kRope and kBetween; whole positions of one axis
  WeightRef cos, sin;                  // kUploaded: [rows, pairs]
  WeightRef delta;                     // kPolar, of keys; may be empty
};

// Whether tensors can be rotated by the scheme: RoPE, PoPE, FoPE. (A distilled function is a table first.)
bool IsRotation(const EncodingSpec& spec);
// What a canonical spec that rotates comes to, but for xPos, whose center may depend on the request.
RotationRule RotationRuleOf(const EncodingSpec& spec);

// `sequence_length`: where xPos has no center of its own; nothing when it is missing then.
std::optional<XposFactors> XposFactorsOf(const XposScale& xpos, std::optional<int64_t> sequence_length);
// Up to how many positions from the center xPos's factors fit in `dtype`. On one side of it queries grow and keys vanish, on
// the other it is the reverse; what has vanished cannot be brought back, so both count.
int64_t XposReach(const XposFactors& xpos, DType dtype);

// A tensor [batch, tokens, heads, head_dim] and where the result goes; strides in elements, channels are contiguous. In
// place (same address and strides) but for kPolar, whose results are heads of 2·head_dim elsewhere.
struct RotatedTensor {
  DType dtype = DType::kF32;  // IsFloat
  int64_t heads = 0, head_dim = 0;
  int64_t x_batch_stride = 0, x_token_stride = 0, x_head_stride = 0;
  int64_t y_batch_stride = 0, y_token_stride = 0, y_head_stride = 0;
  bool is_query = false;
};

// Where everything lies. All of it must outlive the steps.
struct RotationMemory {
  std::span<const Resolved* const> plans;
  RotationPositions positions;       // of every row
  std::span<std::byte* const> x, y;  // one per tensor
  std::byte* scratch = nullptr;      // scratch_bytes(), aligned to 64 bytes
};

// Tables are computed a chunk of rows at a time, into scratch memory, and every tensor's tokens of the chunk are worked on
// before the next chunk: memory stays bounded whatever the length.
class RotationProgram {
 public:
  // ---- Filled in by the maker, constant after Seal().
  RotationRule rule;
  int64_t batch = 0, tokens = 0;
  bool per_batch = false;  // positions are [batch, tokens], else [tokens]
  std::vector<RotatedTensor> tensors;

  // Last of all: sets scratch_bytes() and the rows of a chunk.
  void Seal();
  int64_t scratch_bytes() const { return scratch_bytes_; }

  // The steps do not point into this object.
  std::vector<ProgramStep> Steps(const RotationMemory& memory) const;

 private:
  class Builder;

  // Tables that differ: queries' and keys', in f32 and f64.
  static constexpr int kVariants = 4;
  int VariantOf(const RotatedTensor& tensor) const;
  int64_t RowBytes(int variant) const;  // of cos alone

  int64_t chunk_rows_ = 1;
  int64_t scratch_bytes_ = 0;
  std::array<bool, kVariants> used_{};
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_PROGRAM_ROTATE_H_
