// In which forms an encoding can be held or sent, and what each takes.
#ifndef PHASOR_SERVER_KNOWLEDGE_HELD_FORMS_H_
#define PHASOR_SERVER_KNOWLEDGE_HELD_FORMS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/encodings/encoding.h"

namespace phasor::server {

// How much is asked for. Lengths up to 2^31, so sizes are doubles: exact up to 2^53, and never overflowing.
struct Load {
  int64_t batch = 1;
  int64_t queries = 1;  // of a sequence, the last of its keys
  int64_t keys = 1;
  int64_t element_bytes = 4;
};

// What a form is.
enum class HeldWhat : uint8_t { kInvFreq, kTable, kBias, kSlopes, kWeights };
std::string_view NameOf(HeldWhat what);  // "inv_freq", "table", "bias", "slopes", "weights"

struct HeldForm {
  HeldWhat what = HeldWhat::kTable;
  std::string form;         // "half width", "duplicated", "cos‖sin", "rows", "full", "vector", "last query", …
  double bytes = 0;         // one result
  double cached_bytes = 0;  // tiles that the server keeps for it
  double operations = 0;    // to make it once
  std::string note;
};

// The rows of a tile of the server's cache (kTileRows of table_cache.h, which this room does not include).
inline constexpr int64_t kTileRowsHeld = 4096;

// Every form, the one to take first where the kernel may choose. Empty where nothing is held: terms of which only a
// checkpoint knows the size.
std::vector<HeldForm> FormsOf(const EncodingSpec& canonical, const Plan& plan, const Load& load);

// "1.50 GiB".
std::string BytesText(double bytes);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_HELD_FORMS_H_
