"""phasord as an operator meets it: flags, variables, the ready line, signals, exit codes.

    phasord_test.py PHASORD
"""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

PHASORD = sys.argv.pop(1)
QUICK = ["--listen=127.0.0.1:0", "--metrics-listen=127.0.0.1:0", "--drain-delay=0"]


def environment(**more):
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PHASOR_")}
    return clean | more


def run(*flags, **variables):
    return subprocess.run([PHASORD, *flags], env=environment(**variables), capture_output=True, text=True, timeout=60)


class Running:
    """A server that has said that it is ready."""

    def __init__(self, *flags, **variables):
        self.process = subprocess.Popen(
            [PHASORD, *flags], env=environment(**variables), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.ready = self.process.stdout.readline()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def stop(self, number):
        """Exit code, what else was printed, the log."""
        self.process.send_signal(number)
        out, log = self.process.communicate(timeout=60)
        return self.process.returncode, out, log


class PhasordTest(unittest.TestCase):
    def test_ready_line_and_sigterm(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with Running(*QUICK) as server:
                self.assertRegex(server.ready, r"^listening on 127\.0\.0\.1:\d+\n$")
                host, port = server.ready.split()[-1].split(":")
                socket.create_connection((host, int(port)), timeout=10).close()
                code, out, log = server.stop(number)
                self.assertEqual(code, 0, log)
                self.assertEqual(out, "")
                self.assertIn("draining", log)
                self.assertIn("stopped", log)

    def test_a_ready_line_for_each_listener(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "phasor.sock")
            with Running(*QUICK, f"--listen=unix:{path}", "--listen=127.0.0.1:0") as server:
                watchdog = threading.Timer(20, server.process.kill)  # a line that does not come ends the reading
                watchdog.start()
                lines = [server.ready, server.process.stdout.readline(), server.process.stdout.readline()]
                watchdog.cancel()
                for line in (lines[0], lines[2]):
                    self.assertRegex(line, r"^listening on 127\.0\.0\.1:\d+\n$")
                self.assertNotEqual(lines[0], lines[2])
                self.assertEqual(lines[1], f"listening on unix:{path}\n")
                for line in (lines[0], lines[2]):
                    host, port = line.split()[-1].split(":")
                    socket.create_connection((host, int(port)), timeout=10).close()
                code, out, log = server.stop(signal.SIGTERM)
                self.assertEqual((code, out), (0, ""), log)

    def test_second_signal_exits_at_once(self):
        with Running("--listen=127.0.0.1:0", "--metrics-listen=off", "--drain-delay=60s") as server:
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.5)
            self.assertIsNone(server.process.poll())  # draining
            start = time.monotonic()
            code, _, _ = server.stop(signal.SIGTERM)
            self.assertEqual(code, 128 + signal.SIGTERM)
            self.assertLess(time.monotonic() - start, 20)

    def test_signal_during_start_is_not_lost(self):
        process = subprocess.Popen([PHASORD, *QUICK], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(0.15)
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=60)
        # Before main nothing can be blocked yet; after that the server starts, and drains at once.
        self.assertIn(process.returncode, (0, -signal.SIGTERM), log)

    def test_taken_port(self):
        with Running(*QUICK) as first:
            address = first.ready.split()[-1]
            second = run(f"--listen={address}", "--metrics-listen=off")
            self.assertEqual(second.returncode, 2)
            self.assertEqual(second.stdout, "")
            self.assertIn(address, second.stderr)
            self.assertIn("--listen", second.stderr)

    def test_live_unix_socket_is_taken(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "phasor.sock")
            for flag in ("--listen", "--admin-listen"):
                with Running(*QUICK, f"{flag}=unix:{path}") as first:
                    self.assertTrue(first.ready.startswith("listening on"))
                    for address in (f"unix:{path}", f"unix://{path}"):
                        second = run(*QUICK, f"{flag}={address}")
                        self.assertEqual(second.returncode, 2)
                        self.assertEqual(second.stdout, "")
                        for text in (path, flag, "taken"):
                            self.assertIn(text, second.stderr)
                    with socket.socket(socket.AF_UNIX) as client:
                        client.connect(path)  # the first is still reached there
                    self.assertEqual(first.stop(signal.SIGTERM)[0], 0)
                self.assertFalse(os.path.exists(path))

    def test_stale_unix_socket_is_replaced_and_a_file_is_not(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "phasor.sock")
            with socket.socket(socket.AF_UNIX) as dead:
                dead.bind(path)
            with Running(*QUICK, f"--admin-listen=unix:{path}") as server:
                self.assertTrue(server.ready.startswith("listening on"))
                with socket.socket(socket.AF_UNIX) as client:
                    client.connect(path)
                self.assertEqual(server.stop(signal.SIGTERM)[0], 0)
            with open(path, "w") as file:
                file.write("precious")
            result = run(*QUICK, f"--admin-listen=unix:{path}")
            self.assertEqual(result.returncode, 2)
            self.assertIn("no socket", result.stderr)
            with open(path) as file:
                self.assertEqual(file.read(), "precious")

    def test_check_config_finds_what_a_start_would(self):
        warm = '--warm=positions=1000000,{"rope":{"head_dim":128}}'
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "file")
            open(file, "w").close()
            for flags, text in (
                ([f"--admin-listen=unix:{folder}/no/such/admin.sock"], "no/such"),
                ([f"--admin-listen=unix:{file}/admin.sock"], "folder"),
                ([f"--listen=unix:{file}"], "no socket"),
                ([warm, "--cache-bytes=64MiB"], "--cache-bytes"),
                ([warm, "--cache-bytes=0"], "--cache-bytes"),
                (['--warm=positions=4,{"rope":{"head_dim":64,"base":1e-300}}'], "rope.base"),
                (["--shared-memory-bytes=1MiB", "--shared-memory-regions=0"], "1 to 65536"),
                (["--shared-memory-bytes=1MiB", "--shared-memory-peer-bytes=2MiB"], "1 to 1MiB"),
            ):
                for more in (["--check-config"], []):
                    result = run(*QUICK, *flags, *more)
                    self.assertEqual(result.returncode, 2, (flags, more, result.stderr))
                    self.assertIn(text, result.stderr, (flags, more))
            good = run(f"--admin-listen=unix:{folder}/admin.sock", warm, "--check-config")
            self.assertEqual(good.returncode, 0, good.stderr)

    def test_wrong_flags_exit_two_and_say_what_is_allowed(self):
        for flags, text in (
            (["--threads=many"], "0 to 1024"),
            (["--backend=tpu"], "auto"),
            (["--cache-bytes=1GB"], "GiB"),
            (["--listen=nowhere"], "HOST:PORT"),
            (["--admin-listen=0.0.0.0:1"], "loopback"),
            (["--admin-listen=unix:"], "PATH"),
            (["--admin-listen=unix://"], "PATH"),
            (["--admin-listen=unix://host/path"], "PATH"),
            (["--admin-listen=unix:/tmp/"], "PATH"),
            (["--admin-listen=unix:."], "PATH"),
            (["--admin-listen=unix-abstract:5"], "PATH"),
            (["--listen=unix:"], "PATH"),
            (["--listen=unix-abstract:5"], "PATH"),
            (["--listen=unix:/" + 200 * "x"], "107"),
            (["--listen=unix:/tmp/a%62"], "%"),
            (["--listen=unix:/tmp/a,unix:///tmp/a"], "once"),
            (["--warm=/no/such/config.json"], "/no/such/config.json"),
            (["--nonsense"], "--nonsense"),
        ):
            result = run(*flags, "--check-config")
            self.assertEqual(result.returncode, 2, flags)
            self.assertIn(text, result.stderr, flags)

    def test_variables(self):
        result = run("--check-config", PHASOR_MAX_QUEUE="none")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--max-queue", result.stderr)
        self.assertEqual(run("--check-config", PHASOR_MAX_QUEUE="5").returncode, 0)
        with Running(
            PHASOR_LISTEN="127.0.0.1:0", PHASOR_METRICS_LISTEN="off", PHASOR_DRAIN_DELAY="0", PHASOR_MAX_HEADS="77", PHASOR_HEDS="1"
        ) as server:
            self.assertTrue(server.ready.startswith("listening on 127.0.0.1:"))
            _, _, log = server.stop(signal.SIGTERM)
            self.assertIn(" max-heads=77 ", log)
            self.assertIn("PHASOR_HEDS", log)

    def test_json_log_is_json(self):
        import json

        with Running(*QUICK, "--log-format=json") as server:
            _, _, log = server.stop(signal.SIGTERM)
        events = [json.loads(line) for line in log.splitlines()]
        self.assertTrue({"backend", "serving", "draining", "stopped"} <= {event["msg"] for event in events})
        for event in events:
            self.assertRegex(event["ts"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")

    def test_metrics_are_scraped_over_http(self):
        with Running(*QUICK) as server:
            log_line = ""
            while "metrics address=" not in log_line:
                log_line = server.process.stderr.readline()
            address = re.search(r"address=(\S+)", log_line).group(1)
            text = urllib.request.urlopen(f"http://{address}/metrics", timeout=20).read().decode()
            self.assertIn("phasor_build_info", text)
            self.assertEqual(server.stop(signal.SIGTERM)[0], 0)

    def test_print_and_exit_flags(self):
        metrics = run("--print-metrics")
        self.assertEqual(metrics.returncode, 0)
        self.assertIn("# TYPE phasor_requests_total counter", metrics.stdout)
        self.assertEqual(run("--version").returncode, 0)
        help_text = run("--help")
        self.assertEqual(help_text.returncode, 0)
        self.assertIn("PHASOR_LISTEN", help_text.stdout)

    def test_reference_backend_and_forced_target_start(self):
        for flag in ("--backend=reference", "--cpu-target=scalar"):
            with Running(*QUICK, flag) as server:
                self.assertTrue(server.ready.startswith("listening on"))
                self.assertEqual(server.stop(signal.SIGTERM)[0], 0)


if __name__ == "__main__":
    unittest.main()
