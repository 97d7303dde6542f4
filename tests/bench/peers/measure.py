"""Round-robin timing, gates and their table. Needs nothing but Python, so that it can be tested anywhere."""

import gc
import importlib
import json
import math
import os
import pathlib
import statistics
import sys
import time
import traceback


def reason(error):
    """An exception in a line."""
    text = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {text}"[:200]


def not_installed(package, notes=pathlib.Path(sys.prefix) / "not-installed.txt"):
    """What the installer noted about a package that it could not have, or None."""
    if notes.is_file():
        for line in notes.read_text().splitlines():
            if line.partition("==")[0] == package:
                return line
    return None


class Case:
    """One job, done by several contestants on the same data, and what their ratios must be.

    `what` says what the job is, `bytes` how much memory the result takes (for GB/s). A contestant's result is compared before
    anything is timed: one that is wrong is not timed at all.
    """

    def __init__(self, what, size_bytes):
        self.what, self.bytes = what, size_bytes
        self.contestants, self.gates, self.notes, self.failures, self.absent = {}, [], [], [], {}

    def add(self, name, call, difference, allowed, optional=False):
        """`difference` calls once and returns the largest difference from what is right, at most `allowed`; an optional
        contestant may fail to run, which is noted."""
        if name in self.contestants:
            raise ValueError(f"two contestants are named {name}")
        self.contestants[name] = {"call": call, "compare": difference, "allowed": allowed, "optional": optional}

    def peer(self, add, *modules, package=None):
        """Calls add(case, *modules). Without the modules the reason is noted, and gates on this peer say it."""
        package = package or modules[0]
        try:
            loaded = [importlib.import_module(module) for module in modules]
        except ImportError as error:
            self.absent[package] = not_installed(package) or reason(error)
            self.notes.append(f"{package} is not there: {self.absent[package]}")
            return
        try:
            add(self, *loaded)
        except Exception as error:  # installed, but it does not work: everything else is measured all the same
            self.fail(package, error)

    def fail(self, name, error):
        place = traceback.extract_tb(error.__traceback__)[-1] if error.__traceback__ else None
        self.failures.append(f"{name}: {reason(error)}" + (f" ({os.path.basename(place.filename)}:{place.lineno})" if place else ""))

    def faster(self, gate, ours, peer, limit):
        """`ours` must be at least `limit` times as fast as `peer`."""
        self.gates.append({"gate": gate, "numerator": ours, "denominator": peer, "limit": limit, "at_least": True})

    def within(self, gate, ours, peer, limit):
        """`ours` may take up to `limit` times as long as `peer`."""
        self.gates.append({"gate": gate, "numerator": ours, "denominator": peer, "limit": limit, "at_least": False})

    def compare(self):
        for name, contestant in list(self.contestants.items()):
            try:
                contestant["difference"] = float(contestant["compare"]())
            except Exception as error:
                del self.contestants[name]
                if contestant["optional"]:
                    self.notes.append(f"{name} does not run here: {reason(error)}")
                    self.absent[name] = reason(error)
                else:
                    self.fail(name, error)
                continue
            if not contestant["difference"] <= contestant["allowed"]:  # also NaN
                del self.contestants[name]
                self.failures.append(
                    f"{name}: wrong by {contestant['difference']:.3g}, allowed are {contestant['allowed']:.3g}")

    def take_times(self, names, rounds, pause, clock):
        """A B C, C B A, A B C …: what is slow for a while is slow for everybody. Seconds of each round by name."""
        seconds = {name: [] for name in self.contestants if name in names}
        gc.collect()
        gc.disable()
        try:
            for turn in range(rounds):
                for name in seconds if turn % 2 == 0 else reversed(seconds):
                    time.sleep(pause)  # threads of OpenMP and the like spin for a while after their work
                    call, start = self.contestants[name]["call"], clock()
                    call()
                    seconds[name].append(clock() - start)
        finally:
            gc.enable()
        return seconds

    def run(self, rounds=9, pause=0.01, clock=time.perf_counter, repeat=True):
        """Everything as a dictionary for JSON. Gates that miss their limits are measured once more, on their own; both ratios are
        kept, rows show the first times."""
        before = os.getloadavg()[0]
        self.compare()
        seconds = self.take_times(self.contestants, rounds, pause, clock)
        gates = []
        for gate in self.gates:
            ratio = ratio_of(gate, seconds)
            missing = next((name for name in (gate["numerator"], gate["denominator"]) if name not in seconds), None)
            gates.append({**gate, "ratio": ratio, "by_min": ratio_of(gate, seconds, min), "first": None,
                          "holds": holds(gate, ratio), "missing": missing})
        again = [gate for gate in gates if repeat and not gate["holds"] and not gate["missing"]]
        if again:
            names = {gate[side] for gate in again for side in ("numerator", "denominator")}
            second = self.take_times(names, rounds, pause, clock)
            for gate in again:
                ratio = ratio_of(gate, second)
                gate.update(first=gate["ratio"], ratio=ratio, by_min=ratio_of(gate, second, min), holds=holds(gate, ratio))
        rows = [{"name": name, "ms": statistics.median(times) * 1e3, "min_ms": min(times) * 1e3, "rounds": len(times),
                 "difference": self.contestants[name]["difference"]} for name, times in seconds.items()]
        return {"what": self.what, "bytes": self.bytes, "load": [before, os.getloadavg()[0]], "rows": rows, "gates": gates,
                "notes": self.notes, "failures": self.failures, "absent": self.absent}


