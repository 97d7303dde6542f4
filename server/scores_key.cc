#include "server/scores_key.h"

#include <utility>
#include <vector>

#include "phasor/v1/encoding.pb.h"

#include "kernels/core/key_bytes.h"
#include "server/fingerprint.h"
#include "server/spec_parser.h"

namespace phasor::server {
namespace {

template <typename T>
std::string DigestOf(const std::vector<T>& list) {
  return Sha256(std::string_view(reinterpret_cast<const char*>(list.data()), list.size() * sizeof(T)));
}

// A message without maps is written the same way whenever its fields are the same.
void Append(const EncodingSpec& spec, KeyBytes& key) {
  v1::EncodingSpec message;
  SpecToProto(spec, &message);
  key.Text(message.SerializeAsString());
}

void Append(const TokenPositions& positions, KeyBytes& key) {
  key.Int(positions.per_batch);
  key.Int(static_cast<int64_t>(positions.axes.size()));
  if (positions.is_plain()) key.Text(DigestOf(positions.ids));
  for (const std::vector<double>& axis : positions.axes) key.Text(DigestOf(axis));
}

}  // namespace

std::string KeyOfScores(const ScoreSettings& s, double scale, std::string_view masking) {
  KeyBytes key;
  key.Text("scores");
  for (const int64_t number :
       {s.shape.queries, s.shape.keys, s.shape.dim, s.key_heads, s.first_head, static_cast<int64_t>(s.tensor_dtype),
        static_cast<int64_t>(s.scale_order), int64_t{s.omit_content}, int64_t{s.softmax},
        static_cast<int64_t>(s.rotation_precision), s.sequence_length.value_or(0), int64_t{s.rotation.has_value()},
        static_cast<int64_t>(s.terms.size()), static_cast<int64_t>(s.biases.size()), int64_t{s.query_scale.has_value()}}) {
    key.Int(number);
  }
  key.Double(scale);
  Append(s.query_positions, key);
  Append(s.key_positions, key);
  for (const std::vector<int64_t>* places : {&s.query_places, &s.key_places}) {
    if (!places->empty()) key.Text(DigestOf(*places));
  }
  if (s.rotation) Append(*s.rotation, key);
  for (const EncodingSpec& term : s.terms) Append(term, key);
  for (const EncodingSpec& bias : s.biases) Append(bias, key);
  if (s.query_scale) {
    key.Int(static_cast<int64_t>(s.query_scale->rule));
    key.Double(s.query_scale->constant);
    key.Double(s.query_scale->coefficient);
    for (const int64_t number : {s.query_scale->training_length, s.query_scale->period, s.query_scale->shift}) {
      key.Int(number);
    }
  }
  key.Text(masking);
  return std::move(key).Take();
}

}  // namespace phasor::server
