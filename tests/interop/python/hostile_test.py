"""Requests meant to hurt: each is refused at once, says which field, and costs no memory."""

import math
import time
import unittest

import grpc
import numpy as np

from calling import ServerTest, details, pb, positions, rope, table, tensor
from serving import SANITIZED

BIG = 2**63 - 1
SECONDS = 30 if SANITIZED else 5  # for one answer, on a machine that is busy otherwise
REFUSED = grpc.StatusCode.INVALID_ARGUMENT.value[0]


def rows(rule):
    return table(rope(8), pb.Positions(**rule))


def ids(array):
    return rows({"ids": tensor(np.array(array, np.int64))})


def mask(values, **fields):
    return rows({"mask": pb.MaskPositions(mask=tensor(np.array(values, np.int64)), **fields)})


def bias(spec, **window):
    return pb.PrecomputeItem(spec=pb.EncodingSpec(alibi=pb.AlibiSpec(**spec)), bias=pb.BiasWindow(**{"queries": 1, "keys": 1} | window))


def sinusoidal(count=1, **fields):
    return table(pb.EncodingSpec(sinusoidal=pb.SinusoidalSpec(**fields)), positions(0, count))


def apply(*, shape=(1, 2, 1, 8), size=64, dtype=pb.DTYPE_F32, strides=(), times=1, **fields):
    x = pb.Tensor(dtype=dtype, shape=shape, strides=strides, data=bytes(size))
    return pb.ApplyItem(spec=rope(8), tensors=[x] * times, **fields)


