#!/usr/bin/env python3
"""deploy/gpu-check.sh on programs and tools that do what a test says: every step has its line and its JSON, whatever fails,
hangs or is missing, and nothing that fails hides what comes after.

    gpu_check_test.py SOURCE_TREE
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

TREE = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[3]
KERNELS = ["angle", "task", "window", "mask", "add", "table"]
LEFT = ["score", "score_cases", "polar"]
TESTS = [f"{name}_conformance_test" for name in KERNELS + LEFT]
GROUPS = ["rotate", "small"]
ON_DEVICE = '[ "$PHASOR_VARIANTS" = devices ] || exit 8\necho "launches on devices: 12, left to the CPU: 3"'
GATE = '{"gate": "%s \\"µ\\"", "ratio": %s, "limit": 0.8, "at_least": true, "holds": %s}'


def gates(ratios):
    """device_gates, by the ratio of each group; None: it crashes, "hang": it never ends."""
    lines = ['case "$1" in', "--list) printf '%s\\n' " + " ".join(ratios) + " ;;"]
    for group, ratio in ratios.items():
        if ratio is None:
            body = "kill -SEGV $$"
        elif ratio == "hang":
            body = "sleep 1000"
        else:
            holds = ratio >= 0.8
            row = GATE % (group, ratio, "true" if holds else "false")
            verdict = "holds" if holds else "MISSED"
            body = f"echo '{group} {ratio} {verdict}'; echo '{row}' >> \"${{2#--json=}}\"; exit {0 if holds else 1}"
        lines.append(f"--group={group}) {body} ;;")
    return "\n".join([*lines, "esac"])


class Machine:
    """A copy of the script, programs beside it, and a PATH with the tools that a test wants."""

    def __init__(self, tools=()):
        self.root = pathlib.Path(tempfile.mkdtemp())
        (self.root / "deploy").mkdir()
        for name in ("gpu-check.sh", "gpu-server-check.sh"):
            shutil.copy(TREE / "deploy" / name, self.root / "deploy/")
        self.programs = {name: ON_DEVICE for name in TESTS}
        self.programs["cuda_ipc_on_device"] = '[ "$1" != --probe ] || echo "it does: 64 bytes of an allocation of 64"'
        self.programs["device_gates"] = gates({"rotate": 0.9, "small": 0.85})
        self.tools = {"nvidia-smi": 'case "$1" in *=compute_cap) echo 9.0 ;; *=compute_mode) echo Default ;; '
                                    '*) echo "NVIDIA \\"X\\", 580.1, 9.0" ;; esac'}
        self.tools.update(tools)

    def write(self, folder, name, body):
        path = self.root / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n" + body + "\n")
        path.chmod(0o755)

    def run(self, *arguments, folder="programs", **environment):
        for name, body in self.programs.items():
            if body is not None:
                self.write(folder, name, body)
        for name, body in self.tools.items():
            self.write("tools", name, body)
        # Only what every machine has: no compiler, no sanitizer, no profiler but the test's own.
        for name in ("bash sh dirname mkdir rm tr sed grep tail head cut paste tar gzip timeout nproc wc sort tee cat sleep printf "
                     "kill env realpath du date cmp").split():
            if (found := shutil.which(name)) and not (self.root / "tools" / name).exists():
                (self.root / "tools" / name).symlink_to(found)
        done = subprocess.run([str(self.root / "deploy/gpu-check.sh"), *arguments], capture_output=True, text=True, check=False,
                              env={"PATH": str(self.root / "tools"), "LC_ALL": "C.UTF-8", "CUDA_HOME": "/nowhere", **environment})
        self.output = done.stdout + done.stderr
        self.code = done.returncode
        out = pathlib.Path(environment.get("OUT", self.root / "build/gpu-report"))
        self.report = json.loads((out / "report.json").read_text())
        self.steps = {step["step"]: step for step in self.report["steps"]}
        assert self.code >= 0
        assert json.loads((out / "gates.json").read_text()) == self.report["gates"]
        assert (out / "report.txt").read_text() in done.stdout
        assert (out / "logs.tar.gz").stat().st_size > 0
        assert self.report["ok"] == (self.code == 0), self.output
        for name, step in self.steps.items():
            assert name in self.output and step["detail"].isascii(), name
        return self

    def result(self, name):
        return self.steps[name]["result"]


class GpuCheckTest(unittest.TestCase):
    def machine(self, **arguments):
        machine = Machine(**arguments)
        self.addCleanup(shutil.rmtree, machine.root)
        return machine

    def test_all_is_well(self):
        on = self.machine().run("--programs=programs")
        self.assertEqual(on.code, 0, on.output)
        self.assertIn('NVIDIA "X", 580.1, 9.0', on.report["device"])
        self.assertEqual([on.result(test) for test in TESTS], ["ok"] * 9)
        self.assertIn("12", on.steps["task_conformance_test"]["detail"])
        self.assertEqual([gate["ratio"] for gate in on.report["gates"]], [0.9, 0.85])
        self.assertIn("cuMemGetAddressRange on memory of another process: it does: 64 bytes", on.output)
        steps = list(on.steps)
        self.assertLess(steps.index("driver tells the size of mapped memory"), steps.index("angle_conformance_test"))
        for missing in ("a server on the device", "compute-sanitizer memcheck", "ncu of rotations", "nsys of the host path"):
            self.assertEqual(on.result(missing), "not here")

    def test_one_that_fails_hides_nothing(self):
        machine = self.machine()
        machine.programs.update({"task_conformance_test": "echo differs at 3; exit 1", "mask_conformance_test": None,
                                 "window_conformance_test": "kill -SEGV $$", "cuda_ipc_on_device": "echo it does NOT; exit 3",
                                 "device_gates": gates({"rotate": 0.5, "small": None, "table": 0.9})})
        on = machine.run("--programs=programs")
        self.assertEqual(on.code, 1)
        for name in ("task_conformance_test", "mask_conformance_test", "window_conformance_test", "memory of another process",
                     "driver tells the size of mapped memory", "gates small"):
            self.assertEqual(on.result(name), "failed", name)
        self.assertIn("differs at 3", on.steps["task_conformance_test"]["detail"])
        self.assertEqual(on.result("gates rotate"), "missed")
        self.assertEqual([on.result(name) for name in ("add_conformance_test", "gates table")], ["ok", "ok"])
        self.assertEqual([gate["holds"] for gate in on.report["gates"]], [False, True])
        self.assertIn("rotate 0.5 MISSED", on.output)

    def test_what_never_used_a_device_has_shown_nothing(self):
        machine = self.machine()
        machine.programs["add_conformance_test"] = 'echo "launches on devices: 0, left to the CPU: 9"'
        machine.programs["mask_conformance_test"] = "true"
        machine.programs["polar_conformance_test"] = 'echo "launches on devices: 0, left to the CPU: 9"'
        on = machine.run("--programs=programs")
        self.assertEqual([on.result(f"{name}_conformance_test") for name in ("add", "mask", "polar")],
                         ["failed", "failed", "ok"])
        self.assertEqual(on.code, 1)

    def test_what_hangs_is_stopped_and_time_is_kept(self):
        machine = self.machine()
        machine.programs.update({"add_conformance_test": "sleep 1000", "device_gates": gates({"rotate": "hang", "small": 0.9})})
        began = time.monotonic()
        on = machine.run("--programs=programs", BUDGET="8")
        self.assertLess(time.monotonic() - began, 40)
        self.assertEqual(on.code, 1)
        self.assertEqual(on.result("add_conformance_test"), "timed out")
        self.assertEqual(on.result("gates small"), "timed out")
        self.assertIn("no time was left", on.steps["gates small"]["detail"])

    def test_no_device(self):
        machine = self.machine(tools={"nvidia-smi": "exit 9"})
        machine.programs = {name: "echo CUDA driver version is insufficient; exit 77" for name in machine.programs}
        on = machine.run("--programs=programs")
        self.assertEqual(on.code, 1)
        self.assertEqual(on.result("device"), "not here")
        self.assertIn("no usable device", on.steps["memory of another process"]["detail"])
        self.assertEqual(on.result("gates"), "failed")

    def test_tools(self):
        finds = 'echo "========= Invalid __global__ write of size 4"; exit 9'
        # It looks at the right kernels only where it is told which and of which group.
        ncu = ('case "$*" in *"--kernel-name regex:RunBody "*--group=rotate) echo profiled ;; *) exit 1 ;; esac')
        on = self.machine(tools={"compute-sanitizer": f'case "$*" in *initcheck*) {finds} ;; *add_*) echo Device not supported; exit 1 ;; '
                                                      '*) echo "========= ERROR SUMMARY: 0 errors" ;; esac',
                                 "ncu": ncu, "nsys": "echo no report; exit 1"}).run("--programs=programs")
        self.assertEqual(on.code, 1)
        self.assertEqual(on.result("compute-sanitizer memcheck"), "ok")
        self.assertIn("0 errors", on.steps["compute-sanitizer memcheck"]["detail"])
        self.assertEqual(on.result("compute-sanitizer memcheck of additions"), "not here")
        self.assertIn("Device not supported", on.steps["compute-sanitizer memcheck of additions"]["detail"])
        self.assertEqual(on.result("compute-sanitizer initcheck"), "failed")
        self.assertIn("Invalid __global__ write", on.steps["compute-sanitizer initcheck"]["detail"])
        self.assertEqual(on.result("ncu of rotations"), "ok")
        self.assertEqual(on.result("nsys of the host path"), "not here")

    def test_what_fails_only_under_a_tool_has_failed(self):
        sanitizer = ('echo "3 differs from 4"; echo "========= ERROR SUMMARY: 0 errors"; exit 1',
                     'echo "========= Error: Target application terminated before first instrumented API call"; '
                     'echo "========= ERROR SUMMARY: 1 error"; exit 1')
        for body, result, code, detail in zip(sanitizer, ("failed", "not here"), (1, 0), ("3 differs from 4", "does not work")):
            on = self.machine(tools={"compute-sanitizer": body}).run("--programs=programs")
            self.assertEqual(on.result("compute-sanitizer memcheck"), result)
            self.assertIn(detail, on.steps["compute-sanitizer memcheck"]["detail"])
            self.assertEqual(on.code, code, on.output)

    def test_one_process_at_a_time_where_the_device_takes_no_more(self):
        for mode, step in (("Exclusive_Process", "not here"), ("Default", "ok")):
            machine = self.machine()
            machine.tools["nvidia-smi"] = machine.tools["nvidia-smi"].replace("echo Default", f"echo {mode}")
            machine.tools.update({"nproc": "echo 4", "rmdir": f'exec {shutil.which("rmdir")} "$@"'})
            alone = "mkdir held 2> /dev/null || { echo busy; exit 1; }; sleep 0.3; rmdir held\n" if mode != "Default" else ""
            for name in TESTS:
                machine.programs[name] = alone + machine.programs[name]
            on = machine.run("--programs=programs")
            self.assertEqual(on.code, 0, on.output)
            self.assertEqual(on.result("memory of another process"), step)

    def server(self, launches=5, same=True, usable="cuda (no driver)"):
        """A machine where a phasord and a phasor were built."""
        machine = self.machine()
        serve = "\n".join([
            "import http.server, sys", "class Metrics(http.server.BaseHTTPRequestHandler):", "  def do_GET(self):",
            f"    text = b'phasor_device_launches_total{{device=\"0\"}} {launches}\\n'",
            "    self.send_response(200); self.end_headers(); self.wfile.write(text)",
            "server = http.server.HTTPServer(('127.0.0.1', 0), Metrics)",
            "print('x INFO metrics address=127.0.0.1:%d' % server.server_port, file=sys.stderr, flush=True)",
            "print('listening on 127.0.0.1:7', flush=True)", "server.serve_forever()"])
        (machine.root / "serve.py").write_text(serve)
        machine.write("build/bin", "phasord", f'case "$*" in *--check-config*) echo "allowed: {usable}" ;; '
                                              f'*--backend=cuda*) exec {sys.executable} serve.py ;; *) exit 1 ;; esac')
        machine.write("build/bin", "phasor", "for to; do :; done\ncase \"$*\" in *--server=127.0.0.1:7*) echo a > \"$to\" ;; "
                                             f"*--backend=cpu*) echo {'a' if same else 'b'} > \"$to\" ;; *) exit 1 ;; esac")
        return machine.run("--programs=programs")

    def test_a_server_that_was_built_beside(self):
        name = "a server on the device"
        on = self.server()
        self.assertEqual((on.result(name), on.code), ("ok", 0), on.output)
        self.assertIn("launches on devices: 5", on.steps[name]["detail"])
        self.assertEqual([self.server(launches=0).result(name), self.server(same=False).result(name)], ["failed", "failed"])
        self.assertEqual(self.server(usable="cuda (not built in)").result(name), "not here")

    def test_packed_programs_where_nothing_can_be_built(self):
        on = self.machine().run(folder="build/gpu-programs")
        self.assertEqual(on.code, 0, on.output)
        self.assertEqual(on.result("build"), "not here")
        self.assertIn("cmake", on.steps["build"]["detail"])
        self.assertIn("build/gpu-programs", on.steps["programs"]["detail"])
        self.assertEqual(len(on.report["gates"]), 2)

        # As one file.
        machine = self.machine()
        for name, body in machine.programs.items():
            machine.write("elsewhere", name, body)
        (machine.root / "build").mkdir()
        subprocess.run(["tar", "-czf", machine.root / "build/gpu-programs.tar.gz", "-C", machine.root / "elsewhere", "."], check=True)
        on = machine.run(folder="nowhere")
        self.assertEqual(on.code, 0, on.output)
        self.assertEqual(on.result("task_conformance_test"), "ok")

        # The packages are not there, though the tools are.
        tools = {name: "true" for name in ("ninja", "c++", "nvcc")}
        on = self.machine(tools={"cmake": "echo 'CMake Error at CMakeLists.txt:1'; echo '  no absl here'; exit 1", **tools}).run(
            folder="build/gpu-programs")
        self.assertEqual(on.code, 0, on.output)
        self.assertIn("no absl here", on.steps["build"]["detail"])

    def test_neither_built_nor_packed(self):
        on = self.machine().run()
        self.assertEqual(on.code, 1)
        self.assertEqual(on.result("programs"), "failed")

    def test_a_build_for_the_devices_of_the_machine(self):
        machine = self.machine(tools={"ninja": "true", "c++": "true", "nvcc": "true"})
        stub = "; ".join(f"cp programs/{name} build/gpu/tests/" for name in machine.programs)
        machine.tools["cmake"] = f'echo "$@" >> build/asked; case "$1" in --build) mkdir -p build/gpu/tests; {stub} ;; esac'
        machine.tools["cp"] = f'exec {shutil.which("cp")} "$@"'
        machine.write("build/gpu", "CMakeCache.txt", "CMAKE_HOME_DIRECTORY:INTERNAL=/made/elsewhere")
        on = machine.run()
        self.assertEqual(on.code, 0, on.output)
        asked = (machine.root / "build/asked").read_text()
        self.assertIn("-DCMAKE_CUDA_ARCHITECTURES=90-real", asked)
        self.assertIn("-DPHASOR_BUILD_SERVER=OFF", asked)
        self.assertIn("-DPHASOR_SPILLS_ARE_ERRORS=OFF", asked)
        self.assertFalse((machine.root / "build/gpu/CMakeCache.txt").exists(), "another folder's")
        self.assertEqual(on.result("build"), "ok")

    def test_what_was_found_is_there_though_the_script_is_killed(self):
        machine = self.machine()
        machine.programs["cuda_ipc_on_device"] = '[ "$1" = --probe ] || kill -KILL "$(cat script.pid)"; sleep 1'
        script = machine.root / "deploy/gpu-check.sh"
        script.write_text(script.read_text().replace("set -uo pipefail", f"set -uo pipefail; echo $$ > {machine.root}/script.pid"))
        with self.assertRaises(AssertionError):
            machine.run("--programs=programs")
        self.assertEqual(machine.code, -9)
        self.assertEqual(machine.result("driver tells the size of mapped memory"), "ok")

    def test_files_of_others_stay(self):
        machine = self.machine()
        out = machine.root / "mine"
        out.mkdir()
        (out / "notes.json").write_text("{}")
        machine.run("--programs=programs", OUT=str(out))
        self.assertTrue((out / "notes.json").exists())
        self.assertLessEqual(len(os.listdir(out)), 5)

    def test_unknown_arguments(self):
        machine = self.machine()
        done = subprocess.run([str(machine.root / "deploy/gpu-check.sh"), "--nogpu"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--no-gpu", done.stderr)


if __name__ == "__main__":
    unittest.main()
