// Every limit on what a caller can ask for, in one table: flags, checks, error texts and GetServerInfo all read it.
#ifndef PHASOR_SERVER_LIMITS_H_
#define PHASOR_SERVER_LIMITS_H_

#include <cstdint>
#include <span>
#include <string_view>

namespace phasor::server {

struct Limits {
  int64_t max_batch_items = 1024;
  int64_t max_tensors_per_item = 16;
  int64_t max_item_elements = int64_t{1} << 30;
  int64_t max_item_bytes = int64_t{1} << 30;                 // payload of one item, either way
  int64_t max_total_bytes = (int64_t{1} << 31) - (1 << 21);  // payload of one answer, all items
  int64_t max_request_bytes = int64_t{256} << 20;            // payload of one request; gRPC's own limit is this + 1 MiB
  int64_t max_position = (int64_t{1} << 31) - 1;             // largest |position|
  int64_t max_positions = int64_t{1} << 24;                  // rows or tokens of one item
  int64_t max_heads = 65536;
  int64_t max_call_pairs = 1 << 20;                  // frequencies and slopes of one call: what its plans cost
  int64_t max_stream_bytes = int64_t{1} << 40;       // payload of one item of a stream
  int64_t max_score_elements = 1 << 26;              // attention scores of one item
  int64_t max_function_products = int64_t{1} << 37;  // of the learned functions of one item
  int64_t max_config_bytes = 4 << 20;
  int64_t max_upload_bytes = int64_t{1} << 30;
  int64_t max_queue = 1024;  // calls waiting for a worker
  int64_t max_inflight_requests = 256;
  int64_t max_inflight_bytes = int64_t{4} << 30;
};

// One row of the table.
struct LimitRow {
  std::string_view name;  // "max_batch_items": the flag is --max-batch-items
  int64_t Limits::* field;
  std::string_view unit;     // "items", "bytes", "elements", "positions", "heads", "pairs", "requests"
  std::string_view meaning;  // what it bounds, for help texts
  int64_t lowest;            // smallest and largest value that the flag takes
  int64_t highest;
};

std::span<const LimitRow> LimitRows();

}  // namespace phasor::server

#endif  // PHASOR_SERVER_LIMITS_H_
