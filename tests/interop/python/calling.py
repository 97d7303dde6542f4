"""What the tests of the Python client share: a server per test class, tensors from and to numpy, errors with their details."""

import unittest

import grpc
import numpy as np

from serving import Server
from stubs import pb, rpc

# grpcio refuses answers over 4 MiB unless told otherwise.
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
TIMEOUT = 60

NUMPY = {pb.DTYPE_F64: "<f8", pb.DTYPE_F32: "<f4", pb.DTYPE_F16: "<f2", pb.DTYPE_BF16: "<u2", pb.DTYPE_I32: "<i4", pb.DTYPE_I64: "<i8",
         pb.DTYPE_BOOL: "?"}
DTYPE = {np.dtype(text): dtype for dtype, text in NUMPY.items() if dtype != pb.DTYPE_BF16}


def tensor(array, dtype=None):
    return pb.Tensor(dtype=dtype or DTYPE[array.dtype], shape=array.shape, data=np.ascontiguousarray(array).tobytes())


def array(message):
    """The tensor's elements; bf16 as its bits."""
    return np.frombuffer(message.data, NUMPY[message.dtype]).reshape(message.shape)


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def to_bf16(values):
    """Rounds float32 to nearest even; no NaN here."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def rope(head_dim=128, **fields):
    return pb.EncodingSpec(rope=pb.RopeSpec(head_dim=head_dim, **fields))


def positions(start=0, count=None, stride=None):
    return pb.Positions(range=pb.PositionRange(start=start, count=count, stride=stride))


def table(spec, where, *, form=0, inv_freq=False, inverse=False, **fields):
    window = pb.TableWindow(positions=where, form=form, include_inv_freq=inv_freq, inverse=inverse)
    return pb.PrecomputeItem(spec=spec, table=window, **fields)


class ServerTest(unittest.TestCase):
    """`FLAGS` are the server's; self.position, self.catalog and self.admin call it."""

    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.FLAGS)
        cls.addClassCleanup(cls.check_exit)
        cls.channel = grpc.insecure_channel(cls.server.address, options=UNLIMITED)
        cls.position, cls.catalog, cls.admin = (stub(cls.channel) for stub in
                                               (rpc.PositionServiceStub, rpc.CatalogServiceStub, rpc.AdminServiceStub))

    @classmethod
    def check_exit(cls):
        cls.channel.close()
        code = cls.server.close()
        if code != 0:
            raise AssertionError(f"phasord exited with {code}")

    def precompute(self, *items, **fields):
        return self.position.Precompute(pb.PrecomputeRequest(items=items, **fields), timeout=TIMEOUT).results

    def apply(self, *items, **fields):
        return self.position.Apply(pb.ApplyRequest(items=items, **fields), timeout=TIMEOUT).results

    def good(self, results):
        """The results, none of which may have failed."""
        for index, result in enumerate(results):
            self.assertEqual(result.status.code, 0, f"item {index}: {result.status.message}")
        return results

    def refused(self, call, code):
        """Makes a call that must fail with `code`; returns its message and details by type name."""
        with self.assertRaises(grpc.RpcError) as raised:
            call()
        error = raised.exception
        self.assertEqual(error.code(), code, error.details())
        trailers = {key: value for key, value in error.trailing_metadata()}
        self.assertIn("grpc-status-details-bin", trailers, error)
        status = pb.Status.FromString(trailers["grpc-status-details-bin"])
        self.assertEqual((status.code, status.message), (code.value[0], error.details()))
        return error.details(), details(status)


def details(status):
    """A google.rpc.Status's details by type name; there is at most one of each."""
    unpacked = {}
    for packed in status.details:
        name = packed.type_url.removeprefix("type.googleapis.com/google.rpc.")
        message = getattr(pb, name)()
        assert packed.Unpack(message), packed.type_url
        assert name not in unpacked, f"two details of type {name}"
        unpacked[name] = message
    return unpacked


if __name__ == "__main__":
    unittest.main()
