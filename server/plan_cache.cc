#include "server/plan_cache.h"

#include <functional>
#include <initializer_list>
#include <utility>
#include <variant>

#include "server/engine.h"
#include "server/fingerprint.h"

namespace phasor::server {
namespace {

template <typename T>
void Mix(size_t& hash, const T& value) {
  hash ^= std::hash<T>()(value) + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
}

// Mixes the fields in which specs of a kind usually differ. It asks for them by name, so a new scheme needs no line here;
// specs that differ elsewhere share a bucket and are told apart by comparison.
template <typename T>
void MixFields(size_t& hash, const T& value) {
  if constexpr (requires { value.head_dim; }) Mix(hash, value.head_dim);
  if constexpr (requires { value.rotary_dim; }) Mix(hash, value.rotary_dim);
  if constexpr (requires { value.dim; }) Mix(hash, value.dim);
  if constexpr (requires { value.num_heads; }) Mix(hash, value.num_heads);
  if constexpr (requires { value.base; }) Mix(hash, value.base);
  if constexpr (requires { value.factor; }) Mix(hash, value.factor);
  if constexpr (requires { value.attention_factor; }) Mix(hash, value.attention_factor);
  if constexpr (requires { value.original_max_position; }) Mix(hash, value.original_max_position);
  if constexpr (requires { value.position_offset; }) Mix(hash, value.position_offset);
  if constexpr (requires { value.slopes; }) {
    for (double slope : value.slopes) Mix(hash, slope);
  }
  if constexpr (requires { value.inv_freq; }) {
    for (double frequency : value.inv_freq) Mix(hash, frequency);
  }
  if constexpr (requires { value.factors; }) {
    for (double divisor : value.factors) Mix(hash, divisor);
  }
  // Weights differ by content.
  const auto weight = [&hash](const WeightRef& ref) {
    if (ref) Mix(hash, ref->digest);
  };
  if constexpr (requires { value.table->digest; }) weight(value.table);
  if constexpr (requires { value.w1->digest; }) weight(value.w1);
  if constexpr (requires { value.w[0]->digest; }) weight(value.w[0]);
  if constexpr (requires { value.gates->digest; }) weight(value.gates);
  if constexpr (requires { value.q->digest; }) weight(value.q);
  if constexpr (requires { value.schedule; }) {
    Mix(hash, value.schedule.index());
    std::visit([&hash](const auto& schedule) { MixFields(hash, schedule); }, value.schedule);
  }
}

}  // namespace

std::shared_ptr<const PlanEntry> MakePlanEntry(Resolved resolved, std::string_view scheme) {
  std::string key = PlanKey(resolved.plan);
  const size_t key_hash = std::hash<std::string>()(key);
  const PlanHash hash(key);
  return std::make_shared<PlanEntry>(PlanEntry{.resolved = std::move(resolved),
                                               .key = std::move(key),
                                               .key_hash = key_hash,
                                               .hash = hash,
                                               .fingerprint = PlanKeyFingerprint(hash),
                                               .scheme = std::string(scheme)});
}

PlanCache::Nodes::iterator PlanCache::Locate(const Key& key, size_t hash) {
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    if (it->second->key == key) return it->second;
  }
  return nodes_.end();
}

void PlanCache::DropOldest() {
  const auto oldest = std::prev(nodes_.end());
  const auto [begin, end] = by_hash_.equal_range(oldest->hash);
  for (auto it = begin; it != end; ++it) {
    if (it->second == oldest) {
      by_hash_.erase(it);
      break;
    }
  }
  bytes_ -= oldest->bytes;
  nodes_.pop_back();
}

