"""Faulty and fixed programs on this Linux: `linux_pairs.py [REPEATS] [KIND...]`, as root.

Records each faulty program and the fixed one in turn, predicts the fix from the first recording
alone, and compares it with what the programs measured: they count their own iterations, or measure
their own responses. The programs get most of the machine by the nice value of their autogroup, so
that others disturb little. Each pair is a line on stderr.
"""

from __future__ import annotations

import contextlib
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import linux_faults

from schedlens.replay import alterations, prediction

SECONDS = 2.0
GROUP = Path("/sys/fs/cgroup/cpu/schedlens-pair")
MOST_SHARES = 262_144
REPEATS = 10


@dataclass(frozen=True)
class Kind:
    """A fault and its fix."""

    process: str
    """Whose work or responses count."""
    change: str
    figure: str = "throughput"


# Names of processes are those that the programs below set.
KINDS = {
    "nice": Kind("work", "nice bg=19"),
    "background": Kind("work", "remove bg"),
    "affinity": Kind("work", "affinity work=any"),
    "quota": Kind("work", "quota /schedlens-pair=none"),
    "half_quota": Kind("work", "quota /schedlens-pair=0.8"),
    "work": Kind("work", "work work=-30%"),
    "crowd": Kind("work", "remove bg"),
    "real_time": Kind("work", "remove bg"),
    "hand_off": Kind("ping", "affinity *=1"),
    "game": Kind("game", "nice bg=19", "p95"),
}


def _count(work: int = 1000) -> None:
    """Counts pieces of work; each is a loop."""
    total, pieces, began = 0, 0, time.monotonic()
    until = began + SECONDS
    while time.monotonic() < until:
        for number in range(work):
            total += number
        pieces += 1
    _say("pieces", pieces / (time.monotonic() - began), pieces / time.process_time())


def _say(name: str, *values: float) -> None:
    """A line in one write: several processes print."""
    os.write(1, f"{name} {' '.join(map(str, values))}\n".encode("ascii"))


def _answer() -> None:
    """Works 4 ms of each 16, and prints the 95th percentile of the time that a turn takes."""
    spent: list[float] = []
    due = time.monotonic()
    pieces = _pieces_in(0.004)
    while len(spent) < SECONDS / 0.016:
        due += 0.016
        time.sleep(max(0.0, due - time.monotonic()))
        for _ in range(pieces):
            sum(range(1000))
        spent.append(time.monotonic() - due)
    _say("p95", sorted(spent)[round(0.95 * (len(spent) - 1))])


def _pieces_in(seconds: float) -> int:
    """Pieces of work that an undisturbed CPU does in that time."""
    best = float("inf")
    for _ in range(20):
        began = time.perf_counter()
        for _ in range(20):
            sum(range(1000))
        best = min(best, time.perf_counter() - began)
    return max(1, round(seconds * 20 / best))


def _play(kind: str, fixed: bool) -> None:
    """Starts the processes of a kind and waits for them."""
    weigh_most()
    both = sorted(os.sched_getaffinity(0))[:2]
    bodies: list[tuple[str, Callable[[], None]]] = []

    def of(name: str, number: int, body: Callable[[], None], **how: object) -> None:
        bodies.extend([(name, lambda: _as(name, body, **how))] * number)  # type: ignore[arg-type]

    def spin() -> None:
        linux_faults.spin(SECONDS)

    if kind == "nice":
        of("work", 1, _count, cpus=both)
        of("bg", 2, spin, cpus=both, nice=19 if fixed else 5)
    elif kind == "background":
        of("work", 2, _count, cpus=both)
        of("bg", 0 if fixed else 2, spin, cpus=both)
    elif kind == "affinity":
        of("work", 2, _count, cpus=both if fixed else both[:1])
    elif kind in {"quota", "half_quota"}:
        of("work", 1, _count, cpus=both, group=GROUP)
    elif kind == "work":
        of("work", 2, lambda: _count(700 if fixed else 1000), cpus=both)
    elif kind == "crowd":
        of("work", 2, _count, cpus=both)
        of("bg", 0 if fixed else 6, spin, cpus=both)
    elif kind == "real_time":
        of("work", 1, _count, cpus=both[1:])
        of("bg", 0 if fixed else 1, _bursts, cpus=both[1:])
    elif kind == "hand_off":
        _ping(both, fixed)
        return
    elif kind == "game":
        of("game", 1, _answer, cpus=both[1:])
        of("bg", 2, spin, cpus=both[1:], nice=19 if fixed else 0)
    children = []
    for name, body in bodies:
        child = os.fork()
        if not child:
            linux_faults.named(name)
            body()
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def weigh_most() -> None:
    """Gives this process and its children most of the machine."""
    if os.getsid(0) != os.getpid():
        # The weight is that of a session: never that of the shell.
        os.setsid()
    Path("/proc/self/autogroup").write_text("-20", encoding="ascii")


