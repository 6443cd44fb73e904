"""Faulty and fixed programs on SMT siblings: `qemu_pairs.py [REPEATS] [FOLDER]`, as root.

`fixtures/record_qemu.sh pairs` boots Linux on two emulated cores with two siblings each, and
records each faulty program and the fixed one in turn. The emulated siblings of a core share one CPU
of this machine. Predicts the fix from the faulty recording alone, and compares it with the
throughput that the workload reported. FOLDER keeps the kernel and the recordings; runs that it
contains are not recorded again. Each pair is a line on stderr.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import linux_pairs
from linux_pairs import Answers, Kind

ROOT = Path(__file__).resolve().parents[2]
# As the kernel truncates it.
PROCESS = "schedlens-workl"

# The steps of fixtures/qemu_plan_pairs.sh.
KINDS = {
    "pinned": Kind(PROCESS, "affinity sha256*=0,2"),
    "visitor": Kind(PROCESS, "remove sh"),
}


def recorded(work: Path, repeats: int) -> Path:
    """The session with the faulty and fixed runs of each repeat."""
    subprocess.run(
        [str(ROOT / "fixtures/record_qemu.sh"), "pairs"],
        env={**os.environ, "WORK": str(work), "REPEATS": str(repeats), "PYTHON": sys.executable},
        stdout=sys.stderr,
        check=True,
    )
    return work / "pairs"


def measured(step: Path) -> float:
    """Bytes per second that the workload of a step reports."""
    workload = json.loads((step / "workload.json").read_text(encoding="utf-8"))
    return float(workload["measured"]["bytes_per_s"])


def compared(session: Path) -> list[Answers]:
    """True and predicted ratios of each kind in an analyzed session."""
    found = {kind: Answers(kind) for kind in KINDS}
    with contextlib.closing(
        duckdb.connect(str(session / "analysis.duckdb"), read_only=True)
    ) as con:
        traces = con.execute("SELECT trace_id, label FROM trace ORDER BY trace_id").fetchall()
        for trace_id, label in traces:
            named = re.fullmatch(r"(\w+)-faulty-(r\d+)", label)
            if named is None:
                continue
            kind, repeat = named.groups()
            true = measured(session / f"{kind}-fixed-{repeat}") / measured(session / label)
            found[kind].add(true, linux_pairs.ratio(con, trace_id, KINDS[kind]))
    return list(found.values())


def main() -> int:
    """Prints a line for each kind: the true ratio, the predictions, and how many contain it."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else linux_pairs.REPEATS
    if os.geteuid() != 0:
        print("qemu_pairs.py: must run as root, to weigh the emulated machine", file=sys.stderr)
        return 2
    linux_pairs.weigh_most()
    with contextlib.ExitStack() as stack:
        work = Path(sys.argv[2] if len(sys.argv) > 2 else
                    stack.enter_context(tempfile.TemporaryDirectory()))  # fmt: skip
        session = recorded(work.resolve(), repeats)
        linux_pairs.analyzed(session)
        print(linux_pairs.HEADER)
        for answers in compared(session):
            print(answers.row())
    return 0


if __name__ == "__main__":
    sys.exit(main())