namespace {

// The lists that a plan carries beside angles, and weights, which the cache keeps from being dropped.
struct PlanBytes {
  size_t operator()(const BiasPlan& plan) const {
    return (plan.slopes.size() + plan.future_slopes.size()) * sizeof(DoubleDouble);
  }
  size_t operator()(const BucketPlan& plan) const {
    return static_cast<size_t>(plan.num_buckets) * sizeof(int64_t) +
           (plan.table ? static_cast<size_t>(plan.table->bytes()) : 0);
  }
  size_t operator()(const KerplePlan& plan) const { return 3 * plan.r1.size() * sizeof(double); }
  size_t operator()(const SandwichPlan& plan) const {
    return plan.half_frequencies.size() * sizeof(Turns) + plan.factors.size() * sizeof(DoubleDouble);
  }
  size_t operator()(const GatherPlan& plan) const { return plan.table ? static_cast<size_t>(plan.table->bytes()) : 0; }
  size_t operator()(const FourierPlan& plan) const { return 2 * plan.weights.size() * sizeof(double); }
  size_t operator()(const GridPlan& plan) const {
    return static_cast<size_t>(plan.columns / 2) * (sizeof(Turns) + sizeof(double) + sizeof(float));
  }
  template <typename Other>
  size_t operator()(const Other&) const {
    return 0;
  }
};

size_t BytesOf(const PlanEntry& entry) {
  size_t bytes = sizeof(PlanEntry) + entry.key.size();
  if (const AnglePlan* angle = entry.angle()) {
    bytes += angle->frequencies.size() * (sizeof(Turns) + sizeof(double) + sizeof(float));
  } else if (const auto* mixed = std::get_if<MixedAnglePlan>(&entry.resolved.plan)) {
    bytes += static_cast<size_t>(mixed->cos_coef->bytes() + mixed->sin_coef->bytes());
  } else {
    bytes += std::visit(PlanBytes{}, entry.resolved.plan);
  }
  return bytes;
}

size_t BytesOf(std::initializer_list<const WeightRef*> weights) {
  size_t bytes = 0;
  for (const WeightRef* weight : weights) bytes += *weight ? static_cast<size_t>((*weight)->bytes()) : 0;
  return bytes;
}

// Weights are held by the spec and, most of them as doubles, by the plan.
constexpr size_t kPlanBytesPerWeightByte = 4;

struct WeightBytes {
  size_t operator()(const WindowBiasSpec& s) const { return BytesOf({&s.table}); }
  size_t operator()(const ContinuousWindowBiasSpec& s) const {
    return (1 + kPlanBytesPerWeightByte) * BytesOf({&s.w1, &s.b1, &s.w2});
  }
  size_t operator()(const FireSpec& s) const {
    return (1 + kPlanBytesPerWeightByte) * BytesOf({&s.w1, &s.b1, &s.w2, &s.b2});
  }
  size_t operator()(const DynamicPositionBiasSpec& s) const {
    size_t bytes = 0;
    for (const WeightRef& weight : s.w) bytes += (1 + kPlanBytesPerWeightByte) * BytesOf({&weight});
    return bytes;
  }
  size_t operator()(const DistilledSpec& s) const {
    constexpr size_t kBytesPerCosine = sizeof(Turns) + sizeof(double) + sizeof(float);
    size_t bytes = static_cast<size_t>(s.cosine_terms) * kBytesPerCosine;
    for (size_t i = 0; i < s.w.size(); ++i) bytes += (1 + kPlanBytesPerWeightByte) * BytesOf({&s.w[i], &s.b[i]});
    return bytes;
  }
  size_t operator()(const ForgettingBiasSpec& s) const { return BytesOf({&s.gates}); }
  size_t operator()(const TupeSpec& s) const {
    // With buckets, a bias for every distance between two positions, at most as many as q or k has rows.
    return BytesOf({&s.q, &s.k}) * (s.num_buckets ? 1 + 2 * kPlanBytesPerWeightByte : 1) +
           (1 + kPlanBytesPerWeightByte) * BytesOf({&s.bias, &s.untied});
  }
  template <typename Other>
  size_t operator()(const Other&) const {
    return 0;
  }
};

// The lists and weights that a spec carries; the rest of it is small.
size_t BytesOf(const EncodingSpec& spec) {
  if (const size_t bytes = std::visit(WeightBytes{}, spec); bytes > 0) return bytes;
  if (const auto* pope = std::get_if<PopeSpec>(&spec)) return pope->delta ? static_cast<size_t>(pope->delta->bytes()) : 0;
  if (const auto* alibi = std::get_if<AlibiSpec>(&spec)) {
    return (alibi->slopes.size() + alibi->batch_slopes.size()) * sizeof(double);
  }
  if (const auto* kerple = std::get_if<KerpleSpec>(&spec)) {
    return (kerple->r1.size() + kerple->r2.size() + kerple->p.size()) * sizeof(double);
  }
  const auto* rope = std::get_if<RopeSpec>(&spec);
  if (rope != nullptr) {
    if (const auto* given = std::get_if<FreqFactorsSchedule>(&rope->schedule)) return given->factors.size() * sizeof(double);
    if (const auto* given = std::get_if<InvFreqSchedule>(&rope->schedule)) return given->inv_freq.size() * sizeof(double);
  }
  const auto* lists = rope == nullptr ? nullptr : std::get_if<LongRopeSchedule>(&rope->schedule);
  return lists == nullptr ? 0 : (lists->short_factor.size() + lists->long_factor.size()) * sizeof(double);
}

size_t HashOf(const EncodingSpec& spec, const std::optional<int64_t>& sequence_length, Precision precision) {
  size_t hash = spec.index();
  Mix(hash, sequence_length);
  Mix(hash, static_cast<int>(precision));
  std::visit([&hash](const auto& s) { MixFields(hash, s); }, spec);
  return hash;
}

std::optional<int64_t> LengthThatCounts(const CanonicalSpec& spec, std::optional<int64_t> sequence_length) {
  return SchemeOf(spec.spec).needs_sequence_length ? sequence_length : std::nullopt;
}

}  // namespace

