// What general.architecture means for positions: facts that are in no key of the file, only in the programs that write and
// read such files. Source: llama.cpp (src/llama-model.cpp llama_model_rope_type, src/models, conversion; the copy in
// llama-cpp-python 0.3.36) and the names of the gguf package 0.19.0.
#ifndef PHASOR_SERVER_RESOLVE_GGUF_ARCHITECTURES_H_
#define PHASOR_SERVER_RESOLVE_GGUF_ARCHITECTURES_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/encodings/spec.h"

namespace phasor::server {

enum class GgufPositions : uint8_t {
  kRope,
  kAlibi,              // max_alibi_bias, 8 where no key says so
  kAlibiByKey,         // max_alibi_bias; none, or 0: a learned table
  kAlibiFrom40Layers,  // Baichuan: 32 layers rotate, 40 have ALiBi, and no key says so
  kLearned,
  kBuckets,  // T5
  kNone,     // no positions, or no attention
  kVision,   // an image or audio tower of its own
  kUnknown,  // nothing says
};

// Positions of several axes.
enum class GgufAxes : uint8_t {
  kOne,
  kBySections,   // M-RoPE when dimension_sections has two or more entries above 0
  kMrope,        // sections one after the other
  kInterleaved,  // sections interleaved
  kXd,           // four axes, sections one after the other
};

// Which layers have attention at all.
enum class GgufAttention : uint8_t {
  kAll,
  kWhereHeads,  // not where head_count or head_count_kv is 0
  kInterval,    // every full_attention_interval-th layer
};

// What tells the layers with attention apart.
enum class GgufPattern : uint8_t {
  kOne,          // nothing: a single schedule
  kSliding,      // sliding_attention and full_attention
  kEveryFourth,  // layers 3, 7, 11 … do not rotate: rope_layers and nope_layers
};

enum class GgufSoftmax : uint8_t {
  kHeadDim,   // head_dim^−½, or attention.scale
  kExplicit,  // the same, said in so many words: the largest Gemma 2 and 3 take embedding_length / head_count instead
  kOne,       // 1
  kMla,       // head_dim^−½ · g(yarn multiplier)²
  kGrok,      // attention.output_scale
};

struct GgufArchitecture {
  std::string_view name;  // general.architecture
  GgufPositions positions = GgufPositions::kRope;
  Pairing pairing = Pairing::kHalfSplit;
  bool reordered = false;  // the writer turns rows of q and k from half-split to interleaved
  GgufAxes axes = GgufAxes::kOne;
  GgufAttention attention = GgufAttention::kAll;
  GgufPattern pattern = GgufPattern::kOne;
  // Sliding layers. Without a list, layer i is full when (i + 1) % period == 0, or i % period == 0 where the full one comes
  // first. 0: the file must have the list.
  int64_t period = 0;
  bool full_first = false;
  bool window_decides = false;  // a single schedule when the file has no sliding_window, or 0
  bool full_rotates = true;     // whether layers with full attention rotate
  bool local_base = false;      // sliding layers: base 10000, not the other layers' base, when the file has no freq_base_swa
  bool local_scaled = true;     // whether scaling reaches sliding layers
  bool half_full = false;       // layers with full attention rotate half of dimension_count
  GgufSoftmax softmax = GgufSoftmax::kHeadDim;
  bool slice_last = false;         // MLA: the slice that rotates comes last in the head
  int64_t largest_layers = 0;      // kExplicit: the number of layers of the largest model
  bool truncate = true;            // YaRN's ends are rounded to whole pairs in the model's own code
  bool llama_cpp_reads_it = true;  // false: no program of that project computes this architecture
};

// Every known architecture. Names are unique.
std::span<const GgufArchitecture> GgufArchitectures();

// The entry with that name, or null.
const GgufArchitecture* FindGgufArchitecture(std::string_view name);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RESOLVE_GGUF_ARCHITECTURES_H_
