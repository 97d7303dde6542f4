#!/usr/bin/env python3
"""A server on a machine without a usable device: it starts, computes on the CPU, and says why in its log, a metric and its answers.

    no_device_test.py PHASORD PHASOR
"""

import json
import re
import signal
import subprocess
import sys

SKIP = 77


def fail(message):
    print(message)
    sys.exit(1)


def main():
    phasord, phasor = sys.argv[1:]
    libraries = subprocess.run(["ldd", phasord], capture_output=True, text=True, check=True).stdout
    if "cuda" in libraries or "nvidia" in libraries:
        fail(f"the binary needs a CUDA library:\n{libraries}")

    server = subprocess.Popen([phasord, "--listen=127.0.0.1:0", "--metrics-listen=127.0.0.1:0"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().split()[-1]
        info = json.loads(subprocess.run([phasor, f"--server={address}", "--json", "info"], capture_output=True, text=True,
                                         check=True, timeout=30).stdout)
        state = {backend["name"]: backend for backend in info["backends"]}
        if state["cuda"].get("usable"):
            print("skipped: this machine has a device")
            sys.exit(SKIP)
        reason = state["cuda"]["reason"]
        if not reason or info["backend"] != "cpu":
            fail(f"GetServerInfo gives no reason, or another backend: {info}")
    finally:
        server.send_signal(signal.SIGTERM)
        log = server.stderr.read()
        server.wait(timeout=60)
    if server.returncode != 0:
        fail(f"exit code {server.returncode}\n{log}")
    lines = [line for line in log.splitlines() if "backend cannot run here" in line]
    if len(lines) != 1 or "cuda" not in lines[0] or reason.split(":")[0] not in lines[0]:
        fail(f"the log does not say why cuda cannot run ({reason}):\n{log}")

    refused = subprocess.run([phasord, "--backend=cuda", "--check-config"], capture_output=True, text=True, check=False)
    if refused.returncode != 2 or reason.split(":")[0] not in refused.stderr:
        fail(f"--backend=cuda: exit code {refused.returncode}, {refused.stderr}")

    metrics = subprocess.run([phasord, "--print-metrics"], capture_output=True, text=True, check=True).stdout
    if not re.search(r'^phasor_backend_usable\{backend="cuda"\} 0$', metrics, re.MULTILINE):
        fail("no metric says that cuda cannot be used")
    print(f"cuda: {reason}")


if __name__ == "__main__":
    main()
