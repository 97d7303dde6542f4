"""phasord as an operator meets it: flags, variables, the ready line, signals, exit codes.

    phasord_test.py PHASORD
"""

import os
import re
import signal
import socket
import subprocess
import sys
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

    def test_wrong_flags_exit_two_and_say_what_is_allowed(self):
        for flags, text in (
            (["--threads=many"], "0 to 1024"),
            (["--backend=tpu"], "auto"),
            (["--cache-bytes=1GB"], "GiB"),
            (["--listen=nowhere"], "HOST:PORT"),
            (["--admin-listen=0.0.0.0:1"], "loopback"),
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
