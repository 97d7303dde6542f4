#include <array>

#include "server/knowledge/fault_cards.h"

namespace phasor::server {
namespace {

constexpr std::array kCards{
    FaultCard{
        "alibi_plain_geometric_slopes",
        "One geometric sequence 2^(−max_bias·(h + 1)/H) for a head count that is no power of two. The rule takes the "
        "largest power of two p ≤ H: p slopes 2^(−max_bias·(h + 1)/p), then 2^(−max_bias·(2k + 1)/(2p)).",
        "For 12 heads the slopes are .5, .25, … .00390625, .7071, .3536, .1768, .0884, not .63, .397, .25 …",
        "Take the slopes of `phasor bias alibi num_heads=H`, or the rule above. A model trained with the plain sequence "
        "keeps it: give its slopes as they are."},
    FaultCard{
        "alibi_slopes_step_in_exponent",
        "The exponent was counted up by 1 from 8: 2^(−8/H), 2^(−9/H) … It counts up by 8: 2^(−8/H), 2^(−16/H) … 2^(−8).",
        "For 8 heads the slopes are .5, .25, .125 … .00390625, not .5, .4585, .4204 …",
        "slope_h = 2^(−8·(h + 1)/H) for a power of two H."},
    FaultCard{
        "alibi_slopes_from_local_heads",
        "The slopes were made from the heads of one shard. They depend on the head count of the whole model.",
        "Print the slopes of two ranks: they must differ. Rank r has slopes r·n … r·n + n − 1 of the list for all heads.",
        "Make the list for the global head count and cut the shard's part out of it (`phasor bias … --heads FIRST:COUNT`)."},
    FaultCard{
        "alibi_sign_flipped",
        "The sign is the wrong way round: slope·(query − key) ≥ 0 for keys of the past, so that distance is rewarded. Also "
        "seen where queries and keys changed places.",
        "The bias of key 0 for the last query must be the lowest of its row, not the highest.",
        "Use −slope·|query − key|, or slope·(key − query) with a causal mask. The slopes themselves are positive."},
    FaultCard{"alibi_first_slope_wrong",
              "The exponent starts at 0 or 2 instead of 1: slope_0 must be 2^(−max_bias/p), p the largest power of two ≤ H.",
              "For 8 heads the first slope is .5 and the last 2^−8.", "Start at h + 1 = 1 for the first head."},
    FaultCard{
        "alibi_slopes_rounded",
        "The slopes were rounded to 16 bits before they were multiplied by the distance, so the error grows with it.",
        "Divide the bias at the largest distance by the distance and compare with the exact slope: .8409 becomes .8398 in "
        "bf16.",
        "Multiply in float32 and round the product. Falcon's own code rounds: there slope_dtype bf16 is right."},
    FaultCard{
        "bias_distances_rounded",
        "Positions or distances were rounded to 16 bits before they were multiplied: whole numbers above 256 do not fit "
        "bf16, above 2048 not f16.",
        "Neighbouring distances above 256 (2048) have the same bias, in steps of 2, 4, 8 …",
        "Keep positions in int64 or float32 until the product is made."},
    FaultCard{"bias_scaled",
              "The bias was multiplied by √d or 1/√d along with the scores (d: head width), or not where the model does it.",
              "Compare one value with the spec's: the ratio is the same everywhere.",
              "Add the bias after q·k is scaled. Falcon scales scores and bias alike (ALiBi's `scale` 1/√d); x-transformers "
              "multiplies T5's bias by √d."},
    FaultCard{
        "bias_not_bottom_right_aligned",
        "The last query does not stand at the last key: the offset of cached keys is missing or off. With n queries and m "
        "keys the distance is key − (query + m − n).",
        "Distance 0 (the largest bias of ALiBi, KERPLE and Sandwich) must be in the last column of the last row.",
        "Build the bias for the keys' length, with the position of the first query (`phasor bias … --query-offset`)."},
    FaultCard{
        "bias_without_distance",
        "The bias is the same at every distance, so it does nothing. Seen where a decode step builds it from the query's "
        "length (one query: distance 0 only), where KERPLE starts at a = 0, and where T5's sign hides the past.",
        "Print the last row of the bias for one query and many keys: it must fall towards key 0.",
        "Build it over the length of the cached keys; the row of a step equals the last row of the full matrix."},
    FaultCard{"bias_clamped", "The bias was cut off at a lowest value, so that far keys are all equally far.",
              "The values stop falling at one number, the same in every head that reaches it.",
              "Remove the clamp, or the clip of the distance. Only T5, Shaw and DeBERTa share a value among far distances."},
    FaultCard{"bias_not_finite", "NaN, or rows in which every key is masked: the softmax of a row of −inf is NaN.",
              "Count NaN and rows without a finite value.",
              "Keep one key of every row, or write 0 for the whole row after the softmax; do not multiply −inf by 0."},
    FaultCard{"bias_rows_repeated", "A row is a copy of the row before it: the query's position stood still.",
              "Row n + 1 must be row n moved right by one key.", "Make the positions of the queries anew."},
    FaultCard{"sandwich_term_from_zero",
              "The sum starts at k = 0, whose frequency is 1 radian a position; Sandwich starts at k = 1.",
              "For 8 heads, width 128 and the first head the bias at distance 1 is −1.446619.",
              "Sum k = 1 … dim/2 of cos(Δ·base^(−2k/dim)), minus dim/2."},
    FaultCard{
        "sandwich_without_cosine",
        "The distances times frequencies were summed without the cosine, as one revision of NeMo does: a straight line.",
        "For 8 heads, width 128 and the first head the bias at distance 512 is −47.961317.",
        "Take the cosine of each term before the sum."},
    FaultCard{"t5_sign_flipped", "The relative position was taken as query − key. T5's is key − query (memory minus query).",
              "Bidirectional: distance +1 must have row num_buckets/2 + 1 of the table, distance −1 row 1.",
              "relative_position = key position − query position."},
    FaultCard{"t5_directions_swapped",
              "A decoder's buckets were made for an encoder, or the other way round (`bidirectional`).",
              "Causal: every key after the query has row 0. Bidirectional: row num_buckets/2 and up.",
              "bidirectional = true in T5's encoder, false in its decoder."},
    FaultCard{"t5_max_distance_wrong",
              "Another max_distance than the model's. Some runtimes have 128 built in and do not read "
              "relative_attention_max_distance.",
              "Look from which distance on the bias stays the same.", "Read relative_attention_max_distance."},
    FaultCard{"t5_num_buckets_wrong", "Another number of buckets than the model's.",
              "Bidirectional: the first num_buckets/4 distances have a bucket each; causal: num_buckets/2.",
              "Read relative_attention_num_buckets."},
    FaultCard{
        "t5_with_deberta_buckets",
        "DeBERTa's logarithmic buckets (rounded up, query − key) with T5's table, which rounds down and takes key − query.",
        "The first distances with a shared bucket differ: T5's begin at num_buckets/4, DeBERTa's after position_buckets/2.",
        "Use the buckets of the model that the table comes from."},
    FaultCard{"bias_heads_in_other_order", "The values are right, but belong to other heads.",
              "Compare head by head: each head equals another head of the spec.",
              "Keep the spec's order of heads; a shard needs its first head (`--heads FIRST:COUNT`)."},
    FaultCard{"bias_differs_from_expected",
              "The numbers are not those of the expected spec, and follow none of the known faults.",
              "`phasor bias` of the expected spec gives the right numbers; compare them value by value.",
              "Look at the hypotheses for what the table is instead."},
};

}  // namespace

std::span<const FaultCard> BiasFaultCards() { return kCards; }

}  // namespace phasor::server
