"""CSV files of wpaexporter: the same switches as the .etl they come from, in every locale."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from etl_bytes import Buffer, Log, process, ready, switch, thread
from etl_drawn import at, written
from loaded_recording import loaded

from schedlens import _decoders
from schedlens.errors import NothingToReadError, SchedlensError

RUNNING, READY, WAITING = 2, 1, 5
DURATION_US = 4_000


def recording(folder: Path, seed: int) -> Path:
    """An .etl of two CPUs on which four threads take turns at random."""
    draw = random.Random(seed)
    records: list[list[bytes]] = [[], []]
    records[0] += [process(at(0), 100, b"game.exe"), process(at(0), 200, b"a, b.exe")]
    records[0] += [thread(at(0), 100 + tid // 10 * 100, tid) for tid in (8, 9, 18, 19)]
    free, running, since = [8, 9, 18, 19], [0, 0], [0, 0]
    now = 10
    while now < DURATION_US:
        cpu = draw.randrange(2)
        now += draw.randrange(1, 40)
        old = running[cpu]
        new = draw.choice([tid for tid in [0, *free] if tid != old])
        if new:
            free.remove(new)
        if new and draw.random() < 0.7:
            waker = draw.randrange(2)
            records[waker].append(ready(at(now) - draw.randrange(1, 8), new))
        state, reason = draw.choice([(WAITING, 6), (WAITING, 15), (READY, 32), (READY, 30)])
        if old == 0:
            state, reason = RUNNING, 0
        else:
            free.append(old)
        records[cpu].append(switch(at(now), old, new, state=state, reason=reason, quantum=now))
        running[cpu], since[cpu] = new, now
    for cpu, tid in enumerate(running):
        if tid:
            records[cpu].append(switch(at(now + 5 + cpu), tid, 0, state=WAITING))
    buffers = [Buffer(found, cpu=cpu, sequence=cpu + 1) for cpu, found in enumerate(records)]
    return written(folder, Log(buffers, buffer_size=1 << 16))


def precise(path: Path, folder: Path) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Names and rows of the view; its times are those of the recording, from its first record."""
    with loaded(path, folder) as con:
        found = con.execute('FROM wpa.cpu_usage_precise ORDER BY "CPU", "Switch-In Time (s)"')
        return [column[0] for column in found.description], found.fetchall()


def cell(value: object) -> str:
    """As WPA prints it."""
    if value is None:
        return ""
    return f"{value:.9f}" if isinstance(value, float) else str(value)


def export(path: Path, names: list[str], rows: list[tuple[Any, ...]], **more: Any) -> Path:
    text = io.StringIO()
    out = csv.writer(text, delimiter=more.get("delimiter", ","))
    # The view's own first column is not one of WPA.
    out.writerow(names[1:])
    change: Callable[[str], str] = more.get("change", lambda text: text)
    for row in rows:
        out.writerow([change(cell(v)) if isinstance(v, float) else cell(v) for v in row[1:]])
    path.write_bytes(text.getvalue().encode(more.get("encoding", "utf-8-sig")))
    return path


# Of a thread that has not run before, its times before the first switch-in.
COMPARED = (
    "New Process", "New Thread Id", "Old Thread Id", "CPU", "New In Pri", "New State",
    "New Wait Reason", "Old State", "Old Wait Reason", "Switch-In Time (s)",
    "Next Switch-Out Time (s)", "Last Switch-Out Time (s)", "Ready Time (s)", "Ready (µs)",
    "Waits (µs)", "OldRemQnt",
)  # fmt: skip


