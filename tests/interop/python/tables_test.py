"""Tables and biases against numpy and exact arithmetic: types, forms, precisions, kinds of positions, schemes."""

import unittest

import numpy as np

from calling import ServerTest, array, from_bf16, pb, positions, rope, table, tensor
import exact

FLOATS = (pb.DTYPE_F64, pb.DTYPE_F32, pb.DTYPE_F16, pb.DTYPE_BF16)


class Rope(ServerTest):
    def values(self, *items):
        return [(array(result.cos), array(result.sin)) for result in self.good(self.precompute(*items))]

    def test_every_type_is_rounded_correctly(self):
        """At small positions, near 2^31, and at negative ones."""
        frequencies = exact.frequencies(10000, 32)
        for start in (0, 2**31 - 8, -1000003):
            items = [table(rope(32), positions(start, 8), dtype=dtype) for dtype in FLOATS]
            for dtype, (cos, sin) in zip(FLOATS, self.values(*items)):
                slack = exact.D("0.0001") if dtype == pb.DTYPE_F64 else exact.D(0)
                for row in range(8):
                    for pair, frequency in enumerate(frequencies):
                        for got, want in zip((cos[row, pair], sin[row, pair]), exact.cos_sin(start + row, frequency)):
                            self.assertTrue(exact.nearest(got, want, dtype, slack), (dtype, start + row, pair, got, want))

    def test_forms(self):
        where = positions(5, 40)
        half, twice, alternating = self.values(*(table(rope(64), where, form=form) for form in (0, 2, 3)))
        for part in range(2):
            np.testing.assert_array_equal(twice[part], np.tile(half[part], 2))
            np.testing.assert_array_equal(alternating[part], np.repeat(half[part], 2, axis=1))
        joined = self.good(self.precompute(table(rope(64), where, form=pb.TABLE_FORM_CONCATENATED)))[0]
        np.testing.assert_array_equal(array(joined.table), np.concatenate(half, axis=1))
        self.assertFalse(joined.HasField("cos"))

    def test_every_rule_of_positions(self):
        """Each rule answers with the rows that a plain range has at those positions."""
        cos, sin = self.values(table(rope(64), positions(0, 600)))[0]
        mask = np.array([0, 0, 1, 1, 1, 0, 1], np.int64)
        by_mask = np.where(mask, np.cumsum(mask) - 1, 1)
        ids = np.array([7, 599, 0, 7, 31], np.int32)
        rules = {
            "stride": (pb.Positions(range=pb.PositionRange(start=590, count=60, stride=-7)), 590 - 7 * np.arange(60)),
            "list": (pb.Positions(list=pb.PositionList(ids=ids)), ids),
            "ids, 32 bits": (pb.Positions(ids=tensor(ids)), ids),
            "ids, 64 bits": (pb.Positions(ids=tensor(ids.astype(np.int64))), ids),
            "mask": (pb.Positions(mask=pb.MaskPositions(mask=tensor(mask), pad_position=1)), by_mask),
            "mask, bool": (pb.Positions(mask=pb.MaskPositions(mask=tensor(mask.astype(bool)), pad_position=1)), by_mask),
            "packed": (pb.Positions(packed=pb.PackedPositions(cu_seqlens=[0, 3, 3, 9])), [0, 1, 2, 0, 1, 2, 3, 4, 5]),
            "packed, offsets": (pb.Positions(packed=pb.PackedPositions(cu_seqlens=[0, 2, 5]), sequence_offsets=[100, 200]),
                                [100, 101, 200, 201, 202]),
            "offset": (pb.Positions(range=pb.PositionRange(start=3, count=4), sequence_offsets=[50]), [53, 54, 55, 56]),
            "none": (positions(9, 0), []),
        }
        rules = {name: (rule, np.array(rows, np.int64)) for name, (rule, rows) in rules.items()}
        rules = {name: (rule, np.where(rows < 0, -rows, rows), rows < 0) for name, (rule, rows) in rules.items()}
        answers = self.values(*(table(rope(64), rule) for rule, _, _ in rules.values()))
        for (name, (_, rows, negative)), (got_cos, got_sin) in zip(rules.items(), answers):
            with self.subTest(name):
                np.testing.assert_array_equal(got_cos, cos[rows])
                np.testing.assert_array_equal(got_sin, np.where(negative[:, None], -sin[rows], sin[rows]))

    def test_float32_compatible(self):
        """What a float32 library computes, up to its own cos and sin."""
        result = self.good(self.precompute(table(rope(128), positions(0, 3000), precision=pb.PRECISION_COMPAT_F32)))[0]
        frequencies = np.array([float(f) for f in exact.frequencies(10000, 128)]).astype(np.float32)
        angles = np.arange(3000, dtype=np.float32)[:, None] * frequencies
        np.testing.assert_allclose(array(result.cos), np.cos(angles.astype(np.float64)), rtol=6e-8, atol=0)
        np.testing.assert_allclose(array(result.sin), np.sin(angles.astype(np.float64)), rtol=6e-8, atol=0)
        exact_cos = self.values(table(rope(128), positions(0, 3000)))[0][0]
        self.assertTrue((array(result.cos) != exact_cos).any())

    def test_factor_and_inverse(self):
        spec = rope(128, yarn=pb.YarnSchedule(factor=4, original_max_position=32768))
        forward, inverse = self.good(self.precompute(table(spec, positions(0, 50)), table(spec, positions(0, 50), inverse=True)))
        factor = forward.attention_factor
        self.assertAlmostEqual(factor, 0.1 * np.log(4) + 1, places=15)
        np.testing.assert_allclose(array(forward.cos)[0], factor, rtol=6e-8)
        np.testing.assert_allclose(array(inverse.cos), array(forward.cos) / np.float32(factor)**2, rtol=3e-7)


