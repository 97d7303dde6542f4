// Random bias windows of every scheme that has them: forms, positions, masks, batches, types.
#ifndef PHASOR_TESTS_SERVER_RANDOM_BIAS_H_
#define PHASOR_TESTS_SERVER_RANDOM_BIAS_H_

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "phasor/v1/position_service.pb.h"

#include "kernels/core/narrow.h"
#include "tests/kernels/program/golden_weights.h"

namespace phasor::server {

class RandomBias {
 public:
  static constexpr int kSchemes = 16;

  // The scheme is seed % kSchemes.
  explicit RandomBias(uint64_t seed) : random_(seed) {
    queries_ = 1 + Below(24);
    keys_ = queries_ + Below(20);
    AddScheme(static_cast<int>(seed % kSchemes));
    v1::BiasWindow* bias = item.mutable_bias();
    bias->set_queries(queries_);
    bias->set_keys(keys_);
    if (indices_) bias->set_indices(true);
    item.set_dtype(indices_ ? (Below(2) == 0 ? v1::DTYPE_I32 : v1::DTYPE_I64) : FloatType());
    if (tokens_ == 0) AddPositions();
    if (!indices_ && Below(4) != 0) AddMasks();
    if (!indices_ && heads_ > 1 && Below(3) == 0) {
      bias->set_first_head(1);
      heads_ -= 1;
    }
    if (!indices_ && Below(2) == 0) AddAdditive();
    const bool composed = bias->has_masking() || bias->has_query_positions() || bias->has_key_positions();
    if (composed || tokens_ > 0 || Below(3) != 0) {
      bias->set_form(v1::BIAS_FORM_FULL);
    } else if (Below(2) == 0) {
      bias->set_form(v1::BIAS_FORM_ROW);
    }
  }

  v1::PrecomputeItem item;

 private:
  static constexpr int64_t kBatch = 2, kRows = 64;  // of weights with a number for each position