def ratio_of(gate, seconds, typical=statistics.median):
    """None where one of the two was not measured."""
    if gate["numerator"] not in seconds or gate["denominator"] not in seconds:
        return None
    ours, peer = (typical(seconds[gate[side]]) for side in ("numerator", "denominator"))
    return peer / ours if gate["at_least"] else ours / peer


def holds(gate, ratio):
    if ratio is None:
        return False
    return ratio >= gate["limit"] if gate["at_least"] else ratio <= gate["limit"]


def format_case(result, setting):
    lines = [f"== {result['what']}, {setting}; load {result['load'][0]:.1f} to {result['load'][1]:.1f}"]
    base = result["rows"][0]["ms"] if result["rows"] else math.nan
    lines.append(f"   {'':58s} {'median ms':>10s} {'min ms':>9s} {'GB/s':>6s} {'÷ first':>8s} {'difference':>10s}")
    for row in result["rows"]:
        lines.append(f"   {row['name']:58s} {row['ms']:10.3f} {row['min_ms']:9.3f} {result['bytes'] / row['ms'] * 1e-6:6.1f}"
                     f" {row['ms'] / base:8.2f} {row['difference']:10.2g}")
    lines += [f"   note: {note}" for note in result["notes"]] + [f"   FAILED: {failure}" for failure in result["failures"]]
    return "\n".join(lines)


def gate_name(gate, setting):
    relation = "times as fast as" if gate["at_least"] else "time over"
    return f"{gate['gate']}: {gate['numerator']}, {relation} {gate['denominator']}, {setting}"


def format_gates(gates):
    """`gates`: pairs of a gate and its setting."""
    # What else runs only ever adds to a round: on a busy machine the ratio of the shortest rounds tells more.
    lines = [f"{'gate':120s} {'ratio':>7s} {'by min':>7s} {'limit':>7s}  holds"]
    for gate, setting in gates:
        sign = "≥" if gate["at_least"] else "≤"
        if gate["ratio"] is None:
            lines.append(f"{gate_name(gate, setting):120s} {'–':>7s} {'–':>7s} {sign}{gate['limit']:6.3g}  not measured: no {gate['missing']}")
            continue
        first = "" if gate["first"] is None else f"  (first run {gate['first']:.2f})"
        lines.append(f"{gate_name(gate, setting):120s} {gate['ratio']:7.2f} {gate['by_min']:7.2f} {sign}{gate['limit']:6.3g}  "
                     f"{'yes' if gate['holds'] else 'NO'}{first}")
    return "\n".join(lines)


def write_json(gates, path):
    """As build/bench.json has it; what was not measured has the ratio −1 and does not hold."""
    rows = [{"gate": gate_name(gate, setting), "ratio": -1 if gate["ratio"] is None else round(gate["ratio"], 6),
             "limit": gate["limit"], "at_least": gate["at_least"], "holds": gate["holds"]} for gate, setting in gates]
    text = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in rows)
    pathlib.Path(path).write_text(f"[\n{text}\n]\n", encoding="utf-8")
