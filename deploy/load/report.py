#!/usr/bin/env python3
"""Prints one line per ghz result (JSON files named SCENARIO.WAY.json) and fails when a call failed.

    report.py FOLDER
"""

import json
import pathlib
import sys


def quantile(ordered, share):
    """The smallest value with at least `share` of all values at or below it."""
    return ordered[max(0, -(-len(ordered) * share // 1000) - 1)]


def main(folder):
    print(f"{'scenario':<14}{'found by':<12}{'calls':>9}{'calls/s':>10}{'p50 ms':>9}{'p99 ms':>9}{'p99.9 ms':>10}{'errors':>8}")
    errors = runs = 0
    for path in sorted(pathlib.Path(folder).glob("*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        scenario, way = path.stem.split(".")
        codes = result["statusCodeDistribution"]
        failed = sum(count for code, count in codes.items() if code != "OK")
        latencies = sorted(call["latency"] for call in result["details"] if call["status"] == "OK")
        p50, p99, p999 = (quantile(latencies, share) / 1e6 if latencies else float("nan") for share in (500, 990, 999))
        print(f"{scenario:<14}{way:<12}{result['count']:>9}{result['rps']:>10.0f}{p50:>9.2f}{p99:>9.2f}{p999:>10.2f}{failed:>8}")
        for code, count in codes.items():
            if code != "OK":
                print(f"    {code}: {count}")
        errors += failed
        runs += 1
    return 0 if runs and not errors else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
