"""Streams as a Python client reads them: the bytes of Precompute, sizes beyond any message, checksums, going on, leaving."""

import unittest

import grpc
import numpy as np

from calling import TIMEOUT, ServerTest, array, pb, positions, rope, table

NAMES = {pb.RESULT_ARRAY_COS: "cos", pb.RESULT_ARRAY_SIN: "sin", pb.RESULT_ARRAY_TABLE: "table", pb.RESULT_ARRAY_BIAS: "bias",
         pb.RESULT_ARRAY_INV_FREQ: "inv_freq"}

CRC = [0] * 256
for byte in range(256):
    value = byte
    for _ in range(8):
        value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    CRC[byte] = value


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


class Streams(ServerTest):
    def stream(self, *items, **fields):
        return self.position.StreamPrecompute(pb.StreamPrecomputeRequest(items=items, **fields), timeout=TIMEOUT)

    def read(self, *items, **fields):
        """Per item: header, end, bytes by array."""
        read = {}
        for message in self.stream(*items, **fields):
            header, end, arrays = read.setdefault(message.item, [None, None, {}])
            part = message.WhichOneof("part")
            if part == "header":
                read[message.item][0] = message.header
            elif part == "end":
                read[message.item][1] = message.end
            else:
                for data in message.chunk.arrays:
                    into = arrays.setdefault(NAMES[data.array], bytearray())
                    self.assertEqual(message.chunk.offset_bytes, len(into))
                    if len(data.data) < 1 << 16:
                        self.assertEqual(data.crc32c, crc32c(data.data))
                    into += data.data
        return read

    def test_the_bytes_of_precompute(self):
        bias = pb.PrecomputeItem(spec=pb.EncodingSpec(alibi=pb.AlibiSpec(num_heads=4)),
                                 bias=pb.BiasWindow(queries=200, keys=300, form=pb.BIAS_FORM_FULL))
        items = [table(rope(), positions(-3, 5000), inv_freq=True), bias]
        whole = self.good(self.precompute(*items))
        read = self.read(*items, chunk_bytes=65536)
        for i, result in enumerate(whole):
            header, end, arrays = read[i]
            self.assertEqual(header.result.fingerprint, result.fingerprint)
            self.assertEqual(end.status.code, 0)
            for name, data in arrays.items():
                self.assertEqual(bytes(data), getattr(result, name).data)
        self.assertEqual(set(read[0][2]), {"cos", "sin", "inv_freq"})

    def test_a_table_beyond_any_message(self):
        """16 GiB in all, of which the first 64 MiB are read; then the client leaves."""
        rows = 1 << 25
        reading = self.stream(table(rope(), positions(0, rows)))
        header = next(reading).header
        self.assertEqual(header.result.payload_bytes, rows * 128 * 4)
        self.assertEqual(header.rows, rows)
        cos = bytearray()
        while len(cos) < 32 << 20:
            cos += next(reading).chunk.arrays[0].data
        reading.cancel()
        with self.assertRaises(grpc.RpcError) as left:
            for _ in reading:
                pass
        self.assertEqual(left.exception.code(), grpc.StatusCode.CANCELLED)
        window = array(self.good(self.precompute(table(rope(), positions(100000, 1000))))[0].cos)
        np.testing.assert_array_equal(np.frombuffer(bytes(cos), "<f4").reshape(-1, 64)[100000:101000], window)

    def test_going_on_from_a_row(self):
        item = table(rope(), positions(0, 5000))
        whole = self.read(item)[0]
        messages = list(self.stream(item, first_row=1234))
        self.assertEqual(messages[0].header.first_row, 1234)
        self.assertEqual(messages[0].header.result.fingerprint, whole[0].result.fingerprint)
        self.assertEqual(messages[1].chunk.offset_bytes, 1234 * 256)
        got = b"".join(message.chunk.arrays[0].data for message in messages[1:-1])
        self.assertEqual(got, bytes(whole[2]["cos"])[1234 * 256:])


if __name__ == "__main__":
    unittest.main()
