"""A host and its guest: one clock, and what the host did while the guest looked busy."""

from __future__ import annotations

import itertools
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import dat_bytes
import duckdb
import pytest
from conftest import command
from dat_bytes import Buffer, page, switch
from decoded import decoded

US = 1_000
HOST, GUEST = 0x1111_0000_0000_0001, 0xF000_0000_0000_0002
# Times of the guest in its own clock, which is 1 s behind.
BEHIND = 1_000_000 * US

# host, us      1000 1010 1020 1030 1040 1050
# host cpu 0    . V    V    X    V    .    .       V (501) runs CPU 0 of the guest, X (77) else
# guest cpu 0   . A    A    A    A    .    .       A is busy from 1005 to 1045
HOST_PAGE = page([
    switch(1_000 * US + BEHIND, 0, 501),
    switch(1_020 * US + BEHIND, 501, 77, state=0),
    switch(1_030 * US + BEHIND, 77, 501),
    switch(1_043 * US + BEHIND, 501, 0),
    switch(1_050 * US + BEHIND, 0, 501),
])  # fmt: skip
GUEST_PAGE = page([switch(1_005 * US, 0, 42), switch(1_045 * US, 42, 0), switch(1_048 * US, 0, 42)])


def trace_id(number: int) -> bytes:
    return dat_bytes.option(11, struct.pack("<Q", number))


def host(version: int = 7) -> bytes:
    options = trace_id(HOST) + dat_bytes.guest("virtual", GUEST, [501])
    write = dat_bytes.version_6 if version == 6 else dat_bytes.version_7
    return write([Buffer({0: HOST_PAGE})], options)


def guest(
    samples: list[tuple[int, int, int, int]], flags: int = 0, data: bytes = GUEST_PAGE
) -> bytes:
    options = trace_id(GUEST) + dat_bytes.time_shift(HOST, samples, 1, flags)
    return dat_bytes.version_7([Buffer({0: data})], options)


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    folder = tmp_path_factory.mktemp("guests")
    dat_bytes.write(folder / "host.dat", host())
    dat_bytes.write(folder / "guest.dat", guest([(0, BEHIND, 1, 0), (5_000 * US, BEHIND, 1, 0)]))
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