# Path of the field to blame, below items[0] → items.
PRECOMPUTE = {
    "spec": [pb.PrecomputeItem()],
    "window": [pb.PrecomputeItem(spec=rope())],
    "table": [pb.PrecomputeItem(spec=pb.EncodingSpec(alibi=pb.AlibiSpec(num_heads=4)), table=pb.TableWindow()),
              table(rope(65536), positions(0, 2**24)), sinusoidal(2**24, dim=2**20)],
    "table.positions": [pb.PrecomputeItem(spec=rope(), table=pb.TableWindow()), rows({}), rows({"sequence_offsets": [4]})],
    "table.positions.range": [table(rope(), positions(0, BIG)), table(rope(), positions(0, 2**31)), table(rope(), positions(2**31 - 1, 2)),
                              table(rope(), positions(0, 5, BIG)), table(rope(), positions(0, 5, -2**63))],
    "table.positions.range.count": [table(rope(), positions(0, -1)), table(rope(), positions(0, -2**63))],
    "table.positions.range.start": [table(rope(), positions(start, 1)) for start in (2**31, -2**31, BIG, -2**63)],
    "table.positions.range.stride": [table(rope(), positions(0, 5, 0))],
    "table.positions.packed.cu_seqlens": [rows({"packed": pb.PackedPositions(cu_seqlens=lengths)}) for lengths in ([], [0, BIG], [0, 2**31])],
    "table.positions.packed.cu_seqlens[0]": [rows({"packed": pb.PackedPositions(cu_seqlens=[1, 5])})],
    "table.positions.packed.cu_seqlens[2]": [rows({"packed": pb.PackedPositions(cu_seqlens=lengths)}) for lengths in ([0, 5, 3], [0, BIG, -BIG])],
    "table.positions.sequence_offsets": [rows({"range": pb.PositionRange(count=3), "sequence_offsets": [1, 2]})],
    "table.positions.sequence_offsets[0]": [rows({"range": pb.PositionRange(count=3), "sequence_offsets": [BIG]})],
    "table.positions.list.ids[1]": [rows({"list": pb.PositionList(ids=[1, bad])}) for bad in (2**31, -2**63)],
    "table.positions.ids[0]": [ids([2**31]), ids([-2**63])],
    "table.positions.ids.shape": [ids(5), ids([[1]]), rows({"ids": pb.Tensor(dtype=pb.DTYPE_I64, shape=[BIG, BIG], data=bytes(8))})],
    "table.positions.ids.data": [rows({"ids": pb.Tensor(dtype=pb.DTYPE_I64, shape=[2], data=bytes(size))}) for size in (0, 8, 17)],
    "table.positions.mask.mask": [rows({"mask": pb.MaskPositions()})],
    "table.positions.mask.mask[0, 1]": [mask([1, 2]), mask([1, -1]),
                                        rows({"mask": pb.MaskPositions(mask=pb.Tensor(dtype=pb.DTYPE_BOOL, shape=[2], data=b"\1\7"))})],
    "table.positions.mask.pad_position": [mask([1], pad_position=2), mask([1], pad_position=BIG)],
    "table.form": [table(rope(), positions(0, 1), form=99)],
    "dtype": [table(rope(), positions(0, 1), dtype=bad) for bad in (99, -1, pb.DTYPE_BOOL)],
    "precision": [table(rope(), positions(0, 1), precision=9)],
    "sequence_length": [table(rope(), positions(0, 1), sequence_length=bad) for bad in (0, -1, BIG)],
    "if_fingerprint_not": [table(rope(), positions(0, 1), if_fingerprint_not=bytes(size)) for size in (31, 1000000)],
    "spec.rope.head_dim": [table(rope(bad), positions(0, 1)) for bad in (0, -8, 7, 10**18, BIG)],
    "spec.rope.rotary_dim": [table(rope(8, rotary_dim=bad), positions(0, 1)) for bad in (16, -2, 3, 0)],
    "spec.rope.pairing": [table(rope(8, pairing=99), positions(0, 1))],
    "spec.rope.base": [table(rope(base=bad), positions(0, 1)) for bad in (math.nan, math.inf, -1, 0, 5e-324, 1.7e308)],
    "spec.rope.attention_factor": [table(rope(attention_factor=bad), positions(0, 1)) for bad in (math.nan, 1e300, 0)],
    "spec.rope.linear.factor": [table(rope(linear=pb.LinearSchedule(factor=bad)), positions(0, 1)) for bad in (math.nan, 0, -1, 5e-324)],
    "spec.rope.longrope.short_factor": [table(rope(8, longrope=pb.LongRopeSchedule(
        short_factor=[1], long_factor=[1] * 100000, original_max_position=8, factor=2)), positions(0, 1), sequence_length=4)],
    "spec.alibi.num_heads": [bias({"num_heads": bad}) for bad in (0, -4, 10**9, BIG)],
    "spec.alibi.slopes": [bias({"num_heads": 4, "slopes": [1.0] * 3}), bias({"slopes": [1.0] * 100000})],
    "spec.alibi.slopes[0]": [bias({"num_heads": 1, "slopes": [math.nan]})],
    "spec.sinusoidal.dim": [sinusoidal(dim=bad) for bad in (0, -1, BIG)],
    "spec.sinusoidal.position_offset": [sinusoidal(dim=8, position_offset=BIG)],
    "bias.queries": [bias({"num_heads": 4}, queries=bad, keys=BIG) for bad in (0, -1, BIG)],
    "bias": [bias({"num_heads": 65536}, queries=2**20, keys=2**20, form=pb.BIAS_FORM_FULL)],
    "bias.query_offset": [bias({"num_heads": 4}, query_offset=BIG)],
    "bias.first_head": [bias({"num_heads": 4}, first_head=bad) for bad in (4, -1, BIG)],
    "bias.head_count": [bias({"num_heads": 4}, head_count=bad) for bad in (0, -1, 5, BIG)],
    "bias.form": [bias({"num_heads": 4}, form=9)],
}
APPLY = {
    "spec": [pb.ApplyItem()],
    "tensors": [apply(times=0), apply(times=17)],
    "tensors[0].dtype": [apply(dtype=bad) for bad in (0, 99, pb.DTYPE_I32)],
    "tensors[0].shape": [apply(shape=bad) for bad in ((2, 1, 8), (1,) * 9, (1,) * 100000, (2**32, 2**32, 2**32, 8), (2**30, 2**30, 1, 8))],
    "tensors[0].shape[1]": [apply(shape=(1, -2, 1, 8))],
    "tensors[0].shape[2]": [apply(shape=(1, 1, 65537, 8), size=65537 * 32)],
    "tensors[0].shape[3]": [apply(shape=(1, 2, 1, 16), size=128)],
    "tensors[0].data": [apply(size=bad) for bad in (0, 63, 65)] + [apply(strides=(16, 9, 8, 1))],
    "tensors[0].strides": [apply(strides=(8, 1)), apply(strides=(16, BIG, 8, 1))],
    "tensors[0].strides[1]": [apply(strides=(16, bad, 8, 1)) for bad in (0, -8)],
    "tensors[0].strides[3]": [apply(strides=(16, 8, 8, 2))],
    "layout": [apply(layout=44)],
    "positions.range.count": [apply(positions=positions(0, 3))],
    "positions.packed.cu_seqlens[1]": [apply(positions=pb.Positions(packed=pb.PackedPositions(cu_seqlens=[0, 3])))],
    "positions.mask.mask": [apply(positions=pb.Positions(mask=pb.MaskPositions(mask=tensor(np.ones((2, 2), np.int64)))))],
}
CONFIGS = {
    "config_json": [b"", b"\xff\x00", b"[]", b"[" * 1000000, b'{"a":' * 500000, b'{"a":"' + b"x" * (5 << 20) + b'"}', b'{"a": 1e999}'],
    "config_json.hidden_size": [b'{"model_type":"llama","hidden_size":-4,"num_attention_heads":0}'],
    "config_json.model_type": [b'{"model_type":["llama"]}'],
    "config_json.n_head": [b'{"model_type":"bloom","hidden_size":64,"n_head":1000000000}'],
    "config_json.layer_types": [b'{"model_type":"gemma3_text","hidden_size":64,"num_attention_heads":4,"layer_types":['
                                + b'"full_attention",' * 100000 + b'"x"]}'],
}


