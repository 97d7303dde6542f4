// Names for results, known before the data is made. Equal fingerprints mean equal bits; one request in another spelling has
// the same fingerprint. The converse does not hold everywhere: some requests give equal bits by coincidence under different
// fingerprints (exact and compat at position 0, forms of a single pair, tables without rows).
#ifndef PHASOR_SERVER_FINGERPRINT_H_
#define PHASOR_SERVER_FINGERPRINT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

#include "kernels/core/dtype.h"
#include "kernels/encodings/plan.h"
#include "server/request.h"

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX

namespace phasor::server {

struct CallContext;

// SHA-256 of `bytes`, 32 bytes.
std::string Sha256(std::string_view bytes);
// Of all parts, one after the other.
std::string Sha256(std::span<const std::string_view> parts);

// SHA-256 as it stands after numerics version ‖ plan key, with which the fingerprints of a plan begin. A key has kilobytes,
// and what follows it some dozens of bytes: going on from here takes a tenth of the time. Copies share the state, which
// never changes: thread-safe.
class PlanHash {
 public:
  // `plan_key` is PlanKey of the plan.
  explicit PlanHash(std::string_view plan_key);

  // SHA-256(numerics version ‖ plan key ‖ rest), 32 bytes.
  std::string With(std::string_view rest) const;

 private:
  friend class LongHash;
  std::shared_ptr<const evp_md_ctx_st> state_;
};

// What a table's bits depend on beside its plan and dtype.
struct TableContent {
  const PositionSet* positions = nullptr;
  int64_t position_offset = 0;  // added to every position (sinusoids)
  // The row (position + offset) that is all zeros, when the window has it.
  std::optional<int64_t> zero_row;
  TableForm form = TableForm::kHalf;
  int64_t columns = 0;
  bool inverse = false;              // as DividesByFactor says
  std::span<const double> inv_freq;  // when the answer has it: a plan's key does not tell these bits
};

// Whether the table of the inverse rotation differs from the other one.
bool DividesByFactor(const AnglePlan& plan, bool inverse);

// SHA-256(numerics version ‖ plan key ‖ window ‖ dtype ‖ form). Ids that are evenly spaced count as the range they are, an
// offset as the rows that it leads to. Millions of other ids take a second: the status of `call`, which is looked at in
// between, ends that (null: nothing does).
absl::StatusOr<std::string> TableFingerprint(const PlanHash& plan, const TableContent& content, DType dtype,
                                             const CallContext* call = nullptr);

// Of straight lines SHA-256(numerics version ‖ slopes of the window's heads ‖ distances ‖ shape ‖ dtype): of the array,
// whatever window of whatever plan it was asked for as. Of other plans with values by distance (DistancePlanOf) the plan's
// key and the heads take the place of the slopes. `hash`: the plan's, for who has it.
std::string BiasFingerprint(const Plan& plan, const BiasRequest& request, DType dtype, const PlanHash* hash = nullptr);

// SHA-256(numerics version ‖ plan key).
std::string PlanKeyFingerprint(const PlanHash& plan);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_FINGERPRINT_H_
