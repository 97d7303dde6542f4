#include "server/limits.h"

#include <array>

namespace phasor::server {
namespace {

constexpr int64_t kTwoGiB = int64_t{1} << 31;
constexpr int64_t kMiB = int64_t{1} << 20;

constexpr std::array kRows = {
    LimitRow{"max_batch_items", &Limits::max_batch_items, "items", "items of one call", 1, 65536},
    LimitRow{"max_tensors_per_item", &Limits::max_tensors_per_item, "tensors", "tensors of one item of Apply", 1, 256},
    LimitRow{"max_item_elements", &Limits::max_item_elements, "elements", "elements of one array of an item", 1, kTwoGiB},
    LimitRow{"max_item_bytes", &Limits::max_item_bytes, "bytes", "payload of one item, either way", 1, kTwoGiB - 2 * kMiB},
    LimitRow{"max_total_bytes", &Limits::max_total_bytes, "bytes", "payload of one answer, all items together", 1,
             kTwoGiB - 2 * kMiB},
    LimitRow{"max_stream_bytes", &Limits::max_stream_bytes, "bytes", "payload of one item of a stream, made in pieces", 1,
             int64_t{1} << 46},
    LimitRow{"max_request_bytes", &Limits::max_request_bytes, "bytes",
             "payload of one request; the gRPC message may be 1 MiB larger", 1, kTwoGiB - 2 * kMiB},
    LimitRow{"max_position", &Limits::max_position, "positions", "largest magnitude of a position", 1, kTwoGiB - 1},
    LimitRow{"max_positions", &Limits::max_positions, "positions", "rows or tokens of one item", 1, kTwoGiB - 1},
    LimitRow{"max_heads", &Limits::max_heads, "heads", "heads of one item", 1, 65536},
    LimitRow{"max_call_pairs", &Limits::max_call_pairs, "pairs",
             "frequency pairs and slopes of one call, all items together", 1, int64_t{1} << 30},
    LimitRow{"max_score_elements", &Limits::max_score_elements, "scores", "attention scores of one item", 1,
             int64_t{1} << 30},
    LimitRow{"max_function_products", &Limits::max_function_products, "products",
             "multiplications of one item's learned functions (FIRE and the like)", 1, int64_t{1} << 50},
    LimitRow{"max_config_bytes", &Limits::max_config_bytes, "bytes", "a model configuration to resolve", 1, 64 * kMiB},
    LimitRow{"max_upload_bytes", &Limits::max_upload_bytes, "bytes", "content of one upload", 1, int64_t{1} << 40},
    LimitRow{"max_queue", &Limits::max_queue, "requests", "calls taken and not yet answered that wait for a worker", 1,
             1 << 20},
    LimitRow{"max_inflight_requests", &Limits::max_inflight_requests, "requests", "calls being served at once", 1, 65536},
    LimitRow{"max_inflight_bytes", &Limits::max_inflight_bytes, "bytes",
             "requests and answers in memory at once, until they are sent", kMiB, int64_t{1} << 46},
};

}  // namespace

std::span<const LimitRow> LimitRows() { return kRows; }

}  // namespace phasor::server
