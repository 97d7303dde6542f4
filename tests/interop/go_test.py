"""Builds the Go client from the protos and runs its tests; prints why and exits with 77 when Go's modules cannot be had.

The module and its pins are in go/. A copy of it in the build folder gets the generated code, made by README.md's own commands with
the plugins at the versions that go.mod pins, and README.md's example, which is then run.
"""

import os
import pathlib
import shutil
import subprocess
import sys

from readme import blocks
import serving

SKIPPED = 77
PLUGINS = ["google.golang.org/protobuf/cmd/protoc-gen-go", "google.golang.org/grpc/cmd/protoc-gen-go-grpc"]


def main():
    work = serving.BUILD / "go"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(serving.SOURCE / "tests" / "interop" / "go", work)
    (work / "proto").symlink_to(serving.PROTO)
    plugins = serving.TOOLS / "bin"
    environment = os.environ | {
        "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false -trimpath",
        "GOOGLEAPIS": str(serving.GOOGLEAPIS), "PATH": f"{plugins}{os.pathsep}{os.environ['PATH']}",
    }

    def run(*command, **options):
        return subprocess.run(command, cwd=work, env=environment, **options)

    def go(*arguments, **options):
        return run(serving.tool("go"), *arguments, **options)

    if go("mod", "download").returncode != 0:
        print("skipped: the modules that go.mod pins are not in Go's module cache and could not be fetched (see above).")
        return SKIPPED
    if go("build", "-o", f"{plugins}/", *PLUGINS).returncode != 0:
        return 1
    if run("bash", "-euo", "pipefail", "-c", blocks("bash")[2]).returncode != 0:
        return 1
    if go("test", "-count=1", "-v", ".").returncode != 0:
        return 1

    with serving.Server() as server:
        example = pathlib.Path(work, "readme", "main.go")
        example.parent.mkdir()
        example.write_text(blocks("go", server.address)[0], encoding="utf-8")
        shown = go("run", "./readme", stdout=subprocess.PIPE, text=True)
    print(f"README.md's example: {shown.stdout}", end="")
    return 0 if shown.returncode == 0 and shown.stdout == "[4096 64] 1048576 bytes of cos from cpu\n" else 1


if __name__ == "__main__":
    sys.exit(main())
