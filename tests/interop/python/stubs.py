"""The client's code, made from the protos by grpcio-tools as any user would: `from stubs import pb, rpc`.

pb has every message and enum of phasor.v1 and google.rpc's error details, rpc the stubs. Each process generates into a folder of
its own, so that tests may run side by side.
"""

import atexit
import importlib
import pathlib
import shutil
import sys
import tempfile
import types

import google.protobuf  # before the generated folder is on the path: `google` is one namespace of both
import grpc_tools.protoc

import serving

PROTOS = sorted(path.relative_to(serving.PROTO).as_posix() for path in (serving.PROTO / "phasor").rglob("*.proto"))
ERRORS = ["google/rpc/status.proto", "google/rpc/error_details.proto"]


def _generate():
    serving.BUILD.mkdir(parents=True, exist_ok=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="python-", dir=serving.BUILD))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    includes = [serving.PROTO, serving.GOOGLEAPIS, pathlib.Path(grpc_tools.__file__).parent / "_proto"]
    arguments = ["protoc", *(f"-I{include}" for include in includes), f"--python_out={folder}", f"--grpc_python_out={folder}"]
    if grpc_tools.protoc.main([*arguments, *PROTOS, *ERRORS]) != 0:
        raise RuntimeError("protoc refused the protos")
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()


def _collect(suffix, names):
    joined = types.SimpleNamespace()
    for name in names:
        module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + suffix)
        vars(joined).update({key: value for key, value in vars(module).items() if not key.startswith("_")})
    return joined


_generate()
pb = _collect("_pb2", PROTOS + ERRORS)
rpc = _collect("_pb2_grpc", [name for name in PROTOS if name.endswith("_service.proto")])
