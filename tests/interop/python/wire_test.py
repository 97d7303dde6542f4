"""Requests as bytes of our own making: whatever protobuf allows is understood, whatever it does not is refused.

Other writers than Google's put fields in another order, leave packing out, split messages, send fields that we do not know.
"""

import unittest

import grpc
import numpy as np

from calling import ServerTest, array, pb, positions, rope, table, tensor

PRECOMPUTE = "/phasor.v1.PositionService/Precompute"
APPLY = "/phasor.v1.PositionService/Apply"


def varint(value, length=0):
    """As few bytes as possible, or padded to `length` of them, which protobuf allows."""
    value %= 1 << 64
    out = bytearray()
    while value > 127 or len(out) + 1 < length:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value, length=0):
    return varint(field << 3, length) + varint(value, length)


def nested(field, *parts, length=0):
    payload = b"".join(parts)
    return varint(field << 3 | 2, length) + varint(len(payload), length) + payload


UNKNOWN = (number(900, 5) + nested(901, b"ignored") + varint(902 << 3 | 5) + bytes(4) + varint(903 << 3 | 1) + bytes(8)
           + varint(904 << 3 | 3) + number(1, 7) + nested(2, b"x") + varint(904 << 3 | 4))  # the last one is a group


class Wire(ServerTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        same = lambda value: value
        cls.raw = {method: cls.channel.unary_unary(method, request_serializer=same, response_deserializer=same)
                   for method in (PRECOMPUTE, APPLY)}

    def results(self, method, *parts):
        answer = self.raw[method](b"".join(parts), timeout=60)
        results = (pb.PrecomputeResponse if method == PRECOMPUTE else pb.ApplyResponse).FromString(answer).results
        for result in results:
            result.ClearField("stages")
            result.ClearField("cache")
        return self.good(results)

    def setUp(self):
        self.x = np.random.default_rng(5).standard_normal((1, 3, 2, 8)).astype(np.float32)
        self.want = self.results(APPLY, pb.ApplyRequest(items=[pb.ApplyItem(
            spec=rope(8, base=500.0), positions=positions(4), tensors=[tensor(self.x)])]).SerializeToString())
        # The pieces that the same request is made of.
        self.head, self.base = number(1, 8), varint(3 << 3 | 1) + np.float64(500.0).tobytes()
        self.dtype, self.data = number(1, pb.DTYPE_F32), nested(100, self.x.tobytes())
        self.shape = b"".join(number(2, extent) for extent in self.x.shape)
        self.spec = nested(1, nested(1, self.head, self.base))
        self.where = nested(4, nested(1, number(1, 4)))
        self.tensor = nested(100, self.dtype, self.shape, self.data)

    def same(self, *parts):
        got = self.results(APPLY, *parts)
        self.assertEqual(list(got), list(self.want))

    def test_as_written_by_hand(self):
        self.same(nested(1, self.spec, self.where, self.tensor))

    def test_any_order(self):
        self.same(nested(1, nested(100, self.data, self.shape, self.dtype), self.where, self.spec))
        self.same(number(2, 0), nested(1, self.where, self.tensor, nested(1, nested(1, self.base, self.head))))

    def test_packed_or_not(self):
        packed = nested(2, *(varint(extent) for extent in self.x.shape))
        mixed = nested(2, varint(1), varint(3)) + number(2, 2) + nested(2) + nested(2, varint(8))
        for shape in (packed, mixed):
            self.same(nested(1, self.spec, self.where, nested(100, self.dtype, shape, self.data)))

    def test_unknown_fields_anywhere(self):
        self.same(UNKNOWN, nested(1, UNKNOWN, nested(1, UNKNOWN, nested(1, self.head, UNKNOWN, self.base)), self.where, UNKNOWN,
                                  nested(100, UNKNOWN, self.dtype, self.shape, UNKNOWN, self.data, UNKNOWN), UNKNOWN), UNKNOWN)

    def test_split_messages_merge(self):
        self.same(nested(1, nested(1, nested(1, self.head)), self.tensor, nested(1, nested(1, self.base)), nested(4, nested(1)), self.where))
        # A tensor that is no repeated field merges as well, payload and all.
        ids = np.array([4, 5, 6], np.int64)
        halves = nested(4, nested(3, number(1, pb.DTYPE_I64))), nested(4, nested(3, nested(100, ids.tobytes()))), nested(4, nested(3, number(2, 3)))
        got = self.results(APPLY, nested(1, self.spec, *halves, self.tensor))[0]
        self.assertEqual(got.tensors, self.want[0].tensors)

    def test_last_value_wins(self):
        junk = nested(100, b"\xff" * self.x.nbytes)
        self.same(nested(1, nested(1, nested(1, number(1, 64))), self.spec, self.where,
                         nested(100, number(1, pb.DTYPE_F64), junk, self.shape, self.data, self.dtype)))
        self.same(number(2, 1), nested(1, self.spec, self.where, self.tensor), number(2, 0))

    def test_last_member_of_a_oneof_wins(self):
        upload = nested(6, nested(1, bytes(32)))
        self.same(nested(1, self.spec, self.where, nested(100, self.dtype, self.shape, upload, self.data)))
        answer = pb.ApplyResponse.FromString(self.raw[APPLY](nested(1, self.spec, self.where, nested(100, self.dtype, self.shape, self.data, upload))))
        self.assertEqual(answer.results[0].status.code, grpc.StatusCode.FAILED_PRECONDITION.value[0])  # nothing was uploaded
        self.assertIn("upload", answer.results[0].status.message)

    def test_long_varints(self):
        self.same(nested(1, nested(1, nested(1, number(1, 8, length=4), self.base), length=5), self.where,
                         nested(100, number(1, pb.DTYPE_F32, length=5), self.shape, nested(100, self.x.tobytes(), length=5)), length=5))

    def test_answers_are_plain_protobuf(self):
        request = pb.PrecomputeRequest(items=[table(rope(64), positions(0, 5000), inv_freq=True), table(rope(-1), positions(0, 1)),
                                              table(rope(64), positions(0, 3), form=pb.TABLE_FORM_CONCATENATED)])
        answer = self.raw[PRECOMPUTE](request.SerializeToString())
        parsed = pb.PrecomputeResponse.FromString(answer)
        self.assertEqual(len(parsed.SerializeToString()), len(answer))  # nothing unknown, nothing twice
        self.assertEqual(array(parsed.results[0].cos).shape, (5000, 32))

    def test_what_is_no_protobuf_is_refused(self):
        whole = nested(1, self.spec, self.where, self.tensor)
        wrong = {
            "cut": [whole[:length] for length in (1, 2, 3, 10, 40, len(whole) - 1)],
            "longer than the message": [varint(1 << 3 | 2) + varint(1 << 40) + whole, varint(1 << 3 | 2) + varint(-1)],
            "field 0": [number(0, 1)],
            "wire type 7": [varint(1 << 3 | 7)],
            "group without end": [varint(900 << 3 | 3)],
            "end without group": [varint(900 << 3 | 4)],
            "endless varint": [b"\x08" + b"\xff" * 20],
            "groups without end": [varint(900 << 3 | 3) * 100000],
            "messages without end": [b"\x0a\x7f" * 100000],
            "text": [b"GET / HTTP/1.1\r\n\r\n"],
        }
        before = self.server.memory("VmHWM")
        for name, messages in wrong.items():
            for message in messages:
                for method in (PRECOMPUTE, APPLY):
                    with self.subTest(name, length=len(message), method=method):
                        self.refused(lambda: self.raw[method](message, timeout=60), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertLess(self.server.memory("VmHWM") - before, 32 << 20)
        self.same(whole)

    def test_compressed_requests_are_refused_unread(self):
        """200 MiB of zeros are 200 KiB on the wire: they must not be inflated to find that out."""
        self.same(nested(1, self.spec, self.where, self.tensor))
        zeros = nested(1, nested(100, nested(100, bytes(200 << 20))))
        before = self.server.memory("VmHWM")
        for compression in (grpc.Compression.Gzip, grpc.Compression.Deflate):
            with self.assertRaises(grpc.RpcError) as raised:
                self.raw[APPLY](zeros, compression=compression, timeout=60)
            self.assertEqual(raised.exception.code(), grpc.StatusCode.UNIMPLEMENTED)
        self.assertLess(self.server.memory("VmHWM") - before, 32 << 20)


if __name__ == "__main__":
    unittest.main()
