"""Shared memory from Python: nothing but open() and mmap. A region is made, rotated in place and released; a table is shared and
read; a client that dies leaves nothing behind."""

import mmap
import os
import subprocess
import sys
import tempfile
import time
import unittest

import grpc
import numpy as np

from calling import NUMPY, ServerTest, array, pb, positions, rope, rpc, table, tensor

LEASE = 0.5

# A program of its own: makes a region, says so, and waits for its end.
CLIENT = """
import sys, time
from stubs import pb, rpc
import grpc
memory = rpc.SharedMemoryServiceStub(grpc.insecure_channel(sys.argv[1]))
print(memory.CreateRegion(pb.CreateRegionRequest(size_bytes=1 << 20)).region.path, flush=True)
time.sleep(600)
"""


def map_region(region):
    """What the path leads to, mapped; KeyError when the region is not there any more."""
    try:
        fd = os.open(region.path, (os.O_RDONLY if region.read_only else os.O_RDWR) | os.O_CLOEXEC)
    except OSError as error:
        raise KeyError(region.region) from error
    try:
        # The number may have been given to something else since.
        if os.readlink(f"/proc/self/fd/{fd}") != f"/memfd:phasor-{region.region} (deleted)":
            raise KeyError(region.region)
        return mmap.mmap(fd, region.size_bytes, access=mmap.ACCESS_READ if region.read_only else mmap.ACCESS_WRITE)
    finally:
        os.close(fd)


def within(memory, message):
    """The elements of a tensor that lies in mapped memory."""
    place = message.shared_memory
    dtype = np.dtype(NUMPY[message.dtype])
    return np.frombuffer(memory, dtype, place.size_bytes // dtype.itemsize, place.offset_bytes).reshape(message.shape)


class SharedMemory(ServerTest):
    folder = tempfile.TemporaryDirectory()
    SOCKET = f"unix:{folder.name}/phasor.sock"
    FLAGS = ("--listen=127.0.0.1:0," + SOCKET, "--shared-memory-bytes=64MiB", f"--shared-memory-lease={LEASE}s")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.local = grpc.insecure_channel(cls.SOCKET)
        cls.addClassCleanup(cls.local.close)
        cls.memory = rpc.SharedMemoryServiceStub(cls.local)
        cls.position = rpc.PositionServiceStub(cls.local)

    def make(self, size):
        return self.memory.CreateRegion(pb.CreateRegionRequest(size_bytes=size)).region

    def held(self):
        return self.admin.GetServerInfo(pb.GetServerInfoRequest()).memory.shared_memory_bytes

    def await_bytes(self, wanted):
        end = time.monotonic() + 20
        while (held := self.held()) != wanted and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(held, wanted)

    def test_rotates_in_place(self):
        x = np.random.default_rng(3).standard_normal((2, 100, 4, 64)).astype(np.float32)
        item = lambda message: pb.ApplyItem(spec=rope(64), tensors=[message])
        want = array(self.good(self.apply(item(tensor(x))))[0].tensors[0])
        region = self.make(x.nbytes)
        with map_region(region) as memory:
            here = np.frombuffer(memory, np.float32, x.size).reshape(x.shape)
            here[:] = x
            place = pb.SharedMemory(region=region.region, size_bytes=x.nbytes)
            result = self.good(self.apply(item(pb.Tensor(dtype=pb.DTYPE_F32, shape=x.shape, shared_memory=place))))[0]
            self.assertEqual(result.tensors[0].shared_memory, place)
            self.assertTrue(np.array_equal(here.view(np.uint32), want.view(np.uint32)))
            self.assertFalse(np.array_equal(here, x))
            del here
        self.memory.ReleaseRegion(pb.ReleaseRegionRequest(region=region.region))
        with self.assertRaises(KeyError):
            map_region(region)
        self.await_bytes(0)

    def test_a_table_is_shared_and_cannot_be_written(self):
        item = table(rope(128), positions(0, 5000))
        want = self.good(self.precompute(item))[0]
        item.share = True
        first, second = (self.good(self.precompute(item))[0] for _ in range(2))
        self.assertEqual(first.shared_region, second.shared_region)
        self.assertEqual(first.fingerprint, want.fingerprint)
        with map_region(second.shared_region) as memory:
            for name in ("cos", "sin"):
                got = within(memory, getattr(second, name))
                self.assertTrue(np.array_equal(got.view(np.uint32), array(getattr(want, name)).view(np.uint32)))
                del got
        fd = os.open(second.shared_region.path, os.O_RDWR)
        with self.assertRaises(OSError):
            mmap.mmap(fd, second.shared_region.size_bytes, access=mmap.ACCESS_WRITE)
        with self.assertRaises(OSError):
            os.ftruncate(fd, 0)
        os.close(fd)
        self.memory.ReleaseRegion(pb.ReleaseRegionRequest(region=second.shared_region.region))

    def test_a_client_that_is_killed_leaves_nothing(self):
        program = subprocess.Popen([sys.executable, "-c", CLIENT, self.SOCKET], stdout=subprocess.PIPE, text=True)
        try:
            path = program.stdout.readline().strip()
            self.assertTrue(os.path.exists(path), path)
            self.assertGreaterEqual(self.held(), 1 << 20)
        finally:
            program.kill()
            program.wait()
            program.stdout.close()
        self.await_bytes(0)

    def test_errors_name_no_region(self):
        region = self.make(4096)
        for message, code in ((pb.SharedMemory(region="0" * 32, size_bytes=64), grpc.StatusCode.FAILED_PRECONDITION),
                              (pb.SharedMemory(region=region.region, size_bytes=1 << 62), grpc.StatusCode.INVALID_ARGUMENT),
                              (pb.SharedMemory(region=region.region, offset_bytes=2 ** 64 - 64, size_bytes=64),
                               grpc.StatusCode.INVALID_ARGUMENT)):
            status = self.apply(pb.ApplyItem(spec=rope(8), tensors=[pb.Tensor(dtype=pb.DTYPE_F32, shape=[1, 2, 1, 8],
                                                                              shared_memory=message)]))[0].status
            self.assertEqual(status.code, code.value[0], status.message)
            self.assertNotIn(region.region, status.message)


if __name__ == "__main__":
    unittest.main()
