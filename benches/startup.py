"""Measures what a command costs before it has anything to do, as ratios within one run.

The processor time of `--help` and of `analyze` on a small recording, from start to report, each in
a process of its own; once with an empty cache, and for each further recording of a session. They
are compared with the time that importing DuckDB and pyarrow takes, which no analysis can avoid.
Prints one JSON object; `--rounds N`.
"""

from __future__ import annotations

import json
import lzma
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from schedlens.commands.cli import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
RECORDING = ROOT / "fixtures" / "perf" / "plain.perf.data.xz"
ROUNDS = 5
BIN = Path(sys.executable).parent
IMPORTS, HELP = "imports", " --help"
FURTHER = 7


def measured(rounds: int) -> dict[str, list[float]]:
    """Processor time of each command in s, in each round."""
    with tempfile.TemporaryDirectory(prefix="schedlens-bench-") as name:
        home = Path(name)
        traces = [home / f"{number}.perf.data" for number in range(1 + FURTHER)]
        for trace in traces:
            trace.write_bytes(lzma.decompress(RECORDING.read_bytes()))
        # As users start it: with compiled modules.
        environment = {
            **os.environ,
            "SCHEDLENS_CACHE_DIR": str(home / "cache"),
        }
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        analyze = [str(BIN / "analyze"), "-o", str(home / "out"), str(traces[0])]
        commands = {
            IMPORTS: [sys.executable, "-c", "import duckdb, pyarrow"],
            **{
                f"{command}{HELP}": [str(BIN / "schedlens"), command, "--help"]
                for command in COMMANDS
            },
            "analyze": analyze,
        }
        for command in commands.values():
            spent(command, environment)
        found: dict[str, list[float]] = {}
        for number in range(rounds):
            for label, command in commands.items():
                found.setdefault(label, []).append(spent(command, environment))
            fresh = {**environment, "SCHEDLENS_CACHE_DIR": str(home / f"cache{number}")}
            found.setdefault("analyze, first time", []).append(spent(analyze, fresh))
            session = spent([*analyze, *map(str, traces[1:])], environment)
            further = (session - found["analyze"][-1]) / FURTHER
            found.setdefault("analyze, further recording", []).append(further)
    return found


def spent(command: list[str], environment: dict[str, str]) -> float:
    """Processor time of a command in s."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(arguments: list[str]) -> int:
    """Prints median and least s of each command, and the least in units of the imports."""
    rounds = int(arguments[1]) if arguments[:1] == ["--rounds"] else ROUNDS
    found = measured(rounds)
    least = min(found[IMPORTS])
    result = {
        label: {
            "median_s": round(statistics.median(times), 3),
            "least_s": round(min(times), 3),
            "times_imports": round(min(times) / least, 2),
        }
        for label, times in found.items()
    }
    print(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
