"""A host and its guest: one clock, and what the host did while the guest looked busy."""

from __future__ import annotations

import itertools
import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import dat_bytes
import duckdb
import host_and_guest
import pytest
import trace_engine
from conftest import command
from dat_bytes import page, switch
from decoded import decoded
from host_and_guest import BEHIND, GUEST, HOST, US, guest, host

from schedlens.export import perfetto_trace


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    folder = tmp_path_factory.mktemp("guests")
    host_and_guest.write(folder)
    done = command("analyze", str(folder), "-o", str(folder / "out"), "--no-report")
    assert done.returncode == 0, done.stderr
    with duckdb.connect(str(folder / "out" / "analysis.duckdb"), read_only=True) as database:
        yield database


def test_each_cpu_of_a_guest_has_the_thread_that_runs_it(con: duckdb.DuckDBPyConnection) -> None:
    asked = "SELECT guest, cpu, host_tid, host_thread, offset_ns FROM guest_vcpu"
    # The host's recording starts 5 us before the guest's.
    assert con.execute(asked).fetchall() == [("virtual", 0, 501, "t501", 5 * US)]
    labels = con.execute(
        "SELECT g.label, h.label FROM guest_vcpu AS v JOIN trace AS g USING (trace_id) "
        "JOIN trace AS h ON h.trace_id = v.host_trace_id"
    )
    assert labels.fetchall() == [("guest.dat", "host.dat")]


def test_steal_is_the_time_in_which_the_host_let_a_busy_guest_wait(
    con: duckdb.DuckDBPyConnection,
) -> None:
    asked = (
        "SELECT busy_ns, host_running_ns, steal_ns, host_blocked_ns, host_unknown_ns, steal_pct "
        "FROM guest_steal"
    )
    # Busy from 1005 to 1045 us: run up to 1020 and from 1030 to 1043, ready between, then blocked.
    assert con.execute(asked).fetchall() == [(40 * US, 28 * US, 10 * US, 2 * US, 0, 25.0)]


def test_a_window_of_the_guest_clips_its_busy_time(con: duckdb.DuckDBPyConnection) -> None:
    asked = (
        "SELECT busy_ns, host_running_ns, steal_ns FROM guest_steal(p_from_ns := 20000, "
        f"p_to_ns := {30 * US})"
    )
    # 1025 to 1035 us of the host.
    assert con.execute(asked).fetchall() == [(10 * US, 5 * US, 5 * US)]


def test_schedule_of_the_guest_is_placed_in_that_of_its_host(
    con: duckdb.DuckDBPyConnection,
) -> None:
    asked = (
        "SELECT ts // 1000, dur // 1000, host_thread, host_state, host_cpu, guest, guest_cpu, "
        "guest_thread, guest_ts // 1000 FROM guest_slice"
    )
    where = ("virtual", 0, "t42")
    assert con.execute(asked).fetchall() == [
        (5, 15, "t501", "running", 0, *where, 0),
        (20, 10, "t501", "ready", None, *where, 15),
        (30, 13, "t501", "running", 0, *where, 25),
        (43, 2, "t501", "waiting", None, *where, 38),
    ]
    # 10 to 32 us of the host.
    clipped = con.execute(f"{asked}(p_from_ns := 10000, p_to_ns := 32000)").fetchall()
    assert [(ts, dur, guest_ts) for ts, dur, *_, guest_ts in clipped] == [
        (10, 10, 5), (20, 10, 15), (30, 2, 25),
    ]  # fmt: skip


def test_running_time_of_a_guests_thread_is_split_by_what_the_host_did(
    con: duckdb.DuckDBPyConnection,
) -> None:
    asked = (
        "SELECT tid, thread, busy_ns, host_running_ns, steal_ns, host_blocked_ns, "
        "host_unknown_ns, steal_pct, longest_steal_ns FROM guest_thread_summary"
    )
    found = (42, "t42", 40 * US, 28 * US, 10 * US, 2 * US, 0, 25.0, 10 * US)
    assert con.execute(asked).fetchall() == [found]


