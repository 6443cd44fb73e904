"""Perfetto's trace_processor on the same records, asked the same questions in its SQL.

It reads no scheduler events from perf.data, so it gets the output of `perf script` as ftrace text.
The engine is a program of the user: `trace_processor_shell`, or a Python program that takes a trace
and SQL statements and prints their rows as CSV.
"""

from __future__ import annotations

import csv
import io
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from timing import Row, code, in_page_cache, other_s, row_of_other

OURS, THEIRS = "schedlens", "trace_processor"
# Each round loads the trace twice.
MOST_ROUNDS = 3

_LINE = re.compile(r"^\s*(.+?)\s+(\d+)\s+\[(\d+)\]\s+(\d+\.\d+):\s+(?:sched:)?(\w+):\s+(.*)$")

# Each question in our words and in theirs; the rows are equal.
QUESTIONS = (
    (
        "SELECT tid, sum(dur) FROM sched_slice JOIN thread USING (utid) WHERE tid <> 0 "
        "GROUP BY tid ORDER BY sum(dur) DESC, tid LIMIT 20",
        "SELECT tid, sum(dur) FROM sched JOIN thread USING (utid) WHERE tid <> 0 AND dur > 0 "
        "GROUP BY tid ORDER BY sum(dur) DESC, tid LIMIT 20",
    ),
    (
        "SELECT tid, count(*), max(dur) FROM thread_state JOIN thread USING (utid) "
        "WHERE state = 'ready' AND tid <> 0 GROUP BY tid ORDER BY max(dur) DESC, tid LIMIT 20",
        "SELECT tid, count(*), max(dur) FROM thread_state JOIN thread USING (utid) "
        "WHERE state IN ('R', 'R+') AND tid <> 0 GROUP BY tid "
        "ORDER BY max(dur) DESC, tid LIMIT 20",
    ),
    (
        "SELECT cpu, ts // 100000000, sum(dur) FROM sched_slice WHERE NOT is_idle "
        "GROUP BY 1, 2 ORDER BY 1, 2",
        "SELECT cpu, ts / 100000000, sum(dur) FROM sched JOIN thread USING (utid) "
        "WHERE tid <> 0 AND dur > 0 GROUP BY 1, 2 ORDER BY 1, 2",
    ),
    (
        "SELECT count(*), sum(dur) FROM sched_slice WHERE NOT is_idle",
        "SELECT count(*), sum(dur) FROM sched JOIN thread USING (utid) WHERE tid <> 0 AND dur > 0",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Engine:
    """The program, and the Python that runs it if it is one of Python."""

    path: Path
    python: str

    def command(self, trace: Path, statements: list[str], folder: Path) -> list[str]:
        """Loads a trace, and answers each statement."""
        if self.path.suffix == ".py":
            return [self.python, str(self.path), str(trace), *statements]
        asked = folder / "asked.sql"
        asked.write_text(";\n".join(statements) + ";\n", encoding="utf-8")
        return [str(self.path), "-q", str(asked), str(trace)]


def ftrace_text(trace: Path, target: Path) -> None:
    """The scheduler events of a perf.data as ftrace prints them; the first byte is a blank."""
    command = ["perf", "script", "--ns", "-F", "comm,tid,cpu,time,event,trace", "-i", str(trace)]
    with (
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            errors="replace",
        ) as perf,
        target.open("w", encoding="utf-8") as out,
    ):  # fmt: skip
        assert perf.stdout is not None
        for line in perf.stdout:
            found = _LINE.match(line)
            if found:
                comm, tid, cpu, time, event, fields = found.groups()
                out.write(f" {comm}-{tid} [{cpu}] .... {time}: {event}: {fields}\n")


def rows(
    other: Engine | str, trace: Path, database: Path, folder: Path, rounds: int, query: str
) -> Iterator[Row]:
    """Its import and its answers, next to our answers; its start is not counted."""
    ours = [own for own, _ in QUESTIONS]
    found = [code(query, str(database), *ours) for _ in range(rounds)]
    about = f"{len(QUESTIONS)} questions"
    if isinstance(other, str):
        yield Row("load perf.data", THEIRS, missing=other)
        yield Row("query", OURS, tuple(one[0] for one in found), about)
        yield Row("query", THEIRS, missing=other)
        return
    text, nothing = folder / "ftrace.txt", folder / "nothing.txt"
    ftrace_text(trace, text)
    nothing.write_text(text.open(encoding="utf-8").readline(), encoding="utf-8")
    theirs = [their for _, their in QUESTIONS]
    loads: list[float | str] = []
    answers: list[float | str] = []
    for _ in range(min(rounds, MOST_ROUNDS)):
        in_page_cache(text)
        start = other_s(other.command(nothing, ["SELECT 1"], folder))
        load = other_s(other.command(text, ["SELECT 1"], folder))
        both = other_s(other.command(text, theirs, folder), folder / "answers.csv")
        loads.append(_beyond(load, start))
        answers.append(_beyond(both, load))
    size = f"{text.stat().st_size / 1e6:,.0f} MB of ftrace text"
    hosted = ", hosted by a Python program" if other.path.suffix == ".py" else ""
    note = f"{size}, its start not counted{hosted}"
    yield row_of_other("load perf.data", THEIRS, loads, note)
    yield Row("query", OURS, tuple(one[0] for one in found), about)
    note = f"the same {about}"
    if any(isinstance(each, float) for each in answers):
        note += f"; {_differences(found[-1][1], folder / 'answers.csv')}"
    yield row_of_other("query", THEIRS, answers, note)


def _beyond(whole: float | str, part: float | str) -> float | str:
    """The time of a run beyond that of another one, or why one of them failed."""
    if isinstance(whole, str):
        return whole
    return part if isinstance(part, str) else max(0.0, whole - part)


def _differences(ours: list[list[list[int]]], answers: Path) -> str:
    """Whether the last answer, slices and their time, is the same as ours."""
    lines = [
        line
        for line in csv.reader(io.StringIO(answers.read_text(encoding="utf-8")))
        if len(line) == 2 and all(cell.strip('" ').isdigit() for cell in line)
    ]
    if not lines:
        return "its answers cannot be read"
    count, total = (int(cell.strip('" ')) for cell in lines[-1])
    own_count, own_total = ours[-1][0]
    slices, running = 100 * count / own_count, 100 * total / own_total
    return f"slices {slices:.2f} %, running time {running:.2f} % of ours"
