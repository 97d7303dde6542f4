// Distilled functions through the wire's parser and the engine, on every backend: rows, sums, rotations, refusals.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "tests/server/apply_harness.h"
#include "tests/server/parse_text.h"

namespace phasor::server {
namespace {

constexpr const char* kBackends[] = {"cpu", "reference"};

void AddWeight(v1::EncodingSpec& spec, const std::string& name, std::vector<int64_t> shape, unsigned seed) {
  size_t count = 1;
  for (const int64_t extent : shape) count *= static_cast<size_t>(extent);
  v1::ApplyItem carrier;
  AddTensor(carrier, std::move(shape), SomeValues(count, seed), DType::kF64);
  v1::Weight* weight = spec.add_weights();
  weight->set_name(name);
  *weight->mutable_tensor() = carrier.tensors(0);
}

// Of `columns` outputs; `terms` cosines go in, or the position itself.
v1::EncodingSpec Distilled(int64_t columns, int64_t terms = 0) {
  v1::EncodingSpec spec;
  spec.mutable_distilled()->set_num_positions(12);
  spec.mutable_distilled()->set_first_position(-3);
  spec.mutable_distilled()->set_cosine_terms(terms);
  AddWeight(spec, "w1", {9, terms == 0 ? 1 : terms}, 1);
  AddWeight(spec, "b1", {9}, 2);
  AddWeight(spec, "w2", {columns, 9}, 3);
  AddWeight(spec, "b2", {columns}, 4);
  return spec;
}

std::vector<double> RowsOf(ApplyHarness& harness, const v1::EncodingSpec& spec, int64_t start, int64_t count) {
  v1::PrecomputeItem item;
  *item.mutable_spec() = spec;
  item.set_dtype(v1::DTYPE_F64);
  item.mutable_table()->mutable_positions()->mutable_range()->set_start(start);
  item.mutable_table()->mutable_positions()->mutable_range()->set_count(count);
  const PrecomputeResult result = harness.One(item);
  EXPECT_TRUE(result.status.ok()) << result.status;
  return result.status.ok() ? ValuesOf(*result.table) : std::vector<double>();
}

TEST(DistilledTest, RowsAreAdded) {
  for (const char* backend : kBackends) {
    ApplyHarness harness(backend);
    for (const int64_t terms : {0, 5}) {
      const std::vector<double> rows = RowsOf(harness, Distilled(4, terms), 2, 3), x = SomeValues(12, 9);
      ASSERT_EQ(rows.size(), 12u);
      v1::ApplyItem item = ItemFrom("add {} positions { range { start: 2 count: 3 } }");
      *item.mutable_spec() = Distilled(4, terms);
      AddTensor(item, {1, 3, 4}, x, DType::kF64);
      const ApplyResult result = harness.One(item);
      ASSERT_TRUE(result.status.ok()) << result.status;
      const std::vector<double> sums = ValuesOf(result.tensors[0]);
      for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(sums[i], x[i] + rows[i]) << i;
    }
  }
}

// A table of the same numbers, uploaded.
v1::UploadedTable TableOf(const std::vector<double>& rows, int64_t pairs) {
  std::vector<double> cos, sin;
  for (size_t i = 0; i < rows.size(); ++i) {
    (static_cast<int64_t>(i) / pairs % 2 == 0 ? cos : sin).push_back(rows[i]);
  }
  const auto count = static_cast<int64_t>(cos.size()) / pairs;
  v1::ApplyItem carrier;
  AddTensor(carrier, {count, pairs}, cos, DType::kF64);
  AddTensor(carrier, {count, pairs}, sin, DType::kF64);
  v1::UploadedTable table;
  *table.mutable_cos() = carrier.tensors(0);
  *table.mutable_sin() = carrier.tensors(1);
  return table;
}

TEST(DistilledTest, RotationsAreThoseOfItsTable) {
  for (const char* backend : kBackends) {
    ApplyHarness harness(backend);
    const v1::UploadedTable table = TableOf(RowsOf(harness, Distilled(6), 0, 300), 3);
    for (const char* more : {"", "rotate { backward: true }", "table_pairing: PAIRING_INTERLEAVED"}) {
      for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
        v1::ApplyItem given = ItemFrom(absl::StrCat(more, " positions { range { count: 300 } }"));
        AddTensor(given, {1, 300, 2, 8}, SomeValues(4800, 5), dtype);
        v1::ApplyItem item = given;
        *given.mutable_table() = table;
        *item.mutable_spec() = Distilled(6);
        const ApplyResult by_table = harness.One(given), result = harness.One(item);
        ASSERT_TRUE(by_table.status.ok()) << by_table.status;
        ASSERT_TRUE(result.status.ok()) << result.status;
        EXPECT_EQ(BytesOf(result.tensors[0]), BytesOf(by_table.tensors[0])) << more;
      }
    }
  }
}

TEST(DistilledTest, FractionalPositionsAndThoseBeyondAreServed) {
  ApplyHarness harness("cpu");
  v1::ApplyItem item = ItemFrom("positions { list { ids: [-100, 100000] } }");
  *item.mutable_spec() = Distilled(4, 5);
  AddTensor(item, {1, 2, 1, 4}, SomeValues(8), DType::kF64);
  EXPECT_TRUE(harness.One(item).status.ok());
  const double ids[] = {0.25, -7.5};
  v1::Tensor* tensor = item.mutable_positions()->mutable_ids();
  tensor->set_dtype(v1::DTYPE_F64);
  tensor->add_shape(2);
  tensor->set_data(std::string(reinterpret_cast<const char*>(ids), sizeof(ids)));
  EXPECT_TRUE(harness.One(item).status.ok());
}

TEST(DistilledTest, RotationsThatDoNotFitAreRefused) {
  ApplyHarness harness("cpu");
  struct Case {
    const char* text;
    int64_t columns, head_dim;
    Expected expected;
  };
  for (const Case& c : {
           Case{"rotate { inverse: true }", 4, 4, {kBad, "items[0].rotate.inverse", "with distilled", "backward"}},
           {"shift {} positions { list { ids: [1, 1] } }", 4, 4, {kBad, "items[0].shift", "with distilled", "backward"}},
           {"rerotate { target { rope { head_dim: 4 } } }", 4, 4, {kBad, "items[0].rerotate", "with distilled", "backward"}},
           {"rotate { query_scale { constant: 2 } }", 4, 4, {kBad, "items[0].rotate.query_scale", "distilled", "none"}},
           {"", 3, 4, {kBad, "items[0].spec.distilled", "3 columns", "even"}},
           {"", 6, 4, {kBad, "items[0].tensors[0].shape", "heads of 4", "6 or more"}},
           {"layout: LAYOUT_T_HD", 4, 4, {kBad, "items[0].layout", "LAYOUT_T_HD", "width of a head"}},
           {"positions { list { ids: [0, 2147483647] } }", 4, 4, {kBad, "items[0].positions", "2147483647", "less than"}},
       }) {
    v1::ApplyItem item = ItemFrom(c.text);
    *item.mutable_spec() = Distilled(c.columns);
    AddTensor(item, {1, 2, 1, c.head_dim}, SomeValues(static_cast<size_t>(2 * c.head_dim)));
    ExpectError(harness.One(item).status, c.expected, c.text);
  }
}

TEST(DistilledTest, BadSpecsAreRefused) {
  ApplyHarness harness("cpu");
  const std::string w1 = "weights { name: \"w1\" tensor { dtype: DTYPE_F32 shape: [1, 1] data: \"\\0\\0\\0\\0\" } } ";
  const std::string b1 = "weights { name: \"b1\" tensor { dtype: DTYPE_F32 shape: 1 data: \"\\0\\0\\0\\0\" } } ";
  const std::string good = "distilled { num_positions: 2 } ";
  const auto refused = [&](const std::string& spec, const Expected& expected) {
    v1::PrecomputeItem item;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::StrCat("spec { ", spec, " } table { positions { range { count: 1 } } }"), &item));
    ExpectError(harness.One(item).status, expected, spec);
  };
  refused("distilled {} " + w1 + b1, {kBad, "items[0].spec.distilled.num_positions", "nothing", "2 … 2147483647"});
  refused("distilled { num_positions: 1 } " + w1 + b1, {kBad, "items[0].spec.distilled.num_positions", "1", "2 …"});
  refused("distilled { num_positions: 2 first_position: -2147483648 } " + w1 + b1,
          {kBad, "items[0].spec.distilled.first_position", "-2147483648", "-2147483647"});
  refused("distilled { num_positions: 2 cosine_terms: -1 } " + w1 + b1,
          {kBad, "items[0].spec.distilled.cosine_terms", "-1", "0 … 65536"});
  refused("distilled { num_positions: 2 cosine_terms: 3 } " + w1 + b1,
          {kBad, "items[0].spec.weights[0].tensor.shape", "[1, 1]", "[columns, 3]"});
  refused(good, {kBad, "items[0].spec.weights", "no w1", "w1, b1, and up to 7"});
  refused(good + w1, {kBad, "items[0].spec.weights", "no b1", "b1 [1]"});
  refused(good + b1, {kBad, "items[0].spec.weights", "no w1", "w1, b1"});
  refused(good + w1 + b1 + "weights { name: \"b3\" tensor { dtype: DTYPE_F32 shape: 1 data: \"\\0\\0\\0\\0\" } }",
          {kBad, "items[0].spec.weights[2]", "b3", "there is no such layer"});
  refused(good + b1 + "weights { name: \"w1\" tensor { dtype: DTYPE_F32 shape: [1, 1] data: \"\\0\\0\\300\\177\" } }",
          {kBad, "items[0].spec.weights[1].tensor", "NaN", "finite"});
}

}  // namespace
}  // namespace phasor::server