  int64_t Below(int64_t bound) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(bound)); }
  v1::Dtype FloatType() { return static_cast<v1::Dtype>(v1::DTYPE_F64 + Below(4)); }

  void AddWeight(const std::string& name, const std::vector<int64_t>& shape) {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    const std::vector<double> wide = RuleValues(random_() % 1000, count, 2);
    const std::vector<float> values(wide.begin(), wide.end());
    v1::Weight* weight = item.mutable_spec()->add_weights();
    weight->set_name(name);
    weight->mutable_tensor()->set_dtype(v1::DTYPE_F32);
    weight->mutable_tensor()->mutable_shape()->Add(shape.begin(), shape.end());
    weight->mutable_tensor()->set_data(values.data(), values.size() * sizeof(float));
  }

  void AddPerceptron(int64_t inputs) {
    AddWeight("w1", {5, inputs});
    AddWeight("b1", {5});
    AddWeight("w2", {heads_, 5});
  }

  void AddScheme(int scheme) {
    v1::EncodingSpec* spec = item.mutable_spec();
    switch (scheme) {
      case 0:
      case 1:
        spec->mutable_alibi()->set_num_heads(heads_);
        spec->mutable_alibi()->set_form(v1::ALIBI_FORM_SYMMETRIC);
        if (scheme == 0) return;
        for (int i = 0; i < kBatch * heads_; ++i) spec->mutable_alibi()->add_batch_slopes(0.3 * i - 0.7);
        return;
      case 2:
        spec->mutable_t5_bucket()->set_bidirectional(true);
        return AddWeight("table", {32, heads_});
      case 3:
        spec->mutable_kerple()->set_form(v1::KERPLE_FORM_LOG);
        for (int i = 0; i < heads_; ++i) {
          spec->mutable_kerple()->add_r1(0.25 + i);
          spec->mutable_kerple()->add_r2(1.5 + i);
        }
        return;
      case 4:
        spec->mutable_sandwich()->set_num_heads(heads_);
        return;
      case 5:
        spec->mutable_fire();
        AddPerceptron(1);
        return AddWeight("b2", {heads_});
      case 6:
      case 7:
        spec->mutable_dynamic_position_bias()->set_log_distance(scheme == 7);
        AddPerceptron(1);
        return AddWeight("b2", {heads_});
      case 8:
      case 9:
        spec->mutable_forgetting_bias()->set_logits(true);
        positions_below_ = kRows;
        if (scheme == 8) return AddWeight("gates", {heads_, kRows});
        return AddWeight("gates", {kBatch, heads_, kRows});
      case 10:
        spec->mutable_tupe();
        positions_below_ = kRows;
        AddWeight("q", {heads_, kRows, 6});
        AddWeight("k", {heads_, kRows, 6});
        return AddWeight("untied", {heads_, 2});
      case 11:
      case 12: {
        const bool class_token = Below(2) == 0;
        spec->mutable_window_bias()->set_window_height(3);
        spec->mutable_window_bias()->set_window_width(4);
        spec->mutable_window_bias()->set_class_token(class_token);
        SetTokens(12 + (class_token ? 1 : 0));
        indices_ = scheme == 12;
        return AddWeight("table", {35 + (class_token ? 3 : 0), heads_});
      }
      case 13:
        spec->mutable_continuous_window_bias()->set_window_height(2);
        spec->mutable_continuous_window_bias()->set_window_width(5);
        SetTokens(10);
        return AddPerceptron(2);
      case 14:
        spec->mutable_shaw()->set_clip(3);
        indices_ = true;
        return AddWeight("keys", {7, 4});
      default:
        spec->mutable_t5_bucket()->set_num_heads(heads_);
        indices_ = true;
        return;
    }
  }

  void SetTokens(int64_t tokens) { tokens_ = queries_ = keys_ = tokens; }

  // Near, far apart, or rows of weights.
  void AddIds(int64_t count, bool per_batch, v1::Positions* positions) {
    const int64_t below = positions_below_ > 0 ? positions_below_ : Below(3) == 0 ? 2'000'000'000 : 90;
    std::vector<int64_t> ids;
    const int64_t steady = Below(below - std::min(below, count) + 1);
    for (int64_t i = 0; i < (per_batch ? kBatch : 1) * count; ++i) {
      ids.push_back(below >= count && Below(6) != 0 ? steady + i % count : Below(below));
    }
    v1::Tensor* tensor = positions->mutable_ids();
    tensor->set_dtype(v1::DTYPE_I64);
    if (per_batch) tensor->add_shape(kBatch);
    tensor->add_shape(count);
    tensor->set_data(ids.data(), ids.size() * sizeof(int64_t));
  }

  void AddPositions() {
    v1::BiasWindow* bias = item.mutable_bias();
    if (Below(3) == 0) AddIds(queries_, Below(2) == 0, bias->mutable_query_positions());
    if (Below(3) == 0) AddIds(keys_, Below(2) == 0, bias->mutable_key_positions());
    if (positions_below_ == 0 && Below(4) == 0) bias->set_query_offset(Below(60) - 30);
  }

  void AddEnds(int64_t end, int64_t sequences, google::protobuf::RepeatedField<int64_t>* field) {
    std::vector<int64_t> ends = {0, end};
    for (int64_t i = 1; i < sequences; ++i) ends.push_back(Below(end + 1));
    std::sort(ends.begin(), ends.end());
    field->Add(ends.begin(), ends.end());
  }

  void AddMasks() {
    v1::Masking* masking = item.mutable_bias()->mutable_masking();
    masking->set_causal(Below(2) == 0);
    if (Below(3) == 0) masking->set_sliding_window(1 + Below(keys_ + 2));
    if (Below(4) == 0) masking->set_sliding_window_after(1 + Below(keys_ + 2));
    if (Below(3) == 0) masking->set_chunk_size(1 + Below(keys_));
    if (Below(3) == 0) {
      for (int64_t i = Below(2) == 0 ? kBatch : 1; i > 0; --i) masking->add_prefix(Below(keys_));
    }
    if (Below(3) == 0) AddPadding(masking->mutable_key_padding());
    if (tokens_ == 0 && Below(3) == 0) {
      item.mutable_bias()->clear_query_offset();
      // Gates and rows of weights have a place for every key of a sequence: no more queries than keys in any.
      const int64_t sequences = 1 + Below(4);
      if (positions_below_ == 0) AddEnds(queries_, sequences, masking->mutable_query_cu_seqlens());
      if (positions_below_ == 0) AddEnds(keys_, sequences, masking->mutable_key_cu_seqlens());
    }
    if (Below(3) == 0) masking->set_masked_value(-12345.678);
    if (Below(3) == 0) masking->set_fully_masked(v1::MASKED_ROW_LOWEST_FINITE);
  }

  void AddPadding(v1::Tensor* tensor) {
    const bool per_batch = Below(2) == 0;
    std::string bytes;
    for (int64_t i = 0; i < (per_batch ? kBatch : 1) * keys_; ++i) bytes += Below(3) == 0 ? '\0' : '\1';
    tensor->set_dtype(v1::DTYPE_BOOL);
    if (per_batch) tensor->add_shape(kBatch);
    tensor->add_shape(keys_);
    tensor->set_data(bytes);
  }

  // With gaps between rows, or with axes in another order, where strides say so.
  void AddAdditive() {
    v1::Tensor* tensor = item.mutable_bias()->mutable_masking()->mutable_additive();
    std::vector<int64_t> shape = {queries_, keys_};
    const int64_t axes = 2 + Below(3);
    if (axes >= 3) shape.insert(shape.begin(), axes == 4 && Below(2) == 0 ? 1 : heads_);
    if (axes == 4) shape.insert(shape.begin(), kBatch);
    std::vector<size_t> order(shape.size() - 1);
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    const bool strided = Below(2) == 0;
    if (strided) std::shuffle(order.begin(), order.end(), random_);
    std::vector<int64_t> strides(shape.size(), 1);
    int64_t stride = keys_ + (strided ? Below(2) : 0), elements = keys_;
    for (size_t i = order.size(); i-- > 0;) {
      strides[order[i]] = stride;
      elements += (shape[order[i]] - 1) * stride;
      stride *= shape[order[i]];
    }
    tensor->set_dtype(FloatType());
    tensor->mutable_shape()->Add(shape.begin(), shape.end());
    if (strided) tensor->mutable_strides()->Add(strides.begin(), strides.end());
    VisitFloat(static_cast<DType>(tensor->dtype()), [&](auto tag) {
      using T = typename decltype(tag)::type;
      std::string* data = tensor->mutable_data();
      for (int64_t i = 0; i < elements; ++i) {
        const double value = Below(5) == 0 ? -std::numeric_limits<double>::infinity() : std::ldexp(Below(4096) - 2048, -9);
        const T narrow = Narrow<T>(value);
        data->append(reinterpret_cast<const char*>(&narrow), sizeof(T));
      }
    });
  }

  std::mt19937_64 random_;
  int64_t queries_, keys_, tokens_ = 0, heads_ = 3;
  int64_t positions_below_ = 0;  // 0: any
  bool indices_ = false;
};

}  // namespace phasor::server

#endif  // PHASOR_TESTS_SERVER_RANDOM_BIAS_H_
