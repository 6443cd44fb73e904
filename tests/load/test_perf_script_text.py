"""Texts of perf script load as the perf.data they were printed from."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import fixture_files
import pyarrow as pa
import pytest
from decoded import decoded
from loaded_recording import loaded

from schedlens import _decoders
from schedlens.errors import NotATraceError
from schedlens.load import converted

pytestmark = pytest.mark.skipif(
    shutil.which("perf") is None, reason="perf is not installed, and it prints the texts"
)
# perf.data with switches, each in another form.
RECORDINGS = (
    "plain", "zstd", "pipe", "switch_only", "own_tree", "loss", "exec_by_thread", "sched_yield",
    "host_plain", "host_own_tree",
)  # fmt: skip
ALL = ("-F", "+pid", "--header", "--show-task-events", "--show-switch-events", "--show-lost-events")
# Not in the text: the description of the cores, positions among records that perf does not print,
# and whether a record is from interrupt context.
NOT_PRINTED = {"in_interrupt", "seq", "path"}
OF_THE_FILE = {"cpu", "record_count", "trace", "problem", "loss"}


def printed(trace: Path, text: Path, *options: str) -> Path:
    done = subprocess.run(
        ["perf", "script", "--force", "-i", str(trace), *options], capture_output=True, check=True
    )
    text.write_bytes(done.stdout)
    return text


def converted_tables(text: Path) -> dict[str, pa.Table]:
    with converted.made(text) as found:
        assert found is not None
        assert found.source == "perf_script"
        return decoded(found.path)


def rows(tables: dict[str, pa.Table], name: str) -> list[dict[str, Any]]:
    if name not in tables:
        return []
    table = tables[name]
    found: list[dict[str, Any]] = table.drop_columns(
        [c for c in table.column_names if c in NOT_PRINTED]
    ).to_pylist()
    return found


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_text_gives_the_tables_of_its_recording(
    name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = fixture_files.fixture(name, tmp_path_factory)
    wanted = decoded(trace)
    found = converted_tables(printed(trace, tmp_path / "text", "--ns", *ALL))
    assert len(rows(found, "context_switch")) > 20
    # Without the description of cores and caches, which the text does not have.
    assert found["cpu"]["cpu"] == wanted["cpu"]["cpu"]
    # perf.data says that only chosen threads are recorded. The text does not, and too few of them
    # vanish here to show it.
    states = {"cpu_state_other", "thread_state_other", "sched_slice"}
    derived = states if name == "host_own_tree" else set()
    for table in sorted((set(wanted) | set(found)) - OF_THE_FILE - derived):
        assert rows(found, table) == rows(wanted, table), table
    counted = {row["record"]: row["count"] for row in rows(wanted, "record_count")}
    in_text = {row["record"]: row["count"] for row in rows(found, "record_count")}
    for record, count in in_text.items():
        assert counted[record] == count, record
    assert found["trace"]["start_clock"] == wanted["trace"]["start_clock"]
    for column in ("host", "os", "cpu_model", "clock_name", "duration_ns"):
        assert found["trace"][column] == wanted["trace"][column], column


@pytest.mark.parametrize("options", [(), ("--ns",), ("-G", "-F", "comm,tid,cpu,time,event,trace")])
def test_a_bare_text_has_the_switches_of_its_recording(
    options: tuple[str, ...], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = fixture_files.fixture("plain", tmp_path_factory)
    found = converted_tables(printed(trace, tmp_path / "text", *options))
    step = 1 if "--ns" in options else 1000
    tids = {row["utid"]: row["tid"] for row in rows(found, "thread")}
    start = found["trace"]["start_clock"][0].as_py()
    switches = [
        (int(row["ts"]) + start, row["cpu"], tids[row["prev_utid"]], tids[row["next_utid"]])
        for row in rows(found, "context_switch")
    ]
    wanted = decoded(trace)
    begin = wanted["trace"]["start_clock"][0].as_py()
    tids = {row["utid"]: row["tid"] for row in rows(wanted, "thread")}
    truth = [
        ((int(row["ts"]) + begin) // step * step, row["cpu"], tids[row["prev_utid"]],
         tids[row["next_utid"]])
        for row in rows(wanted, "context_switch") if row["source"] == "switch"
    ]  # fmt: skip
    assert sorted(switches) == sorted(truth)


def test_stack_frames_are_no_problem(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = fixture_files.fixture("plain", tmp_path_factory)
    text = printed(trace, tmp_path / "text", "--ns")
    plain = converted_tables(text)
    # perf prints frames and an empty line behind each event.
    frames = "\n\tffffffff81a2b3c4 __schedule+0x2a4 ([kernel.kallsyms])\n\t       0 [unknown] (x)\n"
    text.write_text(text.read_text().replace("\n", frames + "\n"))
    with converted.made(text) as found:
        assert found is not None
        assert found.problems == ()
        with_stacks = decoded(found.path)
    assert rows(with_stacks, "sched_slice") == rows(plain, "sched_slice")


def test_the_text_of_libtraceevent_is_the_same(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = fixture_files.fixture("plain", tmp_path_factory)
    text = printed(trace, tmp_path / "text", "--ns")
    kernel = converted_tables(text)
    switch = re.compile(
        r"prev_comm=(.*) prev_pid=(\d+) prev_prio=(\d+) prev_state=(\S+?)\+? ==> "
        r"next_comm=(.*) next_pid=(\d+) next_prio=(\d+)"
    )
    waking = re.compile(r"comm=(.*) pid=(\d+) prio=(\d+) target_cpu=(\d+)")

    def as_plugin(found: re.Match[str]) -> str:
        # Its letters are those of the same bits in an older kernel.
        letter = {"I": "W", "X": "Z", "Z": "X", "P": "x"}.get(found[4], found[4])
        return f"{found[1]}:{found[2]} [{found[3]}] {letter} ==> {found[5]}:{found[6]} [{found[7]}]"

    lines = switch.sub(as_plugin, text.read_text())
    text.write_text(waking.sub(r"\1:\2 [\3] CPU:\4", lines))
    plugin = converted_tables(text)
    # It does not print that the kernel preempted a thread.
    for table in (kernel, plugin):
        switches = table["context_switch"].drop_columns(["prev_preempted", "seq"]).to_pylist()
        for row in switches:
            row["prev_state"] &= 255
        table["switches"] = pa.Table.from_pylist(switches)
    for name in ("switches", "wakeup", "thread"):
        assert rows(plugin, name) == rows(kernel, name), name
    assert set(plugin["context_switch"]["prev_preempted"].to_pylist()) == {None}


def test_the_database_names_the_source_and_the_steps_of_time(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = fixture_files.fixture("plain", tmp_path_factory)
    text = printed(trace, tmp_path / "text")
    with loaded(text, tmp_path) as con:
        assert con.execute("SELECT source, path FROM trace").fetchall() == [
            ("perf_script", str(text))
        ]
        ((what,),) = con.execute("SELECT what FROM problem WHERE place = 'perf script'").fetchall()
        assert what.startswith("times have steps of 1,000 ns")
        con.execute("FROM perf.timehist").fetchall()


def test_a_cut_line_is_left_out_and_counted(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = fixture_files.fixture("plain", tmp_path_factory)
    text = printed(trace, tmp_path / "text", "--ns")
    whole = text.read_bytes()
    text.write_bytes(whole[: whole.rindex(b"\n", 0, -1) + 60])
    with converted.made(text) as found:
        assert found is not None
        (problem,) = found.problems
    assert "the file is cut off there" in problem.what


def test_a_text_without_events_is_refused_in_one_line(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = tmp_path / "text"
    text.write_text("# captured on    : Mon Nov 23 13:21:42 2026\n")
    assert _decoders.text_kind(str(text)) == "perf_script"
    with pytest.raises(NotATraceError, match="contains no event of perf script") as error:
        _decoders.perf_script_data(str(text), str(tmp_path / "out"))
    assert "\n" not in str(error.value)


# Thread 80 is woken and sent to CPU 1, which runs another thread.
LEFT_OUT = """\
 waker 20 [000] 1.001000000: sched:sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 \
