// What the readers of model families share: the table of class defaults, the model that is being read, and the facts about
// heads and lengths that every layer carries.
#ifndef PHASOR_SERVER_RESOLVE_FAMILY_H_
#define PHASOR_SERVER_RESOLVE_FAMILY_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/encodings/spec.h"
#include "server/resolve/json_reader.h"
#include "server/resolve/model_config.h"

namespace phasor::server {

struct Model;

// How a class scales q·k.
enum class SoftmaxRule : uint8_t {
  kHeadDim,                  // head_dim^−½, or attention_multiplier where the file gives one
  kQueryPreAttention,        // query_pre_attn_scalar^−½, whose class default is 256
  kQueryPreAttentionOrHead,  // query_pre_attn_scalar^−½, whose class default is head_dim
  kAttentionMultiplier,      // attention_multiplier, whose class default is Family::multiplier
  kOne,                      // 1: q and k are normed
};

// Which sinusoids a class makes.
enum class SinusoidRule : uint8_t {
  kNone,
  kPaper,         // sines, then cosines
  kInterleaved,   // sine, cosine, sine …
  kEndpoint,      // sines, then cosines; the last frequency is 1/base
  kFairseq,       // the same, from row padding + 1 on; the padding row is zeros
  kCosinesFirst,  // cosines, then sines; the last frequency is 1/base
};

// How a learned table is laid out.
enum class LearnedRule : uint8_t {
  kUnknown,        // not known: the kind is named, without a spec
  kPlain,          // as many rows as positions
  kPadding,        // from row padding + 1 on, as many rows as positions; padded tokens read the padding row (RoBERTa)
  kTwoMore,        // from row 2 on, two rows more than positions (BART)
  kTwoMoreMasked,  // the same; padded tokens read row 1 (OPT)
  kImage,          // one row per patch after `extra_rows` for class tokens
  kImageFirst,     // one row per patch before `extra_rows` for class tokens
};

// How an image tower shares its pairs between rows and columns.
enum class GridRule : uint8_t {
  kReset,            // rows, then columns, with the same frequencies (Qwen)
  kResetWidthFirst,  // columns, then rows
  kResetThree,       // time, rows, columns, a third of the head each
  kSplit,            // rows take every second frequency, columns the others (Pixtral)
  kTwinsWidthFirst,  // every frequency twice in a row: column, row (Kimi)
  kHalvesOfTheHead,  // rows turn the first half of the head by itself, columns the second (Gemma 4)
};

// One model class: its reader and the defaults that live in its code only. 0 or empty: the class has none.
struct Family {
  std::string_view model_type;  // lower case, without '_', '-' and a trailing "text"
  void (*read)(const Model& model, ModelEncoding& out) = nullptr;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;  // 0: as many as heads
  int64_t layers = 0;
  int64_t head_dim = 0;  // 0: hidden / heads
  int64_t max_position = 0;
  double base = 10000;
  double partial = 1;  // share of head_dim that rotates
  Pairing pairing = Pairing::kHalfSplit;
  SoftmaxRule softmax = SoftmaxRule::kHeadDim;
  double base_since_5 = 0;       // where transformers 5 changed the default
  int64_t qk_nope_head_dim = 0;  // MLA
  int64_t qk_rope_head_dim = 0;
  std::string_view rope_parameters = {};  // JSON of the class's own dict, used when the file has none
  bool mrope = false;                     // several axes, whether or not the file has sections
  std::array<int64_t, 4> sections{};      // pairs per axis of the class's default; none: equal shares of `axes`
  int axes = 0;
  AxisLayout axis_layout = AxisLayout::kChunked;
  GridRule grid = GridRule::kReset;  // of an image tower
  SinusoidRule sinusoid = SinusoidRule::kNone;
  std::string_view width_key = {};  // of a table, where it is not the hidden size
  int64_t width = 0;                // the class's default of it
  LearnedRule learned = LearnedRule::kUnknown;
  std::string_view rows_key = {};  // of a learned table, where it is not one of the usual names
  int64_t extra_rows = 0;          // of an image's table: class tokens
  std::string_view other = {};     // what a class of no served kind has
  double multiplier = 1;           // class default of attention_multiplier
  bool rope_interleave = false;    // whether the class reads that key: false turns halves
  int64_t padding = 1;             // the class's padding index, where kPadding counts from it
  // What a class with a language model of another class has beside it; `model.text` is the file then.
  void (*beside)(const Model& model, ModelEncoding& out) = nullptr;
  // The class's defaults of rows_key, and of image_size and patch_size, [height, width] in pixels.
  int64_t rows = 0;
  std::array<int64_t, 2> image{};
  std::array<int64_t, 2> patch{};
};

// Every known class. Names are unique.
std::span<const Family> RopeFamilies();
std::span<const Family> OtherFamilies();
std::span<const Family> LearnedFamilies();
// Generated, where those above have no row.
std::span<const Family> TransformersFamilies1();
std::span<const Family> TransformersFamilies2();
std::span<const Family> TransformersFamilies3();

// A model_type as the tables spell it.
std::string NormalisedFamilyName(std::string_view name);

// The family of a model_type or of an architecture's name ("GPTNeoXForCausalLM"), or null.
const Family* FindFamily(std::string_view name);
const Family* FindFamilyOfArchitecture(std::string_view architecture);

// Where a number comes from: the path of the key that it was read from, and how it was made where it is not that key's own.
struct NumberSource {
  std::string path;
  std::string made = {};  // " (hidden_size 96 / num_attention_heads 5)", " (default of class gpt2)"; may be empty
};

// A configuration while it is being read.
struct Model {
  JsonObject file;        // the whole file
  JsonObject text;        // the part that describes the language model: text_config and its like, or the file itself
  const Family* family;   // never null
  std::string type_name;  // for messages: "class llama"
  Problems* problems;

