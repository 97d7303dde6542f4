"""A table of 64 MiB to a Python client over loopback: Phasor's stream and its unary call through grpcio, and Arrow Flight.

Every contestant ends with the table in memory that numpy reads: streams and batches in a buffer that is used again, the others
where the library put it. The two servers are processes of their own.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import grpc
import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import protobuf_fields
from measure import Case
from setting import difference

HEAD_DIM, BATCH = 128, 1 << 20
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
SERVICE = "/phasor.v1.PositionService/"
FLAGS = ["--listen=127.0.0.1:0", "--metrics-listen=off", "--drain-delay=0", "--log-access-every=0"]


class Process:
    """A server that says where it listens in its first line; ended by its own id."""

    def __init__(self, *command):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PHASOR_")}
        # A file, not a pipe: nobody reads it while the server runs, and a full pipe would stop it.
        self._log = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True,
                                        env=environment)
        line = self.process.stdout.readline()
        self.address = line.split()[-1] if line.strip() else ""
        if not self.address:
            self.process.wait(timeout=30)
            self._log.seek(0)
            log = self._log.read().strip()[-300:]
            self.close()
            raise RuntimeError(f"{pathlib.Path(command[0]).name} did not start: {log}")

    def close(self):
        self.process.stdin.close()
        self.process.terminate()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self._log.close()


class Messages:
    """The contract's messages, from the descriptor set that the build makes."""

    def __init__(self, protoset):
        pool = descriptor_pool.DescriptorPool()
        for file in descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(protoset).read_bytes()).file:
            pool.Add(file)
        self._pool = pool

    def __getattr__(self, name):
        return message_factory.GetMessageClass(self._pool.FindMessageTypeByName(f"phasor.v1.{name}"))


class Wire:
    def __init__(self, setting, address, protoset):
        self.setting, self.rows = setting, setting.size(131072, 4096)
        self.pb = Messages(protoset)
        self.channel = grpc.insecure_channel(address, options=UNLIMITED)
        self.out = setting.memory((self.rows, HEAD_DIM))
        self.bytes = self.out.reshape(-1).view(np.uint8)
        item = self.pb.PrecomputeItem()
        item.spec.rope.head_dim = HEAD_DIM
        item.table.form = 4  # concatenated: one array
        item.table.positions.range.count = self.rows
        self.unary = self.pb.PrecomputeRequest(items=[item])
        self.stream = self.pb.StreamPrecomputeRequest(items=[item])
        half = HEAD_DIM // 2
        angles = np.multiply.outer(np.arange(self.rows), 10000.0 ** (-np.arange(half) / half))
        self.want = np.concatenate([np.cos(angles), np.sin(angles)], -1)

    def add(self, case, name, call, allowed=6e-8):
        def compare():
            self.out[...] = 7
            return difference((call().reshape(self.want.shape), self.want))
        case.add(name, call, compare, allowed)

    def phasor(self, case):
        kernels = self.setting.kernels
        copied = self.setting.memory(self.out.shape)
        case.add("memcpy", lambda: kernels.copy(copied, self.out, self.out.nbytes), lambda: 0, 0)
        stream, unary = ({"request_serializer": request.SerializeToString} for request in (self.pb.StreamPrecomputeRequest,
                                                                                        self.pb.PrecomputeRequest))
        streamed = self.channel.unary_stream(SERVICE + "StreamPrecompute", **stream,
                                             response_deserializer=self.pb.StreamPrecomputeResponse.FromString)
        streamed_raw = self.channel.unary_stream(SERVICE + "StreamPrecompute", **stream)
        called = self.channel.unary_unary(SERVICE + "Precompute", **unary,
                                          response_deserializer=self.pb.PrecomputeResponse.FromString)
        called_raw = self.channel.unary_unary(SERVICE + "Precompute", **unary)

        def whole(at):
            if at != self.out.nbytes:
                raise RuntimeError(f"{at} bytes came instead of {self.out.nbytes}")
            return self.out

        def put(at, data):
            self.bytes[at:at + len(data)] = np.frombuffer(data, np.uint8)
            return at + len(data)

        def by_stream():
            at = 0
            for message in streamed(self.stream):
                if message.WhichOneof("part") == "chunk":
                    at = put(message.chunk.offset_bytes, message.chunk.arrays[0].data)
            return whole(at)

        def by_raw_stream():
            at = 0
            for message in streamed_raw(self.stream):
                for data in protobuf_fields.find(message, 3, 2, 100):  # chunk.arrays.data
                    at = put(at, data)
            return whole(at)

        def by_unary():
            return np.frombuffer(called(self.unary).results[0].table.data, np.float32)

        def by_raw_unary():
            data, = protobuf_fields.find(called_raw(self.unary), 1, 102, 100)  # results.table.data
            return np.frombuffer(data, np.float32)

        self.add(case, "phasor stream, generated messages", by_stream)
        self.add(case, "phasor stream, raw messages", by_raw_stream)
        self.add(case, "phasor unary, raw message", by_raw_unary)
        self.add(case, "phasor unary, generated message", by_unary)

    def flight(self, case, flight, processes):
        server = Process(sys.executable, str(pathlib.Path(__file__).with_name("flight_server.py")), str(self.rows), str(HEAD_DIM))
        processes.append(server)
        client = flight.connect(f"grpc://{server.address}")

        def in_batches():
            at, flat = 0, self.out.reshape(-1)
            for batch in client.do_get(flight.Ticket(str(BATCH).encode())):
                values = batch.data.column(0).to_numpy()
                flat[at:at + values.size] = values
                at += values.size
            return self.out

        def in_one():
            return client.do_get(flight.Ticket(str(self.out.nbytes).encode())).read_all().column(0).chunk(0).to_numpy()

        self.add(case, "Flight, batches of 1 MiB", in_batches)
        self.add(case, "Flight, one batch, not copied", in_one)


def measured(setting, phasord, protoset, run):
    """Calls `run` with the case while the servers are up; returns what it returned."""
    processes = [Process(phasord, *FLAGS)]
    try:
        wire = Wire(setting, processes[0].address, protoset)
        case = Case(f"table [{wire.rows}, {HEAD_DIM}] f32 to a Python client over loopback", wire.out.nbytes)
        wire.phasor(case)
        case.peer(lambda case, flight: wire.flight(case, flight, processes), "pyarrow.flight", package="pyarrow")
        for stream in ("phasor stream, generated messages", "phasor stream, raw messages"):
            case.within("wire", stream, "Flight, batches of 1 MiB", 1.3)
            case.faster("wire", stream, "phasor unary, raw message", 1.6)
        result = run(case)
        wire.channel.close()
        return result
    finally:
        for process in processes:
            process.close()