def test_export_shows_threads_of_the_guest_under_the_thread_that_runs_them(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    (trace_id,) = con.execute("SELECT trace_id FROM trace WHERE label = 'host.dat'").fetchall()[0]
    perfetto_trace.save(con, trace_id, tmp_path / "host.pftrace")
    with trace_engine.loaded(tmp_path / "host.pftrace") as engine:
        rows = engine.rows(
            "SELECT thread.name AS thread, slice.name AS name, dur FROM slice "
            "JOIN thread_track AS track ON track.id = slice.track_id JOIN thread USING (utid) "
            "WHERE track.name GLOB 'Guest*' ORDER BY ts"
        )
    assert rows == [
        ("t501", "t42", 15 * US),
        ("t501", "t42 (steal)", 10 * US),
        ("t501", "t42", 13 * US),
        ("t501", "t42 (blocked in the host)", 2 * US),
    ]


# 2 CPUs of the host, 2 of the guest; everything at random times, also before and after the other's.
def test_any_schedule_of_a_guest_is_tiled_and_adds_up(tmp_path: Path) -> None:
    dice = random.Random(20261125)
    pages: dict[str, dict[int, bytes]] = {"host": {}, "guest": {}}
    for side, before, tids in (("host", BEHIND, (501, 502)), ("guest", 0, (42, 43))):
        for cpu in (0, 1):
            moments = sorted(dice.sample(range(1_000 + cpu, 9_000), 60))
            own = (0, tids[cpu], 70 + cpu)
            runs = [0]
            for _ in moments:
                runs.append(dice.choice([tid for tid in own if tid != runs[-1]]))
            pages[side][cpu] = dat_bytes.pages(
                switch(at * US + before, prev, following, dice.choice((0, 1)))
                for at, prev, following in zip(moments, runs[:-1], runs[1:], strict=True)
            )
    options = host_and_guest.trace_id(HOST) + dat_bytes.guest("virtual", GUEST, [501, 502])
    shift = dat_bytes.time_shift(HOST, [(0, BEHIND, 1, 0), (1 << 40, BEHIND, 1, 0)], 2)
    for side, more in (("host", options), ("guest", host_and_guest.trace_id(GUEST) + shift)):
        data = dat_bytes.version_7([dat_bytes.Buffer(pages[side])], more)
        dat_bytes.write(tmp_path / f"{side}.dat", data)
    done = command("analyze", str(tmp_path), "-o", str(tmp_path / "out"), "--no-report")
    assert done.returncode == 0, done.stderr
    with duckdb.connect(str(tmp_path / "out" / "analysis.duckdb"), read_only=True) as con:
        overlaps = con.execute(
            "FROM guest_slice AS a JOIN guest_slice AS b ON a.guest_cpu = b.guest_cpu "
            "AND a.ts < b.ts AND a.ts + a.dur > b.ts"
        )
        assert overlaps.fetchall() == []
        by_slice = con.execute(
            "SELECT guest_cpu, sum(dur), sum(dur) FILTER (host_state = 'running'), "
            "sum(dur) FILTER (host_state = 'ready'), sum(dur) FILTER (host_state = 'waiting') "
            "FROM guest_slice GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        by_cpu = con.execute(
            "SELECT cpu, busy_ns, host_running_ns, steal_ns, host_blocked_ns FROM guest_steal "
            "ORDER BY cpu"
        ).fetchall()
        assert by_slice == by_cpu
        assert all(ns > 0 for row in by_slice for ns in row[1:])


def test_a_guest_without_its_host_is_read_in_the_clock_of_the_host(tmp_path: Path) -> None:
    trace = dat_bytes.write(tmp_path / "guest.dat", guest([(0, BEHIND, 1, 0)]))
    tables = decoded(trace)
    (row,) = tables["trace"].to_pylist()
    assert row["start_clock"] == 1_005 * US + BEHIND
    assert tables["recording_identity"].to_pylist() == [
        {"trace_id": 1, "recording_uid": GUEST - (1 << 64), "host_uid": HOST}
    ]


# guest  1000 ... 2000 ... 3000 us      offset +100 us, then +50 us: times never step back
@pytest.mark.parametrize("flags", [0, 1])
def test_corrected_times_are_those_of_trace_cmd_in_order(flags: int, tmp_path: Path) -> None:
    samples = [
        (1_000 * US, BEHIND + 100 * US, 1, 0),
        (2_000 * US, BEHIND + 50 * US, 1, 0),
        (3_000 * US, BEHIND + 80 * US, 3 << 20, 21),
    ]
    times = [900 * US, 1_500 * US, 1_999 * US, 2_001 * US, 2_500 * US, 2_990 * US, 3_400 * US]
    data = page([switch(ts, n, n + 1) for n, ts in enumerate(times, start=1)])
    trace = dat_bytes.write(tmp_path / "guest.dat", guest(samples, flags, data))
    tables = decoded(trace)
    start = tables["trace"].to_pylist()[0]["start_clock"]
    found = [ts + start for ts in tables["context_switch"].column("ts").to_pylist()]
    if flags == 0:
        offsets = [100 * US, 100 * US, 100 * US, 50 * US, 50 * US, 50 * US, 50 * US]
        expected = [ts + BEHIND + offset for ts, offset in zip(times, offsets, strict=True)]
        # 2001 + 50 is before 1999 + 100.
        expected[3] = expected[2]
        assert found == expected
    if shutil.which("trace-cmd"):
        host_file = dat_bytes.write(tmp_path / "host.dat", host())
        said = subprocess.run(
            ["trace-cmd", "report", "-t", "-i", str(host_file), "-i", str(trace)],
            check=True, capture_output=True, text=True, timeout=60,
        ).stdout  # fmt: skip
        printed = re.findall(r"^guest\.dat: .*\] +(\d+)\.(\d{9}): sched_switch", said, re.MULTILINE)
        times = [int(seconds) * 1_000_000_000 + int(ns) for seconds, ns in printed]
        assert list(itertools.accumulate(times, max)) == found
