"""Additions against numpy, dropout against a Philox of its own, and uploads as a Python client sends them."""

import hashlib
import math
import unittest

import numpy as np

from calling import TIMEOUT, ServerTest, array, from_bf16, pb, tensor, to_bf16


def sinusoids(where, dim, base=10000.0):
    angles = np.asarray(where, np.float64)[..., None] * base ** (-2.0 * np.arange((dim + 1) // 2) / dim)
    table = np.empty(angles.shape[:-1] + (dim,))
    table[..., 0::2] = np.sin(angles)
    table[..., 1::2] = np.cos(angles)[..., : dim // 2]
    return table


def philox_words(count, seed, offset):
    """Words of Philox 4x32-10 (Salmon et al. 2011, table 2), in Python's own integers."""
    words = []
    for block in range(offset, offset + (count + 3) // 4):
        c = [block >> shift & 0xFFFFFFFF for shift in (0, 32, 64, 96)]
        k = [seed & 0xFFFFFFFF, seed >> 32]
        for _ in range(10):
            p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [q >> 32 ^ c[1] ^ k[0], q & 0xFFFFFFFF, p >> 32 ^ c[3] ^ k[1], p & 0xFFFFFFFF]
            k = [k[0] + 0x9E3779B9 & 0xFFFFFFFF, k[1] + 0xBB67AE85 & 0xFFFFFFFF]
        words += c
    return np.array(words[:count], np.uint32)


class Additions(ServerTest):
    def setUp(self):
        self.generator = np.random.default_rng(8)

    def added(self, x, dim, *, positions=None, layout=0, **operation):
        item = pb.ApplyItem(spec=pb.EncodingSpec(sinusoidal=pb.SinusoidalSpec(dim=dim)), add=pb.AddOperation(**operation), positions=positions,
                            layout=layout, tensors=[x if isinstance(x, pb.Tensor) else tensor(x)])
        result, = self.good(self.apply(item))
        return array(result.tensors[0])

    def test_the_formula_in_every_type(self):
        x = self.generator.standard_normal((2, 40, 33))
        wanted = math.sqrt(33) * x + sinusoids(np.arange(40), 33)
        np.testing.assert_allclose(self.added(x, 33, scale_sqrt_dim=True), wanted, rtol=0, atol=1e-14)
        single = x.astype(np.float32)
        np.testing.assert_allclose(self.added(single, 33, scale_sqrt_dim=True), wanted, rtol=0, atol=4e-6)
        np.testing.assert_allclose(self.added(x.astype(np.float16), 33, scale_sqrt_dim=True).astype(np.float64), wanted, rtol=0, atol=2e-2)
        brain = from_bf16(self.added(tensor(to_bf16(single), pb.DTYPE_BF16), 33, scale_sqrt_dim=True))
        np.testing.assert_allclose(brain, wanted, rtol=0, atol=0.15)

    def test_dropout_keeps_what_the_published_generator_says(self):
        x = np.ones((3, 7, 10), np.float32)
        seed, offset = 0xFEDCBA9876543210, 2**64 - 20
        y = self.added(x, 10, backward=True, dropout=pb.Dropout(probability=0.3, seed=seed, offset=offset))
        kept = philox_words(x.size, seed, offset).reshape(x.shape) >= round(0.3 * 2**32)
        np.testing.assert_array_equal(y, np.where(kept, np.float32(1 / 0.7), np.float32(0)))

    def test_left_padding(self):
        mask = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]], bool)
        x = self.generator.standard_normal((2, 5, 8))
        rule = pb.Positions(mask=pb.MaskPositions(mask=tensor(mask)))
        wanted = np.where(mask[..., None], x + sinusoids(np.where(mask, np.cumsum(mask, 1) - 1, 0), 8), 0)
        np.testing.assert_allclose(self.added(x, 8, positions=rule, zero_padding=True), wanted, rtol=0, atol=1e-15)

    def test_uploads_of_many_pieces_are_used_in_place_of_data(self):
        x = self.generator.standard_normal((1, 3000, 512)).astype(np.float32)
        raw = x.tobytes()
        size = 1 << 20

        def pieces():
            yield pb.UploadTensorRequest(size_bytes=len(raw), data=raw[:size])
            for at in range(size, len(raw), size):
                yield pb.UploadTensorRequest(data=raw[at:at + size])

        answer = self.position.UploadTensor(pieces(), timeout=TIMEOUT)
        self.assertEqual(answer.sha256, hashlib.sha256(raw).digest())
        self.assertEqual(answer.size_bytes, len(raw))
        named = pb.Tensor(dtype=pb.DTYPE_F32, shape=x.shape, upload=pb.Upload(sha256=answer.sha256))
        np.testing.assert_array_equal(self.added(named, 512), self.added(x, 512))
        # What is there is not sent again: the first message is answered.
        again = self.position.UploadTensor(iter([pb.UploadTensorRequest(size_bytes=len(raw), sha256=answer.sha256)]), timeout=TIMEOUT)
        self.assertEqual(again.sha256, answer.sha256)


if __name__ == "__main__":
    unittest.main()
