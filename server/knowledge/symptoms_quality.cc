#include <array>

#include "server/knowledge/symptoms.h"

namespace phasor::server {
namespace {

using Aliases = std::string_view;

constexpr std::array kSpikesAliases{Aliases("loss spikes at the beginning"), Aliases("training loss is high at start"),
                                    Aliases("loss jumps after resuming")};
constexpr std::array kSpikes{
    SymptomStep{
        "The table is another than the checkpoint was trained with: base, scaling or pairing.",
        "Compare the table in use with that of the configuration; the diagnosis names base, width, layout and scaling.",
        "phasor diagnose cos.npy --content cos", "Use the table of the configuration."},
    SymptomStep{
        "The base was read from the wrong key: newer files keep it inside rope_parameters, and a reader that misses it "
        "falls back to 10000 (+0.77 nats were seen, without an error).",
        "The resolved spec shows the base and whether it is a default.", "phasor resolve config.json",
        "Read both places; treat a missing base as an error."},
    SymptomStep{
        "A scaled schedule puts its attention factor on cos and sin twice, or not at all (YaRN with factor 4: 1.1386).",
        "The diagnosis of the table gives the factor.", "phasor diagnose cos.npy --content cos",
        "Multiply cos and sin by the factor once; do not scale the softmax with it again."},
    SymptomStep{"Absolute tables are added without the factor √D on the embeddings, or with it where the model has none.",
                "Compare the norm of an embedding with that of a row of the table, √(D/2).",
                "phasor table sinusoidal dim=512 --positions 0:4", "Follow scale_embedding of the configuration."},
};

constexpr std::array kBeyondAliases{Aliases("quality drops beyond the trained length"), Aliases("random tokens past 4096"),
                                    Aliases("gibberish on long prompts"),
                                    Aliases("perplexity explodes beyond context length"), Aliases("worse beyond length")};
constexpr std::array kBeyond{
    SymptomStep{"Pairs with long wavelengths meet angles that training never showed them. The longest wavelength is "
                "2π·base^((d−2)/d): 54 410 positions for base 10000 and width 128.",
                "Compare the trained length with the wavelengths.",
                "phasor table config.json --positions 0:2 --inv-freq -o t.npz",
                "Use a schedule for longer contexts (YaRN, llama3, LongRoPE), or stay within the trained length."},
    SymptomStep{
        "The scaling of the configuration is not applied, or with another factor or trained length.",
        "The resolved spec shows factor and original_max_position; the diagnosis of the table in use shows what was taken.",
        "phasor resolve config.json", "Apply rope_scaling or rope_parameters as the file says."},
    SymptomStep{"The table is shorter than the context that is admitted: rows past its end are whatever memory holds.",
                "The last row must be that of the last position.", "phasor diagnose cos.npy --content cos",
                "Make as many rows as positions are admitted, or refuse longer requests."},
    SymptomStep{"LongRoPE changed lists in the middle of a sequence, or took the list by capacity and not by length.",
                "Resolve with the length on either side of the switch: cached keys have the other list.",
                "phasor resolve config.json --length 5000",
                "Choose the list once per sequence; on crossing, rotate the cached keys again (phasor apply --rerotate)."},
    SymptomStep{"A sliding window or chunk of the model is not masked.",
                "A query must not see keys further away than the window.",
                "phasor bias alibi num_heads=8 --queries 1 --keys 8192 --causal --sliding-window 4096 -o row.npy",
                "Mask as the layer type says."},
};

constexpr std::array kPortAliases{Aliases("worse after porting to another runtime"),
                                  Aliases("quality drops after conversion"),
                                  Aliases("logits differ from the original model"), Aliases("accuracy falls after export")};
constexpr std::array kPort{
    SymptomStep{
        "Pairs: interleaved (2i, 2i + 1) taken for half-split (i, i + d/2), or the other way round.",
        "Rotate one q with both pairings and compare with the original's.",
        "phasor apply config.json --input q.npy -o rotated.npy",
        "Use the pairing of the checkpoint, or permute Wq and Wk once: new[i] = old[2i], new[i + d/2] = old[2i + 1]."},
    SymptomStep{
        "Base: another default, or a key that was not read (rope_theta, rotary_emb_base, rope_parameters.rope_theta).",
        "The diagnosis of the table gives the base that was used.", "phasor diagnose inv_freq.npy --content inv_freq",
        "Take the base of the resolved spec."},
    SymptomStep{"Rotary width: the exponent over head_dim instead of the rotary width, or partial_rotary_factor dropped.",
                "The last frequency tells: base^(−(d − 2)/d) with d the rotary width.",
                "phasor diagnose inv_freq.npy --content inv_freq", "θ over rotary_dim, pairs within rotary_dim."},
    SymptomStep{"ALiBi slopes for a head count that is no power of two.",
                "For 12 heads: .5 … .0039, then .7071, .3536, .1768, .0884.", "phasor diagnose slopes.npy --content slopes",
                "Use the rule of the authors' code."},
    SymptomStep{"T5: relative_attention_max_distance not read (128 built in), the sign, or the direction.",
                "Compare the bias with the expected spec.", "phasor diagnose bias.npy --content bias",
                "Follow the configuration."},
};

constexpr std::array kTunedAliases{Aliases("fine-tuned model is worse at long context"),
                                   Aliases("long context is worse after tuning")};
constexpr std::array kTuned{
    SymptomStep{"Tuned with one schedule and served with another: the tune's rope_scaling is missing from the served file.",
                "Compare the two configurations field by field.", "phasor compare tuned.json served.json",
                "Serve the configuration that the tune was made with."},
    SymptomStep{"The factor is that of the library's generation: one takes the given factor, another max/original.",
                "The resolved spec warns where factor and lengths disagree.", "phasor resolve tuned.json",
                "Write factor, original_max_position_embeddings and attention_factor all out."},
    SymptomStep{"A static factor also changes short prompts: with YaRN every position is scaled, not only the far ones.",
                "Compare the first positions of the two specs.", "phasor compare base.json tuned.json",
                "Choose the factor per request, frozen for a sequence."},
    SymptomStep{"Tuned in bf16 with positions or angles in bf16: 15 962 becomes 15 936.",
                "The diagnosis of the training table names it.", "phasor diagnose cos.npy --content cos",
                "Make the table in float32 or better, whatever the model's type."},
};

constexpr std::array kFirstAliases{Aliases("first tokens are wrong"), Aliases("the beginning of the output is garbage")};
constexpr std::array kFirst{
    SymptomStep{"Positions start at another number: 1 instead of 0, OPT and BART at 2, RoBERTa at padding index + 1.",
                "The diagnosis of the rows in use gives the first position.",
                "phasor diagnose rows.npy --content sinusoidal", "Use the model's position_offset."},
    SymptomStep{"Packed sequences count on through the pack where the model restarts, or start at 0 for RoBERTa.",
                "Print the ids at the beginning of the second sequence.", "phasor table config.json --positions 0:8",
                "Make ids from cu_seqlens, per sequence, with the model's offset."},
    SymptomStep{"A cache of tables is keyed by the length only, so that a second call with another offset gets the first "
                "one's rows.",
                "Diagnose the table of the second call: its first position must be the new offset.",
                "phasor diagnose cos.npy --content cos", "Put the offset, and everything else, into the key."},
};

constexpr std::array kUpgradeAliases{Aliases("wrong after upgrading the library"), Aliases("results changed after upgrade"),
                                     Aliases("different results with transformers 5")};
constexpr std::array kUpgrade{
    SymptomStep{
        "Keys moved: rope_theta and rope_scaling became rope_parameters. An old reader then takes base 10000; where both "
        "are there, old readers take the top level and new ones the dict.",
        "The resolved spec names where each number comes from, and warns where the two differ.",
        "phasor resolve config.json", "Keep one of the two forms, with the same numbers."},
    SymptomStep{
        "A key inside a nested dict is lost: YaRN's truncate false in a per-layer dict (inv_freq[12] 7.0157e-3 instead of "
        "6.7950e-3 for gpt-oss).",
        "Diagnose the table that the library makes.", "phasor diagnose inv_freq.npy --content inv_freq",
        "Give the frequencies yourself, or keep the key where your version reads it."},
    SymptomStep{
        "The partial factor is ignored or newly read: Llama with partial_rotary_factor .5 has 32 pairs in one version and "
        "64 in the next.",
        "Compare rotary_dim of the two readings.", "phasor compare old.json new.json", "Fix the rotary width in the file."},
    SymptomStep{
        "YaRN's factor: one generation replaces it by max/original, one ignores original_max, one takes it as given.",
        "The resolved spec shows the factor and warns.", "phasor resolve config.json",
        "Make factor equal to max_position_embeddings/original_max_position_embeddings, or pin the version."},
};

constexpr std::array kQuantisedAliases{Aliases("quantized model is worse"), Aliases("worse after quantisation"),
                                       Aliases("quality drops with 4 bit")};
constexpr std::array kQuantised{
    SymptomStep{
        "The converter permuted Wq and Wk for the other pairing, and the runtime rotates with the old one (or the file "
        "says so in another key).",
        "The resolved spec of the file names the pairing, and rows that were permuted.", "phasor resolve model.gguf",
        "Use the pairing of the file's architecture."},
    SymptomStep{"cos and sin, or inv_freq, were quantised or rounded to 16 bits along with the weights.",
                "The diagnosis names frequencies rounded before the phase.",
                "phasor diagnose inv_freq.npy --content inv_freq",
                "Keep frequencies and positions in float32 or better; round the finished table only."},
    SymptomStep{"Frequency divisors of a long-context schedule are missing from the file (rope_freqs, rope scaling keys).",
                "Compare the configuration with the file.", "phasor compare config.json model.gguf",
                "Convert again with the scaling."},
    SymptomStep{"Cached keys are quantised after the rotation and then shifted: the error grows with each shift.",
                "Rotate and shift one key in float32 and compare.",
                "phasor apply config.json --input k.npy --shift 1 -o shifted.npy",
                "Shift from the unrotated or 16-bit key, or rotate at read."},
};

constexpr std::array kList{
    Symptom{"loss_spikes_at_start", "loss spikes at start", kSpikesAliases, kSpikes},
    Symptom{"worse_beyond_length", "worse beyond N tokens", kBeyondAliases, kBeyond},
    Symptom{"quality_drops_after_port", "quality drops after a port", kPortAliases, kPort},
    Symptom{"fine_tuned_long_context_worse", "fine-tuned for long context, and worse", kTunedAliases, kTuned},
    Symptom{"first_tokens_wrong", "first tokens wrong", kFirstAliases, kFirst},
    Symptom{"wrong_after_upgrade", "wrong after an upgrade", kUpgradeAliases, kUpgrade},
    Symptom{"quantised_worse", "quantised model worse", kQuantisedAliases, kQuantised},
};

}  // namespace

std::span<const Symptom> QualitySymptoms() { return kList; }

}  // namespace phasor::server
