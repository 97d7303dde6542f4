"""A phasord of a test's own, and the surroundings that CMake tells about (INTEROP_…)."""

import os
import pathlib
import signal
import subprocess
import tempfile

PHASORD = os.environ["INTEROP_PHASORD"]
PROTO = pathlib.Path(os.environ["INTEROP_PROTO"])
GOOGLEAPIS = pathlib.Path(os.environ["INTEROP_GOOGLEAPIS"])
PROTOSET = pathlib.Path(os.environ["INTEROP_PROTOSET"])
BUILD = pathlib.Path(os.environ["INTEROP_BUILD"])
TOOLS = pathlib.Path(os.environ["INTEROP_TOOLS"])
SOURCE = pathlib.Path(os.environ["INTEROP_SOURCE"])
# Built with sanitizers: several times slower, and most of the memory is theirs.
SANITIZED = bool(os.environ["INTEROP_SANITIZED"])


def tool(name):
    return str(TOOLS / "bin" / name)


USUAL = {"--listen": "127.0.0.1:0", "--metrics-listen": "off", "--drain-delay": "0", "--log-access-every": "0"}


class Server:
    """phasord on free loopback ports, from ready to stopped. `flags`, as --name=value, replace the usual ones."""

    def __init__(self, *flags):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PHASOR_")}
        # A file, not a pipe: nobody reads the log while the test runs, and a full pipe would stop the server.
        self._log = tempfile.TemporaryFile(mode="w+")
        values = USUAL | dict(flag.split("=", 1) for flag in flags)
        self.process = subprocess.Popen([PHASORD, *(f"{name}={value}" for name, value in values.items())],
                                        env=environment, stdout=subprocess.PIPE, stderr=self._log, text=True)
        ready = self.process.stdout.readline()
        if not ready.startswith("listening on "):
            log = self.log()
            self.close()
            raise RuntimeError(f"phasord did not start: {log}")
        self.address = ready.split()[-1]

    def log(self):
        self._log.seek(0)
        return self._log.read()

    def memory(self, name="VmRSS"):
        """Bytes: VmRSS is what is resident now, VmHWM what was at most; 0 with sanitizers, where neither says anything."""
        if SANITIZED:
            return 0
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
        raise KeyError(name)

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def close(self):
        """Drains the server and returns its exit code; kills it only when it does not end."""
        if self.process.poll() is None:
            self.terminate()
        try:
            code = self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.process.stdout.close()
        self._log.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
