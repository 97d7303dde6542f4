"""Health as probes see it: per service, for liveness, and while the server drains."""

import json
import signal
import subprocess
import time
import unittest

import serving

READY = ["", "phasor.v1.PositionService", "phasor.v1.CatalogService", "phasor.v1.AdminService",
         "phasor.v1.SharedMemoryService"]
ITEM = {"items": [{"spec": {"rope": {"head_dim": 8}}, "table": {"positions": {"range": {"count": 2}}}}]}
UNKNOWN = 3  # grpc-health-probe's exit codes: the call failed
UNHEALTHY = 4


def probe(server, service):
    return subprocess.run([serving.tool("grpc-health-probe"), "-addr", server.address, "-service", service, "-connect-timeout=10s",
                           "-rpc-timeout=10s"], capture_output=True, text=True, timeout=60)


def precompute(server):
    return subprocess.run([serving.tool("grpcurl"), "-plaintext", "-connect-timeout=3", "-d", json.dumps(ITEM), server.address,
                           "phasor.v1.PositionService/Precompute"], capture_output=True, text=True, timeout=60)


class Health(unittest.TestCase):
    def test_ready_once_it_says_so(self):
        """No waiting: the ready line comes after the self-test."""
        with serving.Server() as server:
            for service in [*READY, "liveness"]:
                result = probe(server, service)
                self.assertEqual((result.returncode, "SERVING" in result.stderr), (0, True), (service, result.stderr))
            self.assertEqual(probe(server, "nonsense").returncode, UNKNOWN)

    def test_draining_is_unready_but_alive_and_still_answers(self):
        with serving.Server("--drain-delay=10s") as server:
            # Watch tells the change without being asked, and its open stream does not hold the end up.
            watch = subprocess.Popen([serving.tool("grpcurl"), "-plaintext", "-d", "{}", server.address, "grpc.health.v1.Health/Watch"],
                                     stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            try:
                self.assertIn("SERVING", watch.stdout.readline() + watch.stdout.readline())
                start = time.monotonic()
                server.process.send_signal(signal.SIGTERM)
                deadline = start + 8
                while probe(server, "").returncode != UNHEALTHY and time.monotonic() < deadline:
                    time.sleep(0.05)
                for service in READY:
                    result = probe(server, service)
                    self.assertEqual((result.returncode, "NOT_SERVING" in result.stderr), (UNHEALTHY, True), (service, result.stderr))
                self.assertEqual(probe(server, "liveness").returncode, 0)
                answer = precompute(server)
                self.assertEqual(answer.returncode, 0, answer.stderr)
                self.assertIsNone(server.process.poll())
                self.assertEqual(server.process.wait(timeout=60), 0)
                self.assertGreaterEqual(time.monotonic() - start, 10)
                self.assertIn("NOT_SERVING", watch.communicate(timeout=30)[0])
                self.assertNotEqual(precompute(server).returncode, 0)
            finally:
                if watch.poll() is None:
                    watch.kill()
                watch.communicate()


if __name__ == "__main__":
    unittest.main()
