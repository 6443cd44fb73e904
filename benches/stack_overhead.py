"""What recording costs, with and without stacks and samples: each against a run without it.

`python benches/stack_overhead.py [--rounds 5] [--seconds 2]`: in each round, and for each setting
in turn, `collect --workload` measures the throughput of a kernel without and then with the
recorder. Prints the median ratio of both and its range over the rounds, and what was written.
`spin_handoff --how park` has two threads that do nothing but wake each other: the worst case.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

COLLECT = str(Path(sys.executable).parent / "collect")
SETTINGS: dict[str, list[str]] = {
    "scheduling only": [],
    "--samples 99": ["--samples", "99"],
    "--samples 999": ["--samples", "999"],
    "--stacks fp": ["--stacks", "fp", "--samples", "0"],
    "--stacks fp --samples 99": ["--stacks", "fp"],
    "--stacks dwarf": ["--stacks", "dwarf", "--samples", "0"],
}
KERNELS = {"spin_handoff": ["--how", "park", "--threads", "2"], "sha256": ["--threads", "1"]}


def measured(kernel: str, setting: str, seconds: float) -> tuple[float, float]:
    """The ratio of the throughput with the recorder to that without, and MB written a second."""
    with tempfile.TemporaryDirectory() as place:
        session = Path(place) / "session"
        subprocess.run(
            [COLLECT, "--workload", kernel, *KERNELS[kernel], "--placement", "default",
             "--seconds", str(seconds), *SETTINGS[setting], "-o", str(session)],
            check=False, capture_output=True,
        )  # fmt: skip
        (step,) = session.glob("*/step.json")
        overhead = json.loads(step.read_text())["overhead"]
        written = (step.parent / "perf.data").stat().st_size
        return overhead["recorded_per_s"] / overhead["baseline_per_s"], written / 1e6 / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    given = parser.parse_args()
    found: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for _ in range(given.rounds):
        for kernel in KERNELS:
            for setting in SETTINGS:
                found[kernel, setting].append(measured(kernel, setting, given.seconds))
    for (kernel, setting), pairs in found.items():
        ratios = [ratio for ratio, _ in pairs]
        rate = statistics.median(mb for _, mb in pairs)
        print(
            f"{kernel:13} {setting:25} {statistics.median(ratios):.2f} "
            f"({min(ratios):.2f} to {max(ratios):.2f}) of the throughput, {rate:.2f} MB a second"
        )


if __name__ == "__main__":
    main()