def compared(names: list[str], rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Times from the first switch-in, rounded to ns: the CSV has no record before it."""
    begins = [row[names.index("Switch-In Time (s)")] for row in rows]
    start = min(begin for begin in begins if begin is not None)
    places = [names.index(name) for name in COMPARED]
    scaled = {name: 1e9 if name.endswith("(s)") else 1e3 for name in COMPARED}

    def one(name: str, value: Any) -> Any:
        if not isinstance(value, float):
            return value
        return round((value - (start if name.endswith("(s)") else 0)) * scaled[name])

    found = [
        tuple(one(name, row[place]) for name, place in zip(COMPARED, places, strict=True))
        for row in rows
    ]
    return sorted(found, key=repr)


LOCALES: dict[str, dict[str, Any]] = {
    "usual": {},
    "utf-16": {"encoding": "utf-16"},
    "german": {"delimiter": ";", "change": lambda text: text.replace(".", ",")},
    "quoted decimal commas": {"change": lambda text: text.replace(".", ",")},
    "tabs": {"delimiter": "\t"},
}


@pytest.mark.parametrize("locale", LOCALES)
def test_the_view_exported_and_read_back_has_the_same_rows(locale: str, tmp_path: Path) -> None:
    names, rows = precise(recording(tmp_path, 1), tmp_path)
    path = export(tmp_path / "export", names, rows, **LOCALES[locale])
    assert _decoders.text_kind(str(path)) == "wpa"
    (tmp_path / "again").mkdir()
    assert compared(*precise(path, tmp_path / "again")) == compared(names, rows)


@pytest.mark.parametrize("seed", range(2, 6))
def test_random_schedules_read_back_the_same(seed: int, tmp_path: Path) -> None:
    names, rows = precise(recording(tmp_path, seed), tmp_path)
    # WPA's rows have no order.
    random.Random(seed).shuffle(rows)
    path = export(tmp_path / "export", names, rows)
    (tmp_path / "again").mkdir()
    assert compared(*precise(path, tmp_path / "again")) == compared(names, rows)


def test_every_spelling_of_the_columns_is_read(tmp_path: Path) -> None:
    names, rows = precise(recording(tmp_path, 1), tmp_path)
    wanted = compared(names, rows)
    spellings: list[Callable[[str], str]] = [
        lambda name: name.replace(" ", "").replace("-", ""),
        lambda name: name.replace("\u00b5", "\u03bc"),
        lambda name: name.replace("\u00b5", "u").upper().replace("(S)", "(s)"),
    ]
    for number, spelling in enumerate(spellings):
        # The first of two columns of the same name counts.
        spelled = [spelling(name) for name in names] + ["CPU"]
        path = export(tmp_path / f"{number}", spelled, [(*row, 77) for row in rows])
        (tmp_path / f"again {number}").mkdir()
        assert compared(*precise(path, tmp_path / f"again {number}")) == wanted


def test_a_filtered_table_is_unknown_where_others_may_have_run(tmp_path: Path) -> None:
    names, rows = precise(recording(tmp_path, 1), tmp_path)
    tid, begin = names.index("New Thread Id"), names.index("Switch-In Time (s)")
    kept = [row for row in rows if row[tid] in (8, 9) and row[begin] is not None]
    path = export(tmp_path / "export", names, kept)
    (tmp_path / "again").mkdir()
    with loaded(path, tmp_path / "again") as con:
        assert con.execute("SELECT DISTINCT signalled_by FROM loss").fetchall() == [
            ("not_exported",)
        ]
        ((what,),) = con.execute(
            "SELECT what FROM problem WHERE place = 'CPU Usage (Precise)'"
        ).fetchall()
        assert what.startswith("the table leaves out threads that ran")
        slices = con.execute(
            "SELECT count(*), sum(s.dur) FROM sched_slice AS s JOIN thread AS t USING (utid) "
            "WHERE t.tid IN (8, 9)"
        ).fetchall()
    end = names.index("Next Switch-Out Time (s)")
    lengths = [round((row[end] - row[begin]) * 1e9) for row in kept]
    assert slices == [(len(kept), sum(lengths))]


def test_a_file_cut_in_a_row_is_reported(tmp_path: Path) -> None:
    names, rows = precise(recording(tmp_path, 1), tmp_path)
    path = export(tmp_path / "export", names, rows)
    path.write_bytes(path.read_bytes()[:-7])
    (tmp_path / "again").mkdir()
    with loaded(path, tmp_path / "again") as con:
        found = con.execute("SELECT place, what FROM problem WHERE what LIKE '%cut off%'")
        assert found.fetchall() == [
            (
                f"line {len(rows) + 1}",
                "the last line has no end: the file is cut off there, and the line is left out",
            )
        ]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("New Thread Id,CPU,Count\n8,0,1\n", "has no column Switch-In Time"),
        ("New Thread Id,Switch-In Time (s)\n8,0.5\n", "has no column CPU"),
        ("New Thread Id,CPU,Switch-In Time (s)\n", "contains no context switches"),
        ("New Thread Id,CPU,Switch-In Time (s),Count\n8,0,0.5,12\n", "sums up several switch-ins"),
        ("New Thread Id,CPU,Switch-In Time (s)\n8,0\n", "more or fewer cells"),
    ],
)
def test_other_tables_are_refused_in_one_line(content: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_text(content)
    with (
        pytest.raises((NothingToReadError, SchedlensError), match=why) as error,
        loaded(path, tmp_path),
    ):
        pass
    assert "\n" not in str(error.value)
