"""64 MiB either way through code generated from the protos, and the values right."""

import time
import unittest

import grpc
import numpy as np

from calling import TIMEOUT, UNLIMITED, ServerTest, array, pb, positions, rope, table, tensor
import exact
from serving import Server
from stubs import rpc

LLAMA3 = dict(base=500000.0, llama3=pb.Llama3Schedule(factor=8, low_freq_factor=1, high_freq_factor=4, original_max_position=8192))
SIZE = 64 << 20


class Exchange(ServerTest):
    def check_table(self, cos, sin, first, frequencies):
        """All against 80-bit floats; the middle and ends against decimals."""
        wide = np.array([np.longdouble(str(f)) for f in frequencies])
        for start in range(0, len(cos), 16384):  # in parts: long doubles are four times the table
            angles = (np.arange(start, min(start + 16384, len(cos))) + first).astype(np.longdouble)[:, None] * wide
            for got, function in ((cos, np.cos), (sin, np.sin)):
                part = got[start:start + 16384]
                off = np.abs(part.astype(np.longdouble) - function(angles))
                # Half a unit in the last place, and what 80-bit angles of this size lose.
                self.assertLessEqual(float(np.max(off - np.spacing(np.abs(part)) / np.longdouble(2))), 2e-14)
        generator = np.random.default_rng(3)
        for row, pair in zip(generator.integers(len(cos), size=150), generator.integers(len(wide), size=150)):
            for got, want in zip((cos[row, pair], sin[row, pair]), exact.cos_sin(first + row, frequencies[pair])):
                self.assertTrue(exact.nearest(got, want, pb.DTYPE_F32), (row, pair, got, want))

    def test_table_of_64_mib(self):
        result = self.good(self.precompute(table(rope(128, **LLAMA3), positions(0, 131072), inv_freq=True)))[0]
        cos, sin = array(result.cos), array(result.sin)
        self.assertEqual((cos.shape, sin.shape), ((131072, 64), (131072, 64)))
        self.assertEqual(cos.nbytes + sin.nbytes, SIZE)
        self.assertEqual(result.payload_bytes, SIZE + 64 * 8)
        frequencies = exact.llama3(exact.frequencies(500000, 128), 8, 1, 4, 8192)
        np.testing.assert_allclose(array(result.inv_freq), [float(f) for f in frequencies], rtol=2.3e-16)
        self.check_table(cos, sin, 0, frequencies)
        again = self.good(self.precompute(table(rope(128, **LLAMA3), positions(0, 131072), inv_freq=True)))[0]
        self.assertEqual(again.cache, pb.CACHE_OUTCOME_HIT)
        self.assertEqual((again.cos, again.sin, again.fingerprint), (result.cos, result.sin, result.fingerprint))

    def test_tensor_of_64_mib_there_and_back(self):
        spec = rope(128, base=500000.0)
        generator = np.random.default_rng(1)
        q = generator.standard_normal((1, 4096, 32, 128), np.float32)
        self.assertEqual(q.nbytes, SIZE)
        rotated = array(self.good(self.apply(pb.ApplyItem(spec=spec, positions=positions(1000), tensors=[tensor(q)])))[0].tensors[0])
        angles = (np.arange(4096) + 1000.0)[:, None] * np.array([float(f) for f in exact.frequencies(500000, 128)])
        cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
        low, high = q[..., :64], q[..., 64:]
        # Each of the table's entry, the product and the sum is rounded to float32: by half of 2^-23 of |low| + |high| at most.
        bound = (np.abs(low) + np.abs(high)) * np.float32(2.0 ** -22)
        self.assertTrue((np.abs(rotated[..., :64] - (low * cos - high * sin)) <= bound).all())
        self.assertTrue((np.abs(rotated[..., 64:] - (high * cos + low * sin)) <= bound).all())
        item = pb.ApplyItem(spec=spec, positions=positions(1000), rotate=pb.RotateOperation(inverse=True), tensors=[tensor(rotated)])
        back = array(self.good(self.apply(item))[0].tensors[0])
        self.assertLess(float(np.max(np.abs(back - q))), 4e-6)


class Afterwards(ServerTest):
    def test_stops_at_once_after_a_large_answer(self):
        """gRPC's own threads may poll for ten seconds after one."""
        server = Server()
        with grpc.insecure_channel(server.address, options=UNLIMITED) as channel:
            request = pb.PrecomputeRequest(items=[table(rope(128), positions(0, 131072))])
            self.good(rpc.PositionServiceStub(channel).Precompute(request, timeout=TIMEOUT).results)
        start = time.monotonic()
        self.assertEqual(server.close(), 0)
        self.assertLess(time.monotonic() - start, 6)

    def test_memory_reaches_a_plateau(self):
        """Thirty exchanges of 32 MiB: what they need is kept for the next, and that is a few messages' worth."""
        item = pb.ApplyItem(spec=rope(128), tensors=[tensor(np.ones((1, 2048, 32, 128), np.float32))])
        for _ in range(30):
            self.good(self.apply(item))
        self.assertLess(self.server.memory(), 300 << 20)


if __name__ == "__main__":
    unittest.main()
