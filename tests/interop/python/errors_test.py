"""What a client sees when something is wrong, and what it can ask without computing: details, batches, validate_only, fingerprints,
request ids, limits."""

import unittest

import grpc
import numpy as np

from calling import ServerTest, array, details, pb, positions, rope, table, tensor


class Errors(ServerTest):
    FLAGS = ("--max-batch-items=8", "--max-positions=100000")

    def check_field(self, got, field, given):
        """One ErrorInfo and one BadRequest, both naming the field and what was given."""
        message, parts = got
        self.assertEqual(set(parts), {"ErrorInfo", "BadRequest"})
        info, violation = parts["ErrorInfo"], parts["BadRequest"].field_violations[0]
        self.assertEqual((info.domain, info.metadata["field"], violation.field), ("phasor.v1", field, field))
        self.assertRegex(info.reason, "^[A-Z][A-Z_]+$")
        for text in (message, violation.description, info.metadata["given"]):
            self.assertIn(given, text)
        self.assertIn(info.metadata["allowed"], message)

    def test_whole_call(self):
        code = grpc.StatusCode.INVALID_ARGUMENT
        self.check_field(self.refused(self.precompute, code), "items", "nothing")
        self.check_field(self.refused(lambda: self.precompute(*[table(rope(), positions(0, 1))] * 9), code), "items", "9")
        resolve = lambda: self.catalog.ResolveModel(pb.ResolveModelRequest(config_json=b'{"model_type": "llama", "hidden_size": 1.5}'))
        self.check_field(self.refused(resolve, code), "config_json.hidden_size", "1.5")

    def test_items_fail_alone_and_in_order(self):
        good = table(rope(), positions(0, 2))
        items = [good, table(rope(-4), positions(0, 2)), good, table(rope(), positions(0, 100001)),
                 table(rope(linear=pb.LinearSchedule(factor=float("nan"))), positions(0, 2)), good]
        results = self.precompute(*items)
        self.assertEqual([result.status.code for result in results], [0, 3, 0, 3, 3, 0])
        for index, field, given in ((1, "spec.rope.head_dim", "-4"), (3, "table.positions.range", "100001"),
                                    (4, "spec.rope.linear.factor", "nan")):
            status = results[index].status
            self.check_field((status.message, details(status)), f"items[{index}].{field}", given)
            self.assertFalse(results[index].fingerprint or results[index].HasField("cos"))
        self.assertEqual(results[0].cos, results[5].cos)

    def test_not_served_yet_names_the_field(self):
        ones = np.ones((1, 2, 1, 8), np.float32)
        remote = pb.Tensor(dtype=pb.DTYPE_F32, shape=ones.shape, shared_memory=pb.SharedMemory(region="x", size_bytes=64))
        device = pb.Tensor(dtype=pb.DTYPE_F32, shape=ones.shape, device=pb.DeviceMemory(handle=b"x", size_bytes=64))
        for item, field in (
                (pb.ApplyItem(spec=rope(8), tensors=[remote]), "items[0].tensors[0].shared_memory"),
                (pb.ApplyItem(spec=rope(8), tensors=[device]), "items[0].tensors[0].device")):
            status = self.apply(item)[0].status
            self.assertEqual(status.code, grpc.StatusCode.UNIMPLEMENTED.value[0])
            self.assertEqual(details(status)["ErrorInfo"].metadata["field"], field)

    def test_names_that_are_not_there(self):
        _, parts = self.refused(lambda: self.catalog.GetScheme(pb.GetSchemeRequest(name="rope_yarm")), grpc.StatusCode.NOT_FOUND)
        self.assertEqual(set(parts), {"ErrorInfo", "ResourceInfo"})
        self.assertEqual(parts["ResourceInfo"].resource_name, "rope_yarm")

    def test_changing_calls_answer_elsewhere(self):
        _, parts = self.refused(lambda: self.admin.EvictTables(pb.EvictTablesRequest(all=True)), grpc.StatusCode.PERMISSION_DENIED)
        self.assertEqual(set(parts), {"ErrorInfo"})

    def test_deadline(self):
        call = lambda: self.position.Precompute(pb.PrecomputeRequest(items=[table(rope(), positions(0, 1))]), timeout=1e-6)
        with self.assertRaises(grpc.RpcError) as raised:
            call()
        self.assertEqual(raised.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        self.good(self.precompute(table(rope(), positions(0, 1))))

    def test_limits_are_told(self):
        limits = {limit.name: limit.value for limit in self.admin.GetServerInfo(pb.GetServerInfoRequest()).limits}
        self.assertEqual((limits["max_batch_items"], limits["max_positions"]), (8, 100000))


class Asking(ServerTest):
    def test_validate_only(self):
        """Sizes and fingerprints as the real answer will have them, and nothing built."""
        items = [table(rope(256), positions(7, 300), dtype=pb.DTYPE_BF16, form=pb.TABLE_FORM_CONCATENATED), table(rope(-1), positions(0, 1))]
        tables = lambda: len(self.admin.ListTables(pb.ListTablesRequest()).tables)
        before = tables()
        checked = self.precompute(*items, validate_only=True)
        self.assertEqual(tables(), before)
        real = self.precompute(*items)
        self.assertEqual([result.status.code for result in checked], [0, 3])
        self.assertEqual(checked[1].status, real[1].status)
        self.assertEqual((checked[0].payload_bytes, checked[0].fingerprint), (real[0].payload_bytes, real[0].fingerprint))
        self.assertEqual((checked[0].table.dtype, checked[0].table.shape), (real[0].table.dtype, real[0].table.shape))
        self.assertFalse(checked[0].table.HasField("data"))
        self.assertEqual(len(real[0].table.data), real[0].payload_bytes)

    def test_validate_only_of_tensors_needs_no_data(self):
        item = pb.ApplyItem(spec=rope(128), tensors=[pb.Tensor(dtype=pb.DTYPE_BF16, shape=(1, 4096, 32, 128))])
        result = self.good(self.apply(item, validate_only=True))[0]
        self.assertEqual(result.payload_bytes, 4096 * 32 * 128 * 2)

    def test_fingerprints(self):
        where = positions(0, 4)
        same = [rope(64), rope(64, rotary_dim=64, base=10000, pairing=pb.PAIRING_HALF_SPLIT, default_schedule=pb.DefaultSchedule()),
                rope(64, attention_factor=1, linear=pb.LinearSchedule(factor=1))]
        other = [rope(64, base=10001), rope(32), rope(64, linear=pb.LinearSchedule(factor=2))]
        items = [table(spec, where) for spec in same + other]
        items += [table(rope(64), positions(1, 4)), table(rope(64), where, dtype=pb.DTYPE_F16), table(rope(64), where, form=2),
                  table(rope(64), where, precision=pb.PRECISION_COMPAT_F32)]
        prints = [result.fingerprint for result in self.good(self.precompute(*items))]
        self.assertEqual([len(p) for p in prints], [32] * len(items))
        self.assertEqual(len(set(prints[:3])), 1)
        self.assertEqual(len(set(prints[2:])), len(items) - 2)

    def test_known_data_is_left_out(self):
        first = self.good(self.precompute(table(rope(64), positions(0, 4))))[0]
        known, stale = self.good(self.precompute(table(rope(64), positions(0, 4), if_fingerprint_not=first.fingerprint),
                                                 table(rope(64), positions(0, 4), if_fingerprint_not=bytes(32))))
        self.assertTrue(known.not_modified)
        self.assertFalse(known.cos.HasField("data") or stale.not_modified)
        self.assertEqual((known.fingerprint, stale.cos), (first.fingerprint, first.cos))

    def test_request_ids(self):
        """The caller's comes back; an error always has one, for the one who reads the log."""
        _, call = self.position.Precompute.with_call(pb.PrecomputeRequest(items=[table(rope(), positions(0, 1))]),
                                                     metadata=(("x-request-id", "order-66"),))
        self.assertIn(("x-request-id", "order-66"), [tuple(entry) for entry in call.trailing_metadata()])
        with self.assertRaises(grpc.RpcError) as raised:
            self.position.Precompute(pb.PrecomputeRequest())
        self.assertRegex(dict(raised.exception.trailing_metadata())["x-request-id"], "^[0-9a-f]+$")

    def test_time_and_origin_are_told(self):
        request = pb.PrecomputeRequest(items=[table(rope(92), positions(0, 9000))])
        first, second = self.position.Precompute(request), self.position.Precompute(request)
        self.assertEqual([answer.results[0].cache for answer in (first, second)], [pb.CACHE_OUTCOME_MISS, pb.CACHE_OUTCOME_HIT])
        self.assertEqual(first.results[0].backend, "cpu")
        self.assertGreater(first.results[0].stages.build_ns, 0)
        self.assertGreater(first.stages.decode_ns, 0)

    def test_a_warning_is_no_error(self):
        config = b'{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 16}'
        layer = self.catalog.ResolveModel(pb.ResolveModelRequest(config_json=config)).layers[0]
        self.assertEqual((layer.kind, layer.max_position, layer.spec.rope.head_dim), (pb.POSITION_KIND_ROPE, 16, 16))
        self.assertTrue(layer.defaults)
        result = self.good(self.precompute(table(layer.spec, positions(0, 20))))[0]
        np.testing.assert_array_equal(array(result.cos)[0], np.ones(8))


if __name__ == "__main__":
    unittest.main()
