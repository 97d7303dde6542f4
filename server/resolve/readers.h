// The readers that the family tables point at, by file.
#ifndef PHASOR_SERVER_RESOLVE_READERS_H_
#define PHASOR_SERVER_RESOLVE_READERS_H_

#include "server/resolve/family.h"

namespace phasor::server {

// families_rope.cc: one rotary schedule, or one for each layer type by the file's own dicts.
void ReadRope(const Model& model, ModelEncoding& out);
void ReadGptJ(const Model& model, ModelEncoding& out);      // rotary_dim, whose class default is 64
void ReadNeoX(const Model& model, ModelEncoding& out);      // rotary_emb_base; rope_theta is not looked at
void ReadChatGlm(const Model& model, ModelEncoding& out);   // rope_ratio
void ReadQwen1(const Model& model, ModelEncoding& out);     // use_dynamic_ntk, use_logn_attn
void ReadNomic(const Model& model, ModelEncoding& out);     // rotary_emb_*
void ReadDbrx(const Model& model, ModelEncoding& out);      // attn_config
void ReadNanoChat(const Model& model, ModelEncoding& out);  // turns backwards
void ReadMla(const Model& model, ModelEncoding& out);       // a rotary slice beside a wider head

// families_grok.cc: Grok, whose schedule's keys stand at the top level.
void ReadGrok(const Model& model, ModelEncoding& out);

// families_layers.cc: layer types that differ by class code.
void ReadGemma3(const Model& model, ModelEncoding& out);   // 5:1, second base for local layers
void ReadGemma3n(const Model& model, ModelEncoding& out);  // 4:1
void ReadGemma4(const Model& model, ModelEncoding& out);   // global_head_dim
void ReadModernBert(const Model& model, ModelEncoding& out);
void ReadOlmo3(const Model& model, ModelEncoding& out);     // scaling reaches the global layers only
void ReadCohere2(const Model& model, ModelEncoding& out);   // global layers do not rotate
void ReadExaone4(const Model& model, ModelEncoding& out);   // the same, when there is a sliding window
void ReadNopeList(const Model& model, ModelEncoding& out);  // SmolLM3: no_rope_layers
void ReadLlama4(const Model& model, ModelEncoding& out);    // the same, with query scaling
void ReadDeepseekV4(const Model& model, ModelEncoding& out);
void ReadSecondBase(const Model& model, ModelEncoding& out);  // rope_local_base_freq, swa_rope_theta of other classes

// families_slices.cc: layer types with widths and heads of their own, and keys that list a value for every layer.
void ReadStep3p5(const Model& model, ModelEncoding& out);    // rope_theta and partial_rotary_factors by layer
void ReadUltraBert(const Model& model, ModelEncoding& out);  // rope_theta by layer
void ReadDots3Note(const Model& model, ModelEncoding& out);  // MLA slices, swa_* keys

// Where a class keeps the numbers of T5's buckets.
struct BucketKeys {
  std::string_view num_buckets = "relative_attention_num_buckets";
  std::string_view max_distance = "relative_attention_max_distance";
  int64_t default_buckets = 32, default_distance = 128;
  std::string_view table = {};  // what the table is made from; empty: T5's own name
  double scale = 1;             // factor on the table
};

// families_bias.cc: ALiBi, and classes that are ALiBi or RoPE by a flag.
// T5's buckets as a layer type; they look both ways but in one that is named decoder.
void AddBuckets(const Model& model, std::string layer_type, const BucketKeys& keys, ModelEncoding& out);
void ReadAlibi(const Model& model, ModelEncoding& out);
void ReadFalcon(const Model& model, ModelEncoding& out);
void ReadBaichuan(const Model& model, ModelEncoding& out);
void ReadMpt(const Model& model, ModelEncoding& out);
void ReadBert(const Model& model, ModelEncoding& out);  // position_embedding_type
void ReadT5(const Model& model, ModelEncoding& out);
void ReadMpnet(const Model& model, ModelEncoding& out);     // T5's buckets and a table
void ReadWavLm(const Model& model, ModelEncoding& out);     // T5's buckets with a gate
void ReadLayoutLm(const Model& model, ModelEncoding& out);  // the same of tokens and of boxes, beside a table
void ReadCpmAnt(const Model& model, ModelEncoding& out);    // the same inside a segment

// families_window.cc: biases over the offsets inside an image.
void ReadSwin(const Model& model, ModelEncoding& out);  // both versions, a layer type for every stage
void ReadBeit(const Model& model, ModelEncoding& out);
void ReadSam(const Model& model, ModelEncoding& out);  // rows and columns apart, whole images and windows

// families_terms.cc: terms of the scores.
void ReadDeberta(const Model& model, ModelEncoding& out);
void ReadXlnet(const Model& model, ModelEncoding& out);
void ReadTransformerXl(const Model& model, ModelEncoding& out);
// Whether position_embedding_type is one of BERT's relative ones, which are then read.
bool ReadShawType(const Model& model, std::string_view type, ModelEncoding& out);

// families_relative.cc: the same where classes differ from the papers.
void ReadFunnel(const Model& model, ModelEncoding& out);
void ReadFastSpeech2(const Model& model, ModelEncoding& out);  // two Conformers
void ReadGemmaSound(const Model& model, ModelEncoding& out);   // a Conformer without vectors
void ReadInkling(const Model& model, ModelEncoding& out);      // biases by queries of their own

// families_boxes.cc: T5's buckets along texts and between boxes.
void ReadUdop(const Model& model, ModelEncoding& out);

// families_speech.cc: the same, of sound.
void ReadConformer(const Model& model, ModelEncoding& out);  // Parakeet and its like
void ReadWav2Vec2(const Model& model, ModelEncoding& out);   // position_embeddings_type
void ReadSpeechT5(const Model& model, ModelEncoding& out);
void AddSeamlessSpeech(const Model& model, ModelEncoding& out);  // its sound encoder

// families_absolute.cc: sinusoids and learned tables.
void ReadFairseqSinusoid(const Model& model, ModelEncoding& out);
void ReadMarian(const Model& model, ModelEncoding& out);
void ReadWhisper(const Model& model, ModelEncoding& out);
void ReadSinusoid(const Model& model, ModelEncoding& out);  // by the family's rule
void ReadSeamless(const Model& model, ModelEncoding& out);
void ReadFlorenceVision(const Model& model, ModelEncoding& out);
void ReadXlm(const Model& model, ModelEncoding& out);
void ReadDistilBert(const Model& model, ModelEncoding& out);
void ReadDinoV3(const Model& model, ModelEncoding& out);
void ReadNone(const Model& model, ModelEncoding& out);
void ReadGraniteHybrid(const Model& model, ModelEncoding& out);

// families_learned.cc: learned tables.
void ReadLearned(const Model& model, ModelEncoding& out);
// A table with its rows and offsets; the width is the model's where the spec has none.
void AddLearned(const Model& model, std::string layer_type, LearnedSpec spec, ModelEncoding& out);

// families_parts.cc: classes of parts, and classes that only hold others.
void ReadParts(const Model& model, ModelEncoding& out);  // nothing of its own
// base^(−k/pairs), k = 0 … pairs − 1; empty, with a problem, where the base does not serve.
// `from`: where the base comes from.
std::vector<double> AxisFrequencies(const Model& model, double base, int64_t pairs, const NumberSource& from);
void ReadVisionRope(const Model& model, ModelEncoding& out);  // two axes
void ReadOther(const Model& model, ModelEncoding& out);       // a convolution, or a form of its own, of no served kind
void ReadClvp(const Model& model, ModelEncoding& out);        // a width from projection_dim

// families_by_code.cc: classes whose code says more than their keys.
void ReadLlama4Vision(const Model& model, ModelEncoding& out);   // two axes from 1, and a table
void ReadMllamaVision(const Model& model, ModelEncoding& out);   // gated tables of patches and tiles
void ReadVjepa2(const Model& model, ModelEncoding& out);         // three axes; channels of a pair turn apart
void ReadCohereCompass(const Model& model, ModelEncoding& out);  // a dict per layer type, without a default
void ReadZamba2(const Model& model, ModelEncoding& out);         // use_mem_rope
void ReadEsmFold2(const Model& model, ModelEncoding& out);       // pairs by distances, atoms by coordinates

// families_features.cc: places of an image by coordinates.
void ReadDetr(const Model& model, ModelEncoding& out);            // sines over the feature map from 1 to 2π
void ReadDeformableDetr(const Model& model, ModelEncoding& out);  // from ½
void ReadGroundingDino(const Model& model, ModelEncoding& out);   // a temperature of 20
void ReadDabDetr(const Model& model, ModelEncoding& out);         // a temperature for each axis
void ReadRtDetr(const Model& model, ModelEncoding& out);          // whole coordinates from 0
void ReadMaskFormer(const Model& model, ModelEncoding& out);      // DETR's, of the decoder's width
void ReadMask2Former(const Model& model, ModelEncoding& out);     // DETR's, twice
void ReadOneFormer(const Model& model, ModelEncoding& out);
void ReadSamNeck(const Model& model, ModelEncoding& out);       // DETR's, of the feature pyramid
void ReadSamModel(const Model& model, ModelEncoding& out);      // random features of points
void ReadSamVideo(const Model& model, ModelEncoding& out);      // with a memory's rotation and sines
void ReadSamPrompts(const Model& model, ModelEncoding& out);    // the prompt encoder alone
void ReadSam3Geometry(const Model& model, ModelEncoding& out);  // sines of points
void ReadSam3Decoder(const Model& model, ModelEncoding& out);   // sines of boxes
void ReadLightGlue(const Model& model, ModelEncoding& out);     // angles by a learned matrix

// families_grids.cc: classes with forms of their own.
void ReadHiera(const Model& model, ModelEncoding& out);          // a grid to resize, and one that is repeated
void ReadHunyuanVision(const Model& model, ModelEncoding& out);  // max_image_size
void ReadLoftr(const Model& model, ModelEncoding& out);          // rows and columns turn the whole width
void ReadGraniteSpeech(const Model& model, ModelEncoding& out);  // relative keys inside blocks
void ReadLed(const Model& model, ModelEncoding& out);            // a length for each side
void ReadPhi4Audio(const Model& model, ModelEncoding& out);      // one bias for every distance
void ReadBros(const Model& model, ModelEncoding& out);           // a table, and sines of boxes
void ReadMusicFlamingo(const Model& model, ModelEncoding& out);  // turned by time stamps

// families_convolution.cc: convolutions over features, which are no position encoding.
void ReadConvolution(const Model& model, ModelEncoding& out);
// "kernel 128, groups 16 …": what the class's positional convolution is, by its keys.
std::string ConvolutionText(const Model& model);
// A warning that the class has one beside what its layers have.
void NoteConvolution(const Model& model, ModelEncoding& out);

// families_towers.cc: image towers whose stages differ, and the step of a diffusion head.
void ReadPvt(const Model& model, ModelEncoding& out);
void ReadSegGpt(const Model& model, ModelEncoding& out);
void ReadDinat(const Model& model, ModelEncoding& out);
void ReadDiffusionStep(const Model& model, ModelEncoding& out);

// families_timm.cc: models that the file names by timm's name.
void ReadTimm(const Model& model, ModelEncoding& out);

// families_unknown.cc: no table entry; what the keys say, as LLaMA reads them, with a warning. No key, no rotation.
void ReadUnknown(const Model& model, ModelEncoding& out);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RESOLVE_READERS_H_