prev_state=R ==> next_comm=waker next_pid=20 next_prio=120
 waker 20 [000] 1.002000000: sched:sched_waking: comm=left out pid=80 prio=120 target_cpu=000
 waker 20 [000] 1.002001000: sched:sched_migrate_task: comm=left out pid=80 prio=120 \
orig_cpu=0 dest_cpu=1
 swapper 0 [001] 1.010000000: sched:sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 \
prev_state=R ==> next_comm=other next_pid=30 next_prio=120
 waker 20 [000] 1.030000000: sched:sched_switch: prev_comm=waker prev_pid=20 prev_prio=120 \
prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
"""
# Then that CPU goes idle.
IDLE = """\
 other 30 [001] 1.020000000: sched:sched_switch: prev_comm=other prev_pid=30 prev_prio=120 \
prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
"""


def test_a_thread_whose_switches_are_left_out_is_unknown(tmp_path: Path) -> None:
    (text, busy) = (tmp_path / "text", tmp_path / "busy")
    text.write_text(LEFT_OUT + IDLE)
    with loaded(text, tmp_path) as con:
        asked = (
            "SELECT thread.name, state, count(*) FROM thread_state JOIN thread USING (utid) "
            "WHERE tid = 80 GROUP BY ALL"
        )
        assert con.execute(asked).fetchall() == [("left out", "unknown", 1)]
        found = con.execute("SELECT count FROM problem WHERE what LIKE 'woken thread without%'")
        assert found.fetchall() == [(1,)]
    # CPU 1 remains busy to the end: the thread may be ready.
    text.write_text(LEFT_OUT)
    busy.mkdir()
    with loaded(text, busy) as con:
        states = dict(row[1:] for row in con.execute(asked).fetchall())
        assert states == {"unknown": 1, "ready": 1}
