#include "server/fingerprint.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernels/core/key_bytes.h"
#include "server/call_context.h"
#include "server/describe.h"

namespace phasor::server {
namespace {

std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> NewHash() {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  return context;
}

// What follows the plan in the hashed bytes.
enum class Content : uint8_t { kPlan = 0, kTable = 1, kBias = 2 };
enum class Rows : uint8_t { kRange = 1, kIds = 2 };

// The hashed bytes after the plan's.
class Writer : public KeyBytes {
 public:
  explicit Writer(Content content) { Byte(static_cast<uint8_t>(content)); }
};

// Where the content itself says all there is to a plan.
const PlanHash& NoPlan() {
  static const auto* hash = new PlanHash("");
  return *hash;
}

// Ids that are hashed at once: some tenths of a millisecond.
constexpr size_t kIdsAtOnce = 8192;
constexpr size_t kIdBytes = sizeof(int64_t);

// Bytes of ids as KeyBytes has them, to out[0, ids.size() · kIdBytes).
void WriteIds(std::span<const int64_t> ids, int64_t offset, char* out) {
  for (const int64_t id : ids) {
    const auto word = static_cast<uint64_t>(id + offset);
    for (size_t i = 0; i < kIdBytes; ++i) *out++ = static_cast<char>(word >> (8 * i));
  }
}

}  // namespace

// What goes on from a plan's hash and is too long to be put together first.
class LongHash {
 public:
  explicit LongHash(const PlanHash& plan) : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    EVP_MD_CTX_copy_ex(context_.get(), plan.state_.get());
  }

  void Add(std::string_view bytes) { EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()); }

  absl::Status AddIds(std::span<const int64_t> ids, int64_t offset, const CallContext* call) {
    std::vector<char> block(std::min(ids.size(), kIdsAtOnce) * kIdBytes);
    for (size_t begin = 0; begin < ids.size(); begin += kIdsAtOnce) {
      if (begin > 0 && call != nullptr) {
        if (absl::Status status = call->Check(); !status.ok()) return status;
      }
      const auto some = ids.subspan(begin, std::min(kIdsAtOnce, ids.size() - begin));
      WriteIds(some, offset, block.data());
      Add({block.data(), some.size() * kIdBytes});
    }
    return absl::OkStatus();
  }

  std::string Finish() {
    std::string digest(32, '\0');
    unsigned int size = 0;
    EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(digest.data()), &size);
    return digest;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

std::string Sha256(std::string_view bytes) {
  std::string digest(32, '\0');
  unsigned int size = 0;
  EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()), &size, EVP_sha256(), nullptr);
  return digest;
}

std::string Sha256(std::span<const std::string_view> parts) {
  const auto context = NewHash();
  std::string digest(32, '\0');
  unsigned int size = 0;
  for (std::string_view part : parts) EVP_DigestUpdate(context.get(), part.data(), part.size());
  EVP_DigestFinal_ex(context.get(), reinterpret_cast<unsigned char*>(digest.data()), &size);
  return digest;
}

PlanHash::PlanHash(std::string_view plan_key) {
  KeyBytes start;
  start.Int(kNumericsVersion);
  start.Text(plan_key);
  auto context = NewHash();
  EVP_DigestUpdate(context.get(), start.bytes().data(), start.bytes().size());
  state_ = std::move(context);
}

std::string PlanHash::With(std::string_view rest) const {
  LongHash hash(*this);
  hash.Add(rest);
  return hash.Finish();
}

absl::StatusOr<std::string> TableFingerprint(const PlanHash& plan, const TableContent& content, DType dtype,
                                             const CallContext* call) {
  const PositionSet& positions = *content.positions;
  int64_t stride = 1;
  const bool is_range = EvenlySpaced(positions, &stride);
  Writer start(Content::kTable);
  start.Int(positions.count);
  start.Byte(static_cast<uint8_t>(is_range ? Rows::kRange : Rows::kIds));
  KeyBytes rest;
  if (is_range) {
    rest.Int(positions.count == 0 ? 0 : positions.at(0) + content.position_offset);
    rest.Int(stride);
  }
  rest.Byte(content.zero_row ? 1 : 0);
  rest.Int(content.zero_row.value_or(0));
  rest.Byte(content.inverse ? 1 : 0);
  rest.Int(static_cast<int64_t>(content.inv_freq.size()));
  for (double f : content.inv_freq) rest.Double(f);
  rest.Byte(static_cast<uint8_t>(dtype));
  rest.Byte(static_cast<uint8_t>(content.form));
  rest.Int(content.columns);

  LongHash hash(plan);
  hash.Add(start.bytes());
  if (!is_range) {
    if (absl::Status status = hash.AddIds(positions.ids, content.position_offset, call); !status.ok()) return status;
  }
  hash.Add(rest.bytes());
  return hash.Finish();
}

std::string BiasFingerprint(const Plan& plan, const BiasRequest& request, DType dtype, const PlanHash* hash) {
  const BiasShape shape = ShapeOfBias(request);
  const auto* lines = std::get_if<BiasPlan>(&plan);
  Writer writer(Content::kBias);
  const bool full = request.form == BiasForm::kFull;
  writer.Byte(full ? 3 : 2);  // axes
  writer.Int(request.heads);
  writer.Int(full ? request.queries : 1);
  writer.Int(full ? request.keys : shape.count);
  writer.Int(shape.first);
  if (lines == nullptr) {
    writer.Int(request.first_head);
  } else {
    // Where no key comes after its query, all forms say the same.
    const AlibiForm form = shape.last() > 0 ? lines->form : AlibiForm::kCausal;
    writer.Byte(form == AlibiForm::kCausal ? 0 : form == AlibiForm::kSymmetric ? 1 : 2);
    for (int64_t head = request.first_head; head < request.first_head + request.heads; ++head) {
      writer.Double(lines->slopes[static_cast<size_t>(head)]);
      if (form == AlibiForm::kTwoSided) writer.Double(lines->future_slopes[static_cast<size_t>(head)]);
    }
  }
  writer.Byte(static_cast<uint8_t>(dtype));
  if (lines != nullptr) return NoPlan().With(writer.bytes());
  return hash != nullptr ? hash->With(writer.bytes()) : PlanHash(PlanKey(plan)).With(writer.bytes());
}

bool DividesByFactor(const AnglePlan& plan, bool inverse) {
  const bool one =
      plan.precision == Precision::kCompatF32 ? plan.attention_factor_f32 == 1 : plan.attention_factor == DoubleDouble{1, 0};
  return inverse && !one;
}

std::string PlanKeyFingerprint(const PlanHash& plan) { return plan.With(Writer(Content::kPlan).bytes()); }

}  // namespace phasor::server
