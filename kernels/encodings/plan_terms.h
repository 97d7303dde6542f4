// Plans of terms of attention scores. Part of plan.h.
#ifndef PHASOR_KERNELS_ENCODINGS_PLAN_TERMS_H_
#define PHASOR_KERNELS_ENCODINGS_PLAN_TERMS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/encodings/buckets.h"
#include "kernels/encodings/plan_angle.h"
#include "kernels/encodings/spec_terms.h"
#include "kernels/encodings/weight.h"

namespace phasor {

struct ShawPlan {
  int64_t clip = 0;
  bool query_term_too = false;
  bool key_minus_query = false;
  WeightRef keys, values;

  int64_t dim() const { return keys ? keys->shape[1] : 0; }
};

struct DebertaPlan {
  int64_t position_buckets = 0;
  int64_t max_relative_positions = 0;
  bool c2p = false, p2c = false;
  WeightRef key_positions, query_positions;
  LogBuckets buckets;  // follows from the members above

  int64_t terms() const { return (c2p ? 1 : 0) + (p2c ? 1 : 0); }
};

// Transformer-XL, XLNet and Conformer.
struct SinusoidTermPlan {
  enum class Form : uint8_t { kTransformerXl = 1, kXlnet = 2, kConformer = 3 };
  Form form = Form::kTransformerXl;
  int64_t heads = 0;
  int64_t dim = 0;                             // of a head
  std::optional<int64_t> clamp;                // distances beyond ± this count as it
  bool unidirectional = false;                 // only distances ≥ 0 have a row
  bool concatenated = false;                   // sines, then cosines; only where the form leaves it open (kConformer)
  bool separate_cls = false;                   // nothing for the first query and the first key
  std::shared_ptr<const AnglePlan> sinusoids;  // one pair for two columns; null with a table
  WeightRef projection;                        // [heads·dim, columns]
  WeightRef table;                             // [heads, rows, dim]
  WeightRef content_bias, position_bias;       // [heads, dim] or none
  WeightRef segment_bias, segment_embed, segments;
};

struct CopePlan {
  int64_t max_positions = 0;
  WeightRef e;

  bool by_head() const { return e->shape.size() == 3; }
  int64_t dim() const { return e->shape[by_head() ? 1 : 0]; }
};

struct DecomposedPlan {
  int64_t query_height = 0, query_width = 0;
  int64_t key_height = 0, key_width = 0;
  WeightRef rel_pos_h, rel_pos_w;

  int64_t queries() const { return query_height * query_width; }
  int64_t keys() const { return key_height * key_width; }
  int64_t dim() const { return rel_pos_h->shape[1]; }
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_PLAN_TERMS_H_
