"""Runs a test with the tools that it needs, or says which are missing and exits with 77, which CTest reports as skipped.

    launch.py TOOLS_FOLDER NEED[,NEED…] TEST [ARGUMENT…]

NEED is a name in TOOLS_FOLDER/bin, "clients" (the Python with grpcio, which then runs the test) or "protoc" (of the system).
"""

import os
import pathlib
import shutil
import sys

SKIPPED = 77


def main(tools, needs, *command):
    tools = pathlib.Path(tools).resolve()
    clients = tools / "clients" / "bin" / "python"
    found = {"clients": os.access(clients, os.X_OK), "protoc": shutil.which("protoc") is not None}
    needs = needs.split(",")
    missing = [need for need in needs if not found.get(need, os.access(tools / "bin" / need, os.X_OK))]
    if missing:
        installable = " ".join(need for need in missing if need != "protoc")
        print(f"skipped: not in {tools}: {', '.join(missing)}. `deploy/install-tools.sh {installable}` puts them there.")
        return SKIPPED
    os.environ["INTEROP_TOOLS"] = str(tools)
    python = str(clients) if "clients" in needs else sys.executable
    os.execv(python, [python, *command])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
