// What rotations beyond the plain one refuse.
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "tests/server/apply_harness.h"
#include "tests/server/parse_text.h"

namespace phasor::server {
namespace {

TEST(RotateErrorsTest, ErrorsNameTheField) {
  struct Case {
    const char* text;
    Expected expected;
  };
  const std::string rope = "spec { rope { head_dim: 4 } } ";
  const Case cases[] = {
      {"rotate { inverse: true backward: true }", {kBad, "items[0].rotate.backward", "true", "inverse"}},
      {"rotate { query_scale {} }", {kBad, "items[0].rotate.query_scale", "nothing", "constant"}},
      {"rotate { query_scale { constant: inf } }", {kBad, "items[0].rotate.query_scale.constant", "inf", "1e+30"}},
      {"rotate { inverse: true query_scale { constant: 0 } }", {kBad, "items[0].rotate.query_scale.constant", "0", "not 0"}},
      {"rotate { query_scale { log_n_training_length: 1 } }",
       {kBad, "items[0].rotate.query_scale.log_n_training_length", "1", "2"}},
      {"rotate { query_scale { floor_scale { coefficient: -1 period: 1 } } }",
       {kBad, "items[0].rotate.query_scale.floor_scale.coefficient", "-1", "0"}},
      {"rotate { query_scale { floor_scale { coefficient: 1 } } }",
       {kBad, "items[0].rotate.query_scale.floor_scale.period", "0", "1"}},
      {"rotate { query_scale { floor_scale { coefficient: 1 period: 1 shift: 2 } } }",
       {kBad, "items[0].rotate.query_scale.floor_scale.shift", "2", "0 or 1"}},
      {"shift {}", {kBad, "items[0].positions", "nothing", "moves by"}},
      {"rerotate {}", {kBad, "items[0].rerotate.target", "nothing", "RoPE"}},
      {"rerotate { target { rope { head_dim: 8 } } }", {kBad, "items[0].rerotate.target.rope.head_dim", "8", "4"}},
      {"rerotate { target { rope { head_dim: 4 pairing: PAIRING_INTERLEAVED } } }",
       {kBad, "items[0].rerotate.target.rope.pairing", "2", "1"}},
      {"rerotate { target { rope { head_dim: 4 linear {} } } }",
       {kBad, "items[0].rerotate.target.rope.linear.factor", "nothing", "> 0"}},
      {"rerotate { target { rope { head_dim: 4 } } target_sequence_length: 0 }",
       {kBad, "items[0].rerotate.target_sequence_length", "0", "1 …"}},
      {"precision: PRECISION_COMPAT_F32 rerotate { target { rope { head_dim: 4 } } }",
       {kBad, "items[0].precision", "PRECISION_COMPAT_F32", "PRECISION_EXACT"}},
      {"roles: [TENSOR_ROLE_KEY, TENSOR_ROLE_KEY]", {kBad, "items[0].roles", "2 entries", "1, one per tensor"}},
      {"table_pairing: PAIRING_HALF_SPLIT", {kBad, "items[0].table_pairing", "PAIRING_HALF_SPLIT", "table"}},
      {"layout: LAYOUT_BSD", {kBad, "items[0].layout", "LAYOUT_BSD", "LAYOUT_T_HD"}},
  };
  ApplyHarness harness("reference");
  for (const Case& c : cases) {
    v1::ApplyItem item = ItemFrom(rope + c.text);
    AddTensor(item, {1, 2, 1, 4}, SomeValues(8));
    ExpectError(harness.One(item).status, c.expected, c.text);
  }
  v1::ApplyItem xpos = ItemFrom("spec { rope { head_dim: 4 xpos {} } }");
  AddTensor(xpos, {1, 2, 1, 4}, SomeValues(8));
  ExpectError(harness.One(xpos).status, {kBad, "items[0].sequence_length", "nothing", "half of it"}, "xpos");
  xpos = ItemFrom("spec { rope { head_dim: 4 xpos { scale_base: 1 center: 0 } } } positions { list { ids: [0, 9] } }");
  AddTensor(xpos, {1, 2, 1, 4}, SomeValues(8), DType::kF16);
  ExpectError(harness.One(xpos).status, {kBad, "items[0].positions", "9", "overflows tensors[0]"}, "xpos");
}

}  // namespace
}  // namespace phasor::server
