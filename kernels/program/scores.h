// Attention scores as steps: rotation of queries and keys, their products, terms that depend on them, scale, biases, masks
// and softmax, in this order and no other.
#ifndef PHASOR_KERNELS_PROGRAM_SCORES_H_
#define PHASOR_KERNELS_PROGRAM_SCORES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "kernels/encodings/encoding.h"
#include "kernels/program.h"
#include "kernels/program/masking.h"
#include "kernels/program/rotation.h"

namespace phasor {

enum class ScaleOrder : uint8_t {
  kScaleThenBias = 1,  // (q·k + terms)·scale + biases
  kBiasThenScale = 2,  // (q·k + terms + biases)·scale
};

// Positions of the tokens of one side, |position| < 2^31.
struct TokenPositions {
  std::vector<int64_t> ids;  // [tokens], or [batch, tokens]; empty where `axes` has them
  bool per_batch = false;
  // What only a rotation takes: coordinates along each of its axes, whole or not, each 0 or of magnitude 2^-64 at least.
  std::vector<std::vector<double>> axes = {};

  bool is_plain() const { return axes.empty(); }
  int64_t count() const { return static_cast<int64_t>(is_plain() ? ids.size() : axes[0].size()); }
  RotationPositions Source() const;  // points into this object
};

// What is asked for. Specs are canonical.
struct ScoreSettings {
  ScoreShape shape;                  // of the answer; heads are those of the queries
  int64_t key_heads = 0;             // divides shape.heads
  int64_t first_head = 0;            // first global head: of biases, and of weights with a head axis
  DType tensor_dtype = DType::kF32;  // of q and k
  TokenPositions query_positions, key_positions;
  // Packed sequences whose positions count within them: places in the whole pack, [queries] and [keys], which biases with a
  // number for every key take. Empty: the positions.
  std::vector<int64_t> query_places, key_places;
  std::optional<EncodingSpec> rotation;    // RopeSpec, PopeSpec or FopeSpec
  std::optional<int64_t> sequence_length;  // where xPos has no center of its own
  Precision rotation_precision = Precision::kExact;
  std::vector<EncodingSpec> terms;           // of family "term"; at most one CoPE, and one Shaw term with values
  std::vector<EncodingSpec> biases;          // of family "bias"
  std::optional<PositionScale> query_scale;  // of queries, after the rotation
  bool omit_content = false;                 // no q·k
  std::optional<double> scale;               // finite, > 0
  ScaleOrder scale_order = ScaleOrder::kScaleThenBias;
  Masking masking;
  bool softmax = false;
  DType dtype = DType::kF32;                // of the answer
  int64_t max_elements = int64_t{1} << 26;  // of the answer, and of every table that positions or weights lead to
};

// Where everything lies. q and k are rotated in place (PoPE: into scratch memory).
struct ScoreMemory {
  void* q = nullptr;
  void* k = nullptr;
  HeadVectors q_layout, k_layout;  // strides; `data` and `dtype` do not count
  const void* additive = nullptr;  // of the masking
  std::byte* scratch = nullptr;    // scratch_bytes(), aligned to 64 bytes
  void* scores = nullptr;          // [batch, heads, queries, keys]
  void* values = nullptr;          // [batch, heads, queries, dim], where has_values()
};

// Computed in f64 from the tensors as they are after the rotation, which rounds to their type: S = q·k by FixedDot; CoPE;
// the other terms in order, each one addition a table; then scale, biases in order and terms that no scale applies to
// (decomposed), or the other way round; masks; softmax; one rounding. Entries that a term has no row for are −∞. The bits do
// not depend on the backend, on threads or on how a batch is cut.
//
// Immutable; thread-safe.
class ScoreProgram {
 public:
  // Checks that all parts fit together. Errors: INVALID_ARGUMENT with a SpecError, paths as in ScoresItem ("terms[0].weights
  // …").
  static absl::StatusOr<ScoreProgram> Make(ScoreSettings settings);

  const ScoreSettings& settings() const { return *settings_; }
  // The factor on q·k: the settings', else (d·f)^−0.5 with f = 1 + the terms of DeBERTa, times `multiplier` (the rotation's
  // softmax_scale_multiplier).
  double ScaleWith(double multiplier) const;
  bool has_values() const;
  int64_t scratch_bytes() const { return scratch_bytes_; }

  // The steps. `plans`: of the rotation if there is one, then of the terms, then of the biases. What they point at (this
  // object, plans and memory) must outlive them.
  std::vector<ProgramStep> Steps(std::span<const Resolved* const> plans, const ScoreMemory& memory) const;

 private:
  ScoreProgram() = default;

  std::shared_ptr<const ScoreSettings> settings_;  // steps point into it
  int64_t scratch_bytes_ = 0;
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_PROGRAM_SCORES_H_