class Hostile(ServerTest):
    def setUp(self):
        for _ in range(3):  # what the first calls need is no cost of a refusal
            self.good(self.precompute(table(rope(8), positions(0, 1))))
            self.good(self.apply(apply()))
        self.before = self.server.memory("VmHWM")

    def tearDown(self):
        self.assertLess(self.server.memory("VmHWM") - self.before, 48 << 20)
        self.good(self.precompute(table(rope(8), positions(0, 1))))

    def check_items(self, call, cases):
        for field, items in cases.items():
            for item in items:
                with self.subTest(field, item=str(item)[:300]):
                    start = time.monotonic()
                    status = call(item)[0].status
                    self.assertLess(time.monotonic() - start, SECONDS)
                    self.assertEqual(status.code, REFUSED, status.message)
                    parts = details(status)
                    self.assertEqual(parts["ErrorInfo"].metadata["field"], f"items[0].{field}")
                    self.assertEqual(parts["BadRequest"].field_violations[0].field, f"items[0].{field}")
                    self.assertLess(len(status.message), 1000)

    def test_precompute(self):
        self.check_items(self.precompute, PRECOMPUTE)

    def test_apply(self):
        self.check_items(self.apply, APPLY)

    def test_batches(self):
        plain = table(rope(), positions(0, 1))
        for items in ([], [plain] * 1025, [table(rope(), positions(0, 2**21))] * 16, [pb.PrecomputeItem()] * 100000):
            _, parts = self.refused(lambda: self.precompute(*items), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertEqual(parts["ErrorInfo"].metadata["field"], "items")

    def test_configurations(self):
        for field, texts in CONFIGS.items():
            for text in texts:
                with self.subTest(field, text=text[:60]):
                    start = time.monotonic()
                    call = lambda: self.catalog.ResolveModel(pb.ResolveModelRequest(config_json=text), timeout=60)
                    message, parts = self.refused(call, grpc.StatusCode.INVALID_ARGUMENT)
                    self.assertLess(time.monotonic() - start, SECONDS)
                    self.assertEqual(parts["ErrorInfo"].metadata["field"], field)
                    self.assertLess(len(message), 1000)

    def test_names(self):
        for call, code in ((lambda: self.catalog.GetScheme(pb.GetSchemeRequest(name="x" * 100000)), grpc.StatusCode.NOT_FOUND),
                           (lambda: self.catalog.ResolveModel(pb.ResolveModelRequest(
                               config_json=b'{"model_type":"llama","hidden_size":64,"num_attention_heads":4}', sequence_length=-1)),
                            grpc.StatusCode.INVALID_ARGUMENT),
                           (lambda: self.admin.ListTables(pb.ListTablesRequest(page_token="x" * 100000)), grpc.StatusCode.INVALID_ARGUMENT),
                           (lambda: self.admin.ListTables(pb.ListTablesRequest(page_size=-1)), grpc.StatusCode.INVALID_ARGUMENT)):
            self.assertLess(len(self.refused(call, code)[0]), 1000)


class Expensive(ServerTest):
    def test_over_the_message_limit(self):
        """gRPC reads a message whole before it refuses it: so much memory, and no more."""
        before = self.server.memory("VmHWM")
        with self.assertRaises(grpc.RpcError) as raised:
            self.precompute(table(rope(), positions(0, 1), if_fingerprint_not=bytes(258 << 20)))
        self.assertEqual(raised.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertLess(self.server.memory("VmHWM") - before, 330 << 20)

    def test_a_batch_of_dear_specs_leaves_others_alone(self):
        """A thousand plans of 32768 pairs would be minutes of work: refused at once. As many as are allowed leave others alone,
        and what was resolved is not kept for ever."""
        before = self.server.memory()
        dear = [table(rope(65536, base=10000 + i), positions(0, 1)) for i in range(1024)]
        start = time.monotonic()
        with self.assertRaises(grpc.RpcError) as raised:
            self.position.Precompute(pb.PrecomputeRequest(items=dear, validate_only=True), timeout=30)
        self.assertLess(time.monotonic() - start, SECONDS)
        self.assertEqual(raised.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertIn("max_call_pairs", raised.exception.details())
        for first in (0, 32, 64):
            pending = self.position.Precompute.future(pb.PrecomputeRequest(items=dear[first:first + 32], validate_only=True), timeout=60)
            slowest = 0
            for base in range(10):
                start = time.monotonic()
                self.good(self.precompute(table(rope(64, base=500 + base), positions(0, 1))))
                slowest = max(slowest, time.monotonic() - start)
            self.assertLess(slowest, SECONDS)
            self.assertEqual(pending.code(), grpc.StatusCode.OK)
        self.assertLess(self.server.memory() - before, 200 << 20)


if __name__ == "__main__":
    unittest.main()
