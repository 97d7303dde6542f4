#include <array>

#include "server/knowledge/fault_cards.h"

namespace phasor::server {
namespace {

constexpr std::array kCards{
    FaultCard{"positions_in_bf16", "positions were held in bf16, which has no odd numbers above 256 and steps of 2^k beyond",
              "compare rows 257 and 256: equal rows, then a jump", "make positions in int64 or float32 before the product"},
    FaultCard{"positions_in_f16", "positions were held in f16, which has no odd numbers above 2048 and ends at 65504",
              "compare rows 2048 and 2049: equal rows, then a jump",
              "make positions in int64 or float32 before the product"},
    FaultCard{"frequencies_in_bf16",
              "inv_freq was rounded to bf16 before the phase, as when a whole model is cast with its buffers",
              "compare inv_freq with the same values rounded to bf16",
              "keep inv_freq in float32 and cast cos and sin at the end"},
    FaultCard{
        "frequencies_in_f16", "inv_freq was rounded to f16 before the phase, as when a whole model is cast with its buffers",
        "compare inv_freq with the same values rounded to f16", "keep inv_freq in float32 and cast cos and sin at the end"},
    FaultCard{
        "float32_angle",
        "the angle position · inv_freq was rounded to float32, as float32 libraries do; at long positions that moves values",
        "compare with precision exact and with compat_f32 at the last rows",
        "compute the angle in float64 or reduce it exactly; to match such a library ask for compat_f32"},
    FaultCard{"exponent_over_wrong_width",
              "the exponents −2i/d were taken over another width than that of the rotation, such as head_dim with a partial "
              "rotation or the model's width",
              "compare the second frequency with base^(−2/rotary_dim)", "divide exponents by rotary_dim"},
    FaultCard{"pairs_interleaved", "columns stand in interleaved pairs where half-split ones are meant",
              "compare columns 0 and 1: equal means interleaved",
              "repeat the whole half instead of every column, or permute the weights of Q and K"},
    FaultCard{"pairs_half_split", "columns stand in halves where interleaved pairs are meant",
              "compare columns 0 and d/2: equal means half-split",
              "repeat every column instead of the half, or permute the weights of Q and K"},
    FaultCard{"yarn_betas_swapped", "beta_fast and beta_slow changed places, so fast pairs are divided and slow ones kept",
              "the first frequency is 1/factor in place of 1",
              "beta_fast is the larger one (32), beta_slow the smaller (1)"},
    FaultCard{"attention_factor_twice", "cos and sin carry the attention factor squared", "cos of row 0 is A² in place of A",
              "apply the factor once: in the table or in the scores"},
    FaultCard{"attention_factor_missing", "cos and sin lack the attention factor of the schedule",
              "cos of row 0 is 1 in place of A", "multiply cos and sin by A, or the scores by A²"},
    FaultCard{"attention_factor_differs", "cos and sin carry another attention factor than the schedule's",
              "cos of row 0 is the factor in use",
              "see which keys the reader took it from: attention_factor, mscale, factor"},
    FaultCard{"off_by_one_start", "rows start one position early or late, as with positions that count from 1",
              "row 0 of a table from position 0 has cos 1 and sin 0", "count positions from 0, or shift the slice by one"},
    FaultCard{"start_differs", "rows start at another position than was said",
              "compare row 0 with the position it is meant for", "check the offset of the cache or of the slice"},
    FaultCard{"positions_restart",
              "positions fall back inside the table, as with packed sequences or padding that was not counted",
              "look at the row that is named: it repeats an earlier one", "take positions from the mask's running sum"},
    FaultCard{"positions_jump", "positions leap inside the table, as where padding was counted or rows were dropped",
              "look at the row that is named", "take positions from the mask's running sum"},
    FaultCard{"rows_repeated", "rows stand still where positions should go up, as with padding that is all at one position",
              "compare the named row with the one before",
              "take positions from the mask's running sum, and mask the padding"},
    FaultCard{"dynamic_base_of_another_length", "the dynamic base was made for another sequence length",
              "compare the base with that of the length in use",
              "make the table for the length that keys and queries share, and keep it while they are cached"},
    FaultCard{"odd_width", "a column of the last pair is missing", "the width of a rotation is even",
              "make the width even, or rotate one channel less"},
    FaultCard{"rows_truncated", "the last rows were never written", "look at the last rows: zeros",
              "make the table for the whole length"},
    FaultCard{"not_finite", "NaN or infinities", "look at the named row",
              "check positions for overflow in f16, and inv_freq for 0/0"},
    FaultCard{"base_differs", "the frequencies come from another base than is meant", "compare the second frequency",
              "see that rope_theta is read from where the configuration has it"},
    FaultCard{"scaling_differs", "the frequencies come from another scaling than is meant", "compare the last frequency",
              "see that rope_scaling or rope_parameters are read, and for the right layer type"},
};

}  // namespace

std::span<const FaultCard> AngleFaultCards() { return kCards; }

}  // namespace phasor::server