std::shared_ptr<const PlanEntry> PlanCache::Find(const CanonicalSpec& spec, std::optional<int64_t> sequence_length,
                                                 Precision precision) {
  const Key key{spec.spec, LengthThatCounts(spec, sequence_length), precision};
  const size_t hash = HashOf(key.spec, key.sequence_length, precision);
  std::lock_guard lock(mutex_);
  const auto node = Locate(key, hash);
  if (node == nodes_.end()) return nullptr;
  nodes_.splice(nodes_.begin(), nodes_, node);
  return node->entry;
}

absl::StatusOr<std::shared_ptr<const PlanEntry>> PlanCache::Resolve(const CanonicalSpec& spec,
                                                                    std::optional<int64_t> sequence_length,
                                                                    Precision precision, int64_t weight_bytes) {
  if (auto entry = Find(spec, sequence_length, precision)) return entry;
  absl::StatusOr<Resolved> resolved = phasor::Resolve(spec, sequence_length, precision);
  if (!resolved.ok()) return resolved.status();
  auto entry = MakePlanEntry(*std::move(resolved), SchemeOf(spec.spec).name);

  Key key{spec.spec, LengthThatCounts(spec, sequence_length), precision};
  const size_t hash = HashOf(key.spec, key.sequence_length, precision);
  std::lock_guard lock(mutex_);
  if (const auto node = Locate(key, hash); node != nodes_.end()) return node->entry;  // another caller was faster
  const size_t bytes = BytesOf(*entry) + BytesOf(key.spec) + static_cast<size_t>(weight_bytes);
  if (static_cast<size_t>(weight_bytes) > max_bytes_ / 4) return entry;
  nodes_.push_front(Node{std::move(key), hash, bytes, entry});
  by_hash_.emplace(hash, nodes_.begin());
  bytes_ += bytes;
  while (nodes_.size() > max_entries_ || (bytes_ > max_bytes_ && nodes_.size() > 1)) DropOldest();
  return entry;
}

std::string PlanFingerprint(const Plan& plan) { return PlanKeyFingerprint(PlanHash(PlanKey(plan))); }

}  // namespace phasor::server
