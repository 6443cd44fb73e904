"""`schedlens export` and `schedlens open`: files, the server, and mistakes."""

from __future__ import annotations

import csv
import http.client
import json
import threading
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from conftest import command
from drawn_trace import Cpu, DrawnTrace, Slice, add, drawn_database

from schedlens.errors import SessionError
from schedlens.export import exported_ids, local_server, perfetto_trace
from schedlens.export.proto_message import Message, varint

pytestmark = pytest.mark.slow

MS = 1_000_000

# cpu 0  A A . B
SLICES = [Slice("game/A", 0, 0, 2 * MS), Slice("game/B", 0, 3 * MS, MS, ready=MS, waker="game/A")]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An analyzed session with one drawn recording and one finding."""
    folder = tmp_path_factory.mktemp("session")
    with drawn_database(folder / "analysis.duckdb") as con:
        trace = DrawnTrace(con, SLICES, [Cpu(0, 0)], 5 * MS)
        con.execute(
            "UPDATE trace SET schema_version = (SELECT $v), label = 'drawn: 1'",
            {"v": schema_version()},
        )
        trace.add(
            "finding", finding_id=1, analyzer="a", kind="k", severity="info", rank=1, title="T",
            detail="D", advice="Do this.", cost_of="time", start_ns=MS, end_ns=2 * MS,
            evidence_sql="SELECT 1",
        )  # fmt: skip
    return folder


def schema_version() -> int:
    from schedlens import _decoders

    return _decoders.SCHEMA_VERSION


def test_message_has_fields_in_order() -> None:
    inner = Message().number(1, 150).number(2, None)
    assert bytes(Message().message(3, inner).text(2, "hi")) == b"\x1a\x03\x08\x96\x01\x12\x02hi"
    assert varint(0) == b"\x00"
    assert bytes(Message().number(1, -1)) == b"\x08" + b"\xff" * 9 + b"\x01"


def test_reused_ids_are_unique_and_named() -> None:
    con = duckdb.connect()
    lives = "trace_id INT, name TEXT, start_ns INT"
    con.execute(f"CREATE TABLE process ({lives}, upid INT, pid INT, parent_pid INT)")
    con.execute(f"CREATE TABLE thread ({lives}, utid INT, tid INT, upid INT, is_idle BOOL)")
    con.execute("CREATE TABLE cpu_state (trace_id INT, cpu INT, state TEXT)")
    for upid, pid, start in ((1, 10, None), (2, 10, 5)):
        add(con, "process", trace_id=1, upid=upid, pid=pid, name="p", start_ns=start)
    threads = ((1, 10, 1, None), (2, 11, 1, None), (3, 11, 2, 6), (4, 10, 2, 7))
    for utid, tid, upid, start in threads:
        more = {"upid": upid, "start_ns": start, "is_idle": False}
        add(con, "thread", trace_id=1, utid=utid, tid=tid, name="t", **more)
    add(con, "cpu_state", trace_id=1, cpu=0, state="unknown")
    ids = exported_ids.assign(con, 1)
    assert [(p.pid, p.name) for p in ids.processes] == [
        (10, "p"), (12, "p (pid 10)"), (15, exported_ids.STAND_INS),
    ]  # fmt: skip
    assert [(t.utid, t.tid, t.pid, t.name) for t in ids.threads] == [
        (1, 10, 10, "t"), (2, 11, 10, "t"), (3, 13, 12, "t (tid 11)"), (4, 14, 12, "t (tid 10)"),
        (-1, 16, 15, "lost events"), (-2, 17, 15, "offline"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("system", "release"),
    [("Linux 6.1.0-56-cloud", "6.1.0-56-cloud"), ("Linux 4.14.1", "4.14.1")],
)
def test_release_of_linux_is_kept(system: str, release: str) -> None:
    assert perfetto_trace.release(system) == release


@pytest.mark.parametrize("system", ["Linux 4.4.0", "Windows 11, build 26100", None])
def test_other_systems_get_a_release_that_reads_the_states(system: str | None) -> None:
    assert perfetto_trace.release(system).startswith("6.0.0-schedlens-")


def test_base_is_the_clock_unless_it_does_not_fit() -> None:
    facts = {"first_ns": -5, "start_clock": 20, "clock_hz": 10}
    assert perfetto_trace.base_ns(facts) == 2_000_000_000
    # FILETIME: 1e16 ns fit, 1.3e19 do not.
    filetime = facts | {"start_clock": 133_900_000_000_000_000, "clock_hz": 10_000_000}
    assert perfetto_trace.base_ns(filetime) == 1_000_000_005
    assert perfetto_trace.base_ns(facts | {"start_clock": None}) == 1_000_000_005


def test_perfetto_file_has_the_name_of_the_recording(session: Path, tmp_path: Path) -> None:
    done = command("schedlens", "export", str(session), "--perfetto", "-o", str(tmp_path / "new"))
    file = tmp_path / "new" / "drawn- 1.perfetto-trace"
    assert done.stdout == f"{file} ({file.stat().st_size:,} bytes)\n"
    assert file.read_bytes()[:1] == b"\x0a"
    assert b"Do this." in file.read_bytes()
    command("schedlens", "export", str(session), "--perfetto", "--no-tracks", "-o", str(file))
    assert b"Do this." not in file.read_bytes()


@pytest.mark.parametrize("form", ["csv", "parquet", "arrow"])
def test_query_is_written_to_a_file(form: str, session: Path, tmp_path: Path) -> None:
    file = tmp_path / f"out.{form}"
    query = "SELECT ts, dur FROM sched_slice WHERE NOT is_idle ORDER BY ts"
    command("schedlens", "export", str(session), query, f"--{form}", "-o", str(file))
    if form == "csv":
        rows = [tuple(map(int, row)) for row in list(csv.reader(file.open()))[1:]]
    elif form == "arrow":
        table = pa.ipc.open_file(file).read_all()
        rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    else:
        rows = duckdb.connect().execute(f"FROM '{file}'").fetchall()
    assert rows == [(0, 2 * MS), (3 * MS, MS)]
    assert sorted(path.name for path in tmp_path.iterdir()) == [file.name]


def test_all_tables_with_rows_are_written(session: Path, tmp_path: Path) -> None:
    command("schedlens", "export", str(session), "--parquet", "-o", str(tmp_path))
    names = {path.stem for path in tmp_path.iterdir()}
    assert {"sched_slice", "thread", "finding", "thread_state", "cpu_state"} <= names
    assert not {"energy", "thread_state_other", "cpu_state_other"} & names


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["export"],
            "give a format: --perfetto, --folded, --speedscope, --firefox, --scrub, --parquet, "
            "--arrow or --csv",
        ),
        (["export", "thread", "--perfetto"], "--perfetto takes no QUERY"),
        (["export", "--csv", "--trace", "1"], "--trace and --no-tracks need --perfetto"),
        (["export", "--perfetto", "--trace", "drawn"], "no recording named 'drawn'"),
        (["export", "FROM nothing", "--csv"], "Catalog Error"),
        (["export", "out/tables", "--parquet"], "to write there, give -o out/tables"),
        (["open", "--perfetto", "--finding", "7"], "no finding named '7': choose from 1"),
    ],
)
def test_mistake_is_one_line_and_leaves_no_file(
    words: list[str], line: str, session: Path, tmp_path: Path
) -> None:
    more = ["-o", str(tmp_path / "x")] if words[0] == "export" else []
    done = command("schedlens", words[0], str(session), *words[1:], *more, check=False)
    assert done.returncode == 2
    assert line in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_server_gives_the_trace_to_the_page_and_ends(tmp_path: Path) -> None:
    file = tmp_path / "a b"
    file.write_bytes(b"trace")
    with local_server.TraceServer(file, "a b", port=0) as server:
        address = server.page((10, 20))
        host = address.partition("url=http://")[2].partition("/")[0]
        assert address == (
            f"https://ui.perfetto.dev/#!/?url=http://{host}/a%20b&visStart=10&visEnd=20"
        )
        running = threading.Thread(target=server.serve)
        running.start()
        assert _get(host, "/other")[0] == 404
        assert _get(host, "/a%20b", "HEAD")[1:] == ("https://ui.perfetto.dev", b"")
        assert _get(host, "/a%20b") == (200, "https://ui.perfetto.dev", b"trace")
        running.join(timeout=10)
        assert not running.is_alive()


def _get(host: str, path: str, method: str = "GET") -> tuple[int, str | None, bytes]:
    connection = http.client.HTTPConnection(host, timeout=10)
    connection.request(method, path)
    answer = connection.getresponse()
    return (
        answer.status,
        answer.getheader("Access-Control-Allow-Origin"),
        (answer.read() if answer.status == 200 else b""),
    )


def test_used_port_is_reported(tmp_path: Path) -> None:
    with local_server.TraceServer(tmp_path, "x", port=0) as server:
        port = int(server.page().rpartition(":")[2].partition("/")[0])
        with pytest.raises(SessionError, match=r"cannot serve the trace on 127\.0\.0\.1:"):
            local_server.TraceServer(tmp_path, "y", port=port)


def test_firefox_profile_has_a_lane_for_each_cpu(session: Path, tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    command("schedlens", "export", str(session), "--firefox", "-o", str(file))
    profile = json.loads(file.read_text(encoding="utf-8"))
    assert profile["meta"]["preprocessedProfileVersion"] == 48
    (lane,) = profile["threads"]
    assert (lane["name"], lane["tid"], lane["stringArray"][0]) == ("CPU 0", 0, "CPU 0")
    markers = lane["markers"]
    # Times in ms; all of one name, so that the marker chart has one row.
    assert (markers["length"], markers["name"], markers["phase"]) == (2, [0, 0], [1, 1])
    assert (markers["startTime"], markers["endTime"]) == ([0, 3], [2, 4])
    assert [(row["process"], row["thread"]) for row in markers["data"]] == [
        ("game", "A"),
        ("game", "B"),
    ]
    assert (markers["data"][1]["ready"], markers["data"][1]["waker"]) == (1, "A")
    schema = {row["name"]: row for row in profile["meta"]["markerSchema"]}
    assert {row["type"] for row in markers["data"]} <= set(schema)
    assert schema["Slice"]["chartLabel"] == "{marker.data.thread}"


def test_folded_and_speedscope_stacks_need_recorded_stacks(session: Path, tmp_path: Path) -> None:
    for form in ("--folded", "--speedscope"):
        done = command(
            "schedlens", "export", str(session), form, "-o", str(tmp_path / "s"), check=False
        )
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "record with `collect --stacks`" in done.stderr
    assert not list(tmp_path.iterdir())
