// Terms of attention scores that need queries or keys. Part of spec.h.
#ifndef PHASOR_KERNELS_ENCODINGS_SPEC_TERMS_H_
#define PHASOR_KERNELS_ENCODINGS_SPEC_TERMS_H_

#include <cstdint>
#include <optional>

#include "kernels/encodings/weight.h"

namespace phasor {

// Shaw's relative positions (arXiv 1803.02155), BERT's relative_key and relative_key_query: q·a[row], and k·a[row] too;
// row = clip + Δ, or clip − Δ (key_minus_query), Δ = i − j held to ±clip.
struct ShawSpec {
  int64_t clip = 0;  // 0 … 2^20
  bool query_term_too = false;
  bool key_minus_query = false;
  WeightRef keys;    // [2·clip + 1, d]; without it there are only indices
  WeightRef values;  // as keys; may be missing
  friend bool operator==(const ShawSpec&, const ShawSpec&) = default;
};

// DeBERTa v2 and v3: q·key_positions[δ] + k·query_positions[δ], δ of i − j in both (buckets.h, LogBuckets).
struct DebertaSpec {
  std::optional<int64_t> position_buckets;        // 0: none, or even, 2 … 65536; default 256
  std::optional<int64_t> max_relative_positions;  // 1 … 2^20, above position_buckets/2 + 1; default 512
  std::optional<bool> c2p;                        // default true
  std::optional<bool> p2c;                        // default true
  WeightRef key_positions;                        // [heads, 2·span, d], of c2p; without weights there are only indices
  WeightRef query_positions;                      // likewise, of p2c
  friend bool operator==(const DebertaSpec&, const DebertaSpec&) = default;
};

// Transformer-XL (arXiv 1901.02860): u·k_j + (q_i + v)·r[i − j]. r = w_r·sinusoids, or given. Keys after the query have no
// row.
struct TransformerXlSpec {
  int64_t dim = 0;                      // of the sinusoids, even; default: columns of w_r
  std::optional<int64_t> clamp_length;  // distances beyond count as this one; ≥ 1
  std::optional<double> base;           // default 10000
  WeightRef r;                          // [heads, rows, d]: row j is distance rows − 1 − j
  WeightRef w_r;                        // [heads·d, dim]; instead of r
  WeightRef u, v;                       // [heads, d]
  friend bool operator==(const TransformerXlSpec&, const TransformerXlSpec&) = default;
};

// XLNet (arXiv 1906.08237): Transformer-XL's terms over distances of both signs, and (q + r_s_bias)·seg_embed[segment].
struct XlnetSpec {
  int64_t dim = 0;
  std::optional<int64_t> clamp_length;
  std::optional<double> base;
  bool unidirectional = false;
  bool separate_cls = false;     // the first query and the first key have neither position nor segment (Funnel)
  WeightRef r;                   // [heads, rows, d]: row j is distance keys − j
  WeightRef w_r;                 // [heads·d, dim]
  WeightRef r_w_bias, r_r_bias;  // [heads, d]
  WeightRef r_s_bias;            // [heads, d]
  WeightRef seg_embed;           // [2, heads, d]
  WeightRef segments;            // [queries, keys] of 0 (same segment) and 1
  friend bool operator==(const XlnetSpec&, const XlnetSpec&) = default;
};

// Conformer's relative positions: Transformer-XL's terms over distances keys − 1 … −(keys − 1), sinusoids interleaved.
struct ConformerSpec {
  int64_t dim = 0;
  std::optional<double> base;
  int64_t num_heads = 0;        // where neither r nor u nor v says it; else 0
  bool concatenated = false;    // sines, then cosines
  bool base_inclusive = false;  // frequencies base^(−i/(dim/2 − 1)): the last is 1/base (Gemma's sound encoders)
  WeightRef r;                  // [heads, 2·n − 1, d]: row j is distance n − 1 − j
  WeightRef w_r;                // [heads·d, dim]
  WeightRef u, v;               // [heads, d]
  friend bool operator==(const ConformerSpec&, const ConformerSpec&) = default;
};

// Contextual positions (arXiv 2405.18719): p_ij = Σ_{k=j}^{i} σ(q_i·k_k), held to max_positions − 1; q·e[p], linear between
// whole p. Keys after the query are hidden.
struct CopeSpec {
  int64_t max_positions = 0;  // 2 … 65536; default: columns of e
  WeightRef e;                // [d, max_positions] or [heads, d, max_positions]
  friend bool operator==(const CopeSpec&, const CopeSpec&) = default;
};

// SAM and ViTDet: q·R_h[Δy] + q·R_w[Δx] over a grid of queries and one of keys, row by row, tables resized linearly to
// 2·max(queries, keys) − 1 rows along each axis. Added after the scale.
struct DecomposedSpec {
  int64_t query_height = 0;  // 1 … 4096
  int64_t query_width = 0;
  int64_t key_height = 0;  // default: the query's
  int64_t key_width = 0;
  WeightRef rel_pos_h, rel_pos_w;  // [rows, d]
  friend bool operator==(const DecomposedSpec&, const DecomposedSpec&) = default;
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_SPEC_TERMS_H_
