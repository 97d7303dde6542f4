"""Apply against numpy: layouts, strides, pairings, types, partial rotation, groups of heads, positions per batch row."""

import unittest

import numpy as np

from calling import ServerTest, array, from_bf16, pb, positions, rope, tensor, to_bf16


def rotate(x, where, *, width=None, base=10000.0, interleaved=False, sign=1):
    """x [batch, sequence, heads, channels] in float64, `where` [batch, sequence] or [sequence]."""
    width = width or x.shape[-1]
    where = np.broadcast_to(np.asarray(where, np.float64), x.shape[:2])
    angles = sign * where[..., None] * base ** (-2.0 * np.arange(width // 2) / width)
    cos, sin = np.cos(angles)[:, :, None], np.sin(angles)[:, :, None]
    first, second = (slice(0, width, 2), slice(1, width, 2)) if interleaved else (slice(0, width // 2), slice(width // 2, width))
    y = x.astype(np.float64).copy()
    y[..., first] = x[..., first] * cos - x[..., second] * sin
    y[..., second] = x[..., second] * cos + x[..., first] * sin
    return y


class Tensors(ServerTest):
    def setUp(self):
        self.generator = np.random.default_rng(7)

    def draw(self, *shape):
        return self.generator.standard_normal(shape).astype(np.float32)

    def rotated(self, spec, *tensors, **fields):
        item = pb.ApplyItem(spec=spec, tensors=[tensor(x) if isinstance(x, np.ndarray) else x for x in tensors], **fields)
        result = self.good(self.apply(item))[0]
        self.assertEqual([(t.dtype, t.shape, t.strides) for t in result.tensors], [(t.dtype, t.shape, t.strides) for t in item.tensors])
        return [array(t) if not t.strides else t for t in result.tensors]

    def close(self, got, want, scale=2.0 ** -22):
        self.assertLessEqual(float(np.max(np.abs(got - want))), scale * 8)

    def test_layouts(self):
        x = self.draw(2, 5, 3, 16)
        want = rotate(x, np.arange(5) + 9)
        axes = {pb.LAYOUT_BSHD: (0, 1, 2, 3), pb.LAYOUT_BHSD: (0, 2, 1, 3), pb.LAYOUT_SBHD: (1, 0, 2, 3)}
        for layout, order in axes.items():
            got, = self.rotated(rope(16), x.transpose(order), layout=layout, positions=positions(9))
            self.close(got, want.transpose(order))
        packed, = self.rotated(rope(16), x[0], layout=pb.LAYOUT_THD, positions=pb.Positions(packed=pb.PackedPositions(cu_seqlens=[0, 2, 5])))
        self.close(packed, rotate(x[:1], [0, 1, 0, 1, 2])[0])

    def test_layouts_agree_to_the_bit(self):
        x = self.draw(2, 6, 4, 32)
        plain, = self.rotated(rope(32), x)
        other, = self.rotated(rope(32), x.transpose(0, 2, 1, 3), layout=pb.LAYOUT_BHSD)
        np.testing.assert_array_equal(plain, other.transpose(0, 2, 1, 3))

    def test_strides(self):
        """A view into a larger array: what lies between comes back as it was."""
        storage = self.draw(2, 7, 5, 24)
        shape, strides = (2, 6, 3, 16), (7 * 5 * 24, 5 * 24, 24, 1)
        view = pb.Tensor(dtype=pb.DTYPE_F32, shape=shape, strides=strides, data=storage.tobytes())
        got, = self.rotated(rope(16), view)
        got = np.frombuffer(got.data, "<f4").reshape(storage.shape)
        want = storage.astype(np.float64).copy()
        want[:, :6, :3, :16] = rotate(storage[:, :6, :3, :16], np.arange(6))
        self.close(got, want)
        untouched = np.ones(storage.shape, bool)
        untouched[:, :6, :3, :16] = False
        np.testing.assert_array_equal(got[untouched], storage[untouched])

    def test_fused_projection(self):
        """q inside a fused [batch, sequence, 3, heads, channels] array, by strides alone."""
        fused = self.draw(1, 4, 3, 2, 8)
        view = pb.Tensor(dtype=pb.DTYPE_F32, shape=(1, 4, 2, 8), strides=(192, 48, 8, 1), data=fused.tobytes())
        got = np.frombuffer(self.rotated(rope(8), view)[0].data, "<f4").reshape(fused.shape)
        self.close(got[:, :, 0], rotate(fused[:, :, 0], np.arange(4)))
        np.testing.assert_array_equal(got[:, :, 1:], fused[:, :, 1:])

    def test_pairings_and_partial_rotation(self):
        x = self.draw(1, 9, 2, 64)
        for pairing, interleaved in ((pb.PAIRING_HALF_SPLIT, False), (pb.PAIRING_INTERLEAVED, True)):
            for width in (64, 32, 6):
                got, = self.rotated(rope(64, rotary_dim=width, pairing=pairing), x)
                self.close(got, rotate(x, np.arange(9), width=width, interleaved=interleaved))
                np.testing.assert_array_equal(got[..., width:], x[..., width:])

    def test_types(self):
        x = self.draw(1, 33, 2, 32)
        want = rotate(x, np.arange(33) + 70000)
        self.close(self.rotated(rope(32), x.astype(np.float64), positions=positions(70000))[0], want, 2.0 ** -33)
        half = x.astype(np.float16)
        self.close(self.rotated(rope(32), half, positions=positions(70000))[0], rotate(half, np.arange(33) + 70000), 2.0 ** -11)
        brain = to_bf16(x)
        got, = self.rotated(rope(32), tensor(brain, pb.DTYPE_BF16), positions=positions(70000))
        self.close(from_bf16(got), rotate(from_bf16(brain), np.arange(33) + 70000), 2.0 ** -8)

    def test_grouped_heads_and_kinds_of_positions(self):
        q, k = self.draw(2, 4, 8, 16), self.draw(2, 4, 2, 16)
        ids = np.array([[3, 1, 4, 1], [5, 9, 2, 6]], np.int64)
        mask = np.array([[0, 1, 1, 1], [1, 1, 0, 1]], np.int32)
        rules = {
            "default": (None, np.arange(4)),
            "ids per row": (pb.Positions(ids=tensor(ids)), ids),
            "ids for all rows": (pb.Positions(ids=tensor(ids[0])), ids[0]),
            "list": (pb.Positions(list=pb.PositionList(ids=ids.ravel())), ids),
            "list for all rows": (pb.Positions(list=pb.PositionList(ids=ids[1])), ids[1]),
            "mask": (pb.Positions(mask=pb.MaskPositions(mask=tensor(mask))), np.where(mask, np.cumsum(mask, 1) - 1, 0)),
            "cached keys": (pb.Positions(sequence_offsets=[10, 20], range=pb.PositionRange()), np.array([[10], [20]]) + np.arange(4)),
            "backwards": (pb.Positions(range=pb.PositionRange(start=-2, stride=-3)), -2 - 3 * np.arange(4)),
        }
        for name, (rule, where) in rules.items():
            with self.subTest(name):
                for got, x in zip(self.rotated(rope(16), q, k, positions=rule), (q, k)):
                    self.close(got, rotate(x, where))

    def test_inverse_undoes(self):
        x = self.draw(1, 50, 3, 64)
        spec = rope(64, yarn=pb.YarnSchedule(factor=8, original_max_position=4096))
        there, = self.rotated(spec, x, positions=positions(12345))
        back, = self.rotated(spec, there, positions=positions(12345), rotate=pb.RotateOperation(inverse=True))
        self.close(back, x)

    def test_nan_and_infinity_stay_with_their_pair(self):
        x = self.draw(1, 3, 1, 8)
        x[0, 1, 0, 2], x[0, 2, 0, 3] = np.nan, np.inf
        got, = self.rotated(rope(8), x)
        expected = np.zeros(x.shape, bool)
        expected[0, 1, 0, [2, 6]] = expected[0, 2, 0, [3, 7]] = True
        np.testing.assert_array_equal(~np.isfinite(got), expected)

    def test_nothing_to_do(self):
        empty, = self.rotated(rope(16), np.zeros((1, 0, 4, 16), np.float32))
        self.assertEqual(empty.shape, (1, 0, 4, 16))


if __name__ == "__main__":
    unittest.main()