class Others(ServerTest):
    def test_sinusoidal(self):
        for layout in (pb.SINUSOIDAL_LAYOUT_INTERLEAVED, pb.SINUSOIDAL_LAYOUT_CONCATENATED):
            spec = pb.EncodingSpec(sinusoidal=pb.SinusoidalSpec(dim=48, layout=layout, position_offset=2, padding_row=3))
            got = array(self.good(self.precompute(table(spec, positions(0, 20))))[0].table)
            angles = (np.arange(20)[:, None] + 2) * 10000.0 ** (-np.arange(24) / 24)
            parts = np.sin(angles), np.cos(angles)
            want = np.stack(parts, 2).reshape(20, 48) if layout == pb.SINUSOIDAL_LAYOUT_INTERLEAVED else np.concatenate(parts, 1)
            want[1] = 0  # the library's row 3
            np.testing.assert_allclose(got, want, rtol=1.2e-7, atol=1e-15)

    def test_alibi(self):
        slopes = 2.0 ** -np.arange(1, 9)  # eight heads
        slopes = np.concatenate([slopes, 2.0 ** -(np.arange(4) + 0.5)])  # four more
        distance = np.arange(7)[None] - (np.arange(5)[:, None] + 2)  # the last query stands at the last key
        for form, want in ((pb.ALIBI_FORM_CAUSAL, distance), (pb.ALIBI_FORM_SYMMETRIC, -np.abs(distance))):
            spec = pb.EncodingSpec(alibi=pb.AlibiSpec(num_heads=12, form=form))
            items = [pb.PrecomputeItem(spec=spec, bias=pb.BiasWindow(queries=5, keys=7, form=shape))
                     for shape in (pb.BIAS_FORM_FULL, pb.BIAS_FORM_VECTOR, pb.BIAS_FORM_ROW)]
            items.append(pb.PrecomputeItem(spec=spec, bias=pb.BiasWindow(queries=5, keys=7, first_head=9, head_count=2, form=pb.BIAS_FORM_FULL)))
            full, vector, row, some = (array(result.bias) for result in self.good(self.precompute(*items)))
            # numpy's own exact products, rounded once.
            np.testing.assert_array_equal(full, (slopes[:, None, None] * want).astype(np.float32))
            np.testing.assert_array_equal(np.stack([vector[:, 4 - q:4 - q + 7] for q in range(5)], axis=1), full)
            np.testing.assert_array_equal(row, full[:, -1])
            np.testing.assert_array_equal(some, full[9:11])

    def test_half_precision_is_one_rounding(self):
        items = [table(rope(64), positions(0, 2000), dtype=dtype) for dtype in (pb.DTYPE_F64, pb.DTYPE_F16, pb.DTYPE_BF16)]
        wide, half, brain = self.good(self.precompute(*items))
        np.testing.assert_array_equal(array(half.cos), array(wide.cos).astype(np.float16))
        # bfloat16 keeps 8 bits: within half a step of 2^-8 of the exact value.
        np.testing.assert_allclose(from_bf16(array(brain.cos)), array(wide.cos), rtol=2.0 ** -8, atol=1e-30)


if __name__ == "__main__":
    unittest.main()
