#include "server/fingerprint.h"

#include <openssl/evp.h>

#include <cstddef>

namespace phasor::server {
namespace {

// What follows the plan in the hashed bytes.
enum class Content : uint8_t { kPlan = 0, kTable = 1, kBias = 2 };
enum class Rows : uint8_t { kRange = 1, kIds = 2 };

// The hashed bytes: every field little-endian and of a fixed size, or preceded by its length, so that different contents
// never spell the same bytes.
class Writer {
 public:
  Writer(std::string_view plan_key, Content content) {
    Int(kNumericsVersion);
    Int(static_cast<int64_t>(plan_key.size()));
    bytes_.append(plan_key);
    Byte(static_cast<uint8_t>(content));
  }

  void Byte(uint8_t value) { bytes_.push_back(static_cast<char>(value)); }
  void Int(int64_t value) {
    for (int shift = 0; shift < 64; shift += 8) Byte(static_cast<uint8_t>(static_cast<uint64_t>(value) >> shift));
  }

  std::string Hash() const { return Sha256(bytes_); }

 private:
  std::string bytes_;
};

bool EvenlySpaced(const PositionSet& positions, int64_t* stride) {
  if (positions.ids.empty()) {
    *stride = positions.stride;
    return true;
  }
  *stride = positions.count > 1 ? positions.ids[1] - positions.ids[0] : 1;
  for (size_t i = 2; i < positions.ids.size(); ++i) {
    if (positions.ids[i] - positions.ids[i - 1] != *stride) return false;
  }
  return true;
}

void WritePositions(const TableContent& content, Writer& writer) {
  const PositionSet& positions = *content.positions;
  int64_t stride = 1;
  writer.Int(positions.count);
  if (EvenlySpaced(positions, &stride)) {
    writer.Byte(static_cast<uint8_t>(Rows::kRange));
    writer.Int(positions.count == 0 ? 0 : positions.at(0) + content.position_offset);
    writer.Int(positions.count <= 1 ? 1 : stride);
    return;
  }
  writer.Byte(static_cast<uint8_t>(Rows::kIds));
  for (int64_t id : positions.ids) writer.Int(id + content.position_offset);
}

}  // namespace

std::string Sha256(std::string_view bytes) {
  std::string digest(32, '\0');
  unsigned int size = 0;
  EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()), &size, EVP_sha256(), nullptr);
  return digest;
}

std::string TableFingerprint(std::string_view plan_key, const TableContent& content, DType dtype) {
  Writer writer(plan_key, Content::kTable);
  WritePositions(content, writer);
  writer.Byte(content.zero_row ? 1 : 0);
  writer.Int(content.zero_row.value_or(0));
  writer.Byte(content.inverse ? 1 : 0);
  writer.Byte(content.include_inv_freq ? 1 : 0);
  writer.Byte(static_cast<uint8_t>(dtype));
  writer.Byte(static_cast<uint8_t>(content.form));
  writer.Int(content.columns);
  return writer.Hash();
}

std::string BiasFingerprint(std::string_view plan_key, const BiasRequest& request, DType dtype) {
  Writer writer(plan_key, Content::kBias);
  writer.Int(request.queries);
  writer.Int(request.keys);
  writer.Int(request.query_offset);
  writer.Int(request.first_head);
  writer.Int(request.heads);
  writer.Byte(static_cast<uint8_t>(dtype));
  writer.Byte(static_cast<uint8_t>(request.form));
  return writer.Hash();
}

std::string PlanKeyFingerprint(std::string_view plan_key) { return Writer(plan_key, Content::kPlan).Hash(); }

}  // namespace phasor::server