  // ---- Sizes, by every name that is in use; absent ones come from the class, with a note in `defaults`.
  int64_t Hidden(std::vector<Note>& defaults) const;     // 0: not said
  int64_t Heads(std::vector<Note>& defaults) const;      // 0: not said
  int64_t KvHeads(std::vector<Note>& defaults) const;    // 0: not said
  int64_t NumLayers(std::vector<Note>& defaults) const;  // fails when needed and not said; ≤ kMaxLayers
  std::string_view MaxPositionKey() const;               // empty: the file does not say
  int64_t MaxPosition() const;                           // 0: not said; the class's default counts
  // At least 1, or 0 after an error: neither the file nor the class says, or a width below the number of heads.
  // `override_key` (may be empty) goes first when it is there.
  int64_t HeadDim(std::vector<Note>& defaults, std::string_view override_key = {}) const;
  NumberSource HeadDimFrom(std::string_view override_key = {}) const;  // what an error about it blames
  // What an error about the value of `key` (or "dict.key") blames: the name under which the file has it (d_model for
  // hidden_size …), else the class's default.
  NumberSource From(std::string_view key) const;
  // Fails with the violation of a spec, as one of the value that comes from there.
  void Blame(const NumberSource& from, const SpecError& error) const;

  // Whether the file has any key that only rotating models have.
  bool HasRopeKeys() const;
};

inline constexpr int64_t kMaxLayers = 10000;

// Heads, lengths and the softmax scale of a layer that is otherwise complete.
void FillFacts(const Model& model, int64_t head_dim, LayerEncoding& layer);

// The notes about heads and key heads of layers that are complete: each once, those that a class's own keys overruled left
// out, and one where there are as many key heads as heads because nothing says otherwise.
void ListHeads(const Model& model, std::vector<LayerEncoding>& layers);

// A layer of a kind that is recognised but not served.
LayerEncoding Unserved(const Model& model, std::string layer_type, std::string_view what);

// "10000 (default of class llama)".
std::string DefaultText(const Model& model, std::string_view value);

// value^−½, correctly rounded to within one unit in the last place.
double InverseSqrt(double value);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RESOLVE_FAMILY_H_