def _as(
    name: str,
    body: Callable[[], None],
    *,
    cpus: list[int],
    nice: int = 0,
    group: Path | None = None,
) -> None:
    os.sched_setaffinity(0, cpus)
    os.setpriority(os.PRIO_PROCESS, 0, nice)
    if group is not None:
        (group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    body()


def _bursts() -> None:
    """A real-time thread that takes 6 ms of each 20."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        linux_faults.spin(0.006)
        time.sleep(0.014)


def _ping(both: list[int], fixed: bool) -> None:
    """Two processes that hand a token to each other: on two CPUs, or fixed on one."""
    one, other = os.pipe(), os.pipe()
    child = os.fork()
    linux_faults.named("ping")
    os.sched_setaffinity(0, both[1:] if fixed or not child else both[:1])
    mine, theirs = (one[0], other[1]) if child else (other[0], one[1])
    # A pipe ends when the last writer closes it.
    for end in {*one, *other} - {mine, theirs}:
        os.close(end)
    if child:
        os.write(theirs, b".")
    pieces, until = 0, time.monotonic() + SECONDS
    with contextlib.suppress(BrokenPipeError):
        while time.monotonic() < until and os.read(mine, 1):
            sum(range(2000))
            pieces += 1
            os.write(theirs, b".")
    if child:
        _say("pieces", pieces / SECONDS)
        os.close(theirs)
        os.waitpid(child, 0)
    else:
        os._exit(0)


# Measuring and predicting.


def measured(text: str) -> float:
    """Pieces per second of all processes together, or the 95th percentile of responses."""
    return sum(map(float, re.findall(r"(?:pieces|p95) ([\d.e-]+)", text)))


def _command(kind: str, fixed: bool) -> list[str]:
    return [sys.executable, __file__, "play", kind, "fixed" if fixed else "faulty"]


def _with_quota(kind: str, fixed: bool) -> None:
    if "quota" not in kind:
        return
    GROUP.mkdir(exist_ok=True)
    (GROUP / "cpu.shares").write_text(str(MOST_SHARES), encoding="ascii")
    (GROUP / "cpu.cfs_period_us").write_text("100000", encoding="ascii")
    part = 80_000 if kind == "half_quota" else -1
    (GROUP / "cpu.cfs_quota_us").write_text(str(part if fixed else 40_000), encoding="ascii")


def recorded(kind: str, folder: Path, *, fixed: bool) -> float:
    """What a program itself measured while it was recorded. The fixed one is recorded too: the
    recorder takes its part of both."""
    _with_quota(kind, fixed)
    collect = str(Path(sys.executable).parent / "collect")
    done = subprocess.run(
        [collect, "-o", str(folder), "--", *_command(kind, fixed)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return measured(done.stdout)


Ratio = tuple[float, float, float]
"""Predicted ratio of fixed to faulty, with its interval."""


def predicted(kind: Kind, folder: Path) -> Ratio | str:
    """What a replay of the recording predicts; or why there is no prediction."""
    analyzed(folder)
    with contextlib.closing(duckdb.connect(str(folder / "analysis.duckdb"), read_only=True)) as con:
        return ratio(con, 1, kind)


def analyzed(folder: Path) -> None:
    """Analyzes a session as far as a replay needs it."""
    analyze = [str(Path(sys.executable).parent / "analyze"), str(folder)]
    subprocess.run(
        [*analyze, "--no-report", "--only", "thread_summary"], capture_output=True, check=False
    )


def ratio(con: duckdb.DuckDBPyConnection, trace_id: int, kind: Kind) -> Ratio | str:
    """What a replay of one recording of an analyzed session predicts."""
    base = prediction.baseline(con, trace_id, process=kind.process)
    if isinstance(base, prediction.Refused):
        return base.why
    made = prediction.predict(base, [alterations.parse(kind.change)])
    found = (made.work or {}).get(kind.figure)
    if found is None:
        return made.why or f"the unchanged replay misses {kind.figure}"
    right = getattr(base.figures, kind.figure)
    goal = base.recorded[0].goal
    errors = {name: round(error, 3) for name, error in base.fidelity.all().items()}
    print(f"    errors {errors}, variation {goal.variation if goal else 0:.3f}", file=sys.stderr)
    return found.value / right, found.low / right, found.high / right


HEADER = f"{'kind':<12} true ratio  predicted  low    high   within  cannot tell"


@dataclass
class Answers:
    """True ratios of the pairs of a kind, and what was predicted of each."""

    name: str
    true: list[float] = field(default_factory=list)
    made: list[tuple[Ratio, float]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def add(self, true: float, found: Ratio | str) -> None:
        """Adds a pair, and prints it on stderr."""
        print(f"{self.name}: true {true:.3f}, predicted {found}", file=sys.stderr, flush=True)
        self.true.append(true)
        if isinstance(found, str):
            self.reasons.append(found)
        else:
            self.made.append((found, true))

    def within(self) -> int:
        """How many predictions contain the true ratio in their interval."""
        return sum(low <= true <= high for (_, low, high), true in self.made)

    def row(self) -> str:
        """The line of the table, and a line for each reason that there is no prediction."""
        text = f"{self.name:<12} {statistics.median(self.true):10.2f}"
        if self.made:
            value, low, high = (
                statistics.median(found[at] for found, _ in self.made) for at in range(3)
            )
            text += f"  {value:9.2f}  {low:5.2f}  {high:5.2f}"
            text += f"  {self.within():2}/{len(self.made):<3}"
        else:
            text += f"  {'':31}"
        text += f"  {len(self.reasons)}"
        return "\n    cannot tell: ".join([text, *dict.fromkeys(self.reasons)])


def main() -> int:
    """Prints a line for each kind: the true ratio, the predictions, and how many contain it."""
    if sys.argv[1:2] == ["play"]:
        _play(sys.argv[2], sys.argv[3] == "fixed")
        return 0
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else REPEATS
    print(HEADER, flush=True)
    if os.geteuid() != 0:
        print("linux_pairs.py: must run as root, to weigh its programs", file=sys.stderr)
        return 2
    good = 0
    kinds = sys.argv[2:] or list(KINDS)
    for kind in kinds:
        if "quota" in kind and not GROUP.parent.is_dir():
            print(f"{kind:<12} left out: there is no cpu controller at {GROUP.parent}", flush=True)
            continue
        answers = Answers(kind)
        for _ in range(repeats):
            with tempfile.TemporaryDirectory() as folder:
                faulty, fixed = Path(folder) / "faulty", Path(folder) / "fixed"
                before = recorded(kind, faulty, fixed=False)
                true = recorded(kind, fixed, fixed=True) / before
                answers.add(true, predicted(KINDS[kind], faulty))
        good += bool(answers.made) and 2 * answers.within() >= len(answers.made)
        print(answers.row(), flush=True)
    print(f"{good} of {len(kinds)} kinds have the true ratio in most intervals", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
