"""WPA's columns of a switch-in whose ready record is older than the thread's last switch-out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from etl_bytes import Buffer, Log, ready, switch
from etl_drawn import at, life, written
from loaded_recording import loaded

RUNNING, WAITING = 2, 5


@dataclass(frozen=True)
class Read:
    """Rows of the query, and the remaining quanta of thread 8 at its switch-outs."""

    rows: list[dict[str, Any]]
    quanta: list[int | None]


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Read:
    """The rows of thread 8; thread 9 runs on CPU 1 throughout and wakes it.

    us         10     60      90     100   140     200    210
    thread 8   |runs  |waits  |ready |runs |ready  |runs  |    ready records at 90 and 139.3 us
    """
    folder = tmp_path_factory.mktemp("precise")
    first = [
        *life(),
        switch(at(10), 0, 8, state=RUNNING, reason=0),
        switch(at(60), 8, 0, state=WAITING, quantum=84_017_152),
        switch(at(100), 0, 8, state=RUNNING, reason=0),
        switch(at(140), 8, 0, state=WAITING, quantum=-2),
        switch(at(200), 0, 8, state=RUNNING, reason=0),
        switch(at(210), 8, 0, state=WAITING, version=1),
    ]
    second = [
        switch(at(5), 0, 9, state=RUNNING, reason=0),
        ready(at(90), 8),
        ready(at(140) - 7, 8),
        switch(at(220), 9, 0, state=WAITING),
    ]
    buffers = [Buffer(first, cpu=0, sequence=1), Buffer(second, cpu=1, sequence=2)]
    path = written(folder, Log(buffers))
    with loaded(path, folder) as con:
        found = con.sql(
            'FROM wpa.cpu_usage_precise WHERE "New Thread Id" = 8 ORDER BY "Switch-In Time (s)"'
        ).to_arrow_table()
        quanta = con.execute(
            "SELECT prev_remaining_quantum FROM context_switch AS s "
            "JOIN thread AS t ON t.utid = s.prev_utid WHERE t.tid = 8 ORDER BY ts"
        ).fetchall()
    return Read(found.to_pylist(), [quantum for (quantum,) in quanta])


def test_ready_and_waits_count_from_the_ready_record(read: Read) -> None:
    row = read.rows[1]
    assert row["Ready (µs)"] == pytest.approx(10)
    assert row["Waits (µs)"] == pytest.approx(30)
    assert row["Time Since Last (µs)"] == pytest.approx(40)


def test_ready_record_before_the_switch_out_clamps_waits(read: Read) -> None:
    row = read.rows[2]
    # Ready is longer than the time since the switch-out, by the 0.7 us between the two records.
    assert row["Ready (µs)"] == pytest.approx(60.7)
    assert row["Time Since Last (µs)"] == pytest.approx(60)
    assert (row["Waits (µs)"], row["Count: Waits"]) == (0, 0)
    assert row["Switch-In Time (s)"] - row["Ready Time (s)"] == pytest.approx(60.7e-6)
    assert row["Readying Thread Id"] == 9


def test_remaining_quantum_is_as_recorded(read: Read) -> None:
    assert read.quanta == [84_017_152, -2, None]
    # The idle thread is the old thread of all these switch-ins.
    assert [row["OldRemQnt"] for row in read.rows] == [0, 0, 0]
