"""`schedlens serve` answers its own page, and nobody and nothing else."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import duckdb
import pyarrow as pa
import pytest
from timeline_data import timeline_session

BIN = Path(sys.executable).parent
HOSTILE = "<script>alert(1)</script>\u202e"


@dataclass
class Served:
    """A running server: its address, session, and process."""

    folder: Path
    process: subprocess.Popen[str]
    port: int
    token: str

    def ask(
        self,
        path: str,
        headers: dict[str, str | None] | None = None,
        *,
        method: str = "GET",
        body: str | None = None,
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers, and body; a header given as None is left out."""
        known: dict[str, str | None] = {
            "Host": f"127.0.0.1:{self.port}", "X-Schedlens-Token": self.token,
        }  # fmt: skip
        known |= {name.replace("_", "-"): value for name, value in (headers or {}).items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.putrequest(method, path, skip_host=True)
        for name, value in known.items():
            if value is not None:
                connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body.encode())))
        connection.endheaders(None if body is None else body.encode())
        answer = connection.getresponse()
        found = answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        connection.close()
        return found

    def sql(self, text: str) -> tuple[int, str]:
        """Status and text of a statement on the SQL page."""
        status, _, body = self.ask("/sql/run", method="POST", body=json.dumps({"sql": text}))
        return status, body.decode()


def start(folder: Path) -> Served:
    """Starts the command and reads the address it prints."""
    process = subprocess.Popen(
        [str(BIN / "schedlens"), "serve", str(folder), "--no-open", "--max-seconds", "2"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(3)]
    found = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=(\S+)", "".join(lines))
    assert found is not None, (lines, process.stderr.read() if process.stderr else "")
    return Served(folder, process, int(found[1]), found[2])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    with timeline_session(folder):
        pass
    with duckdb.connect(str(folder / "analysis.duckdb")) as con:
        con.execute(f"UPDATE trace SET label = '{HOSTILE}' WHERE trace_id = 1")
        con.execute(f"UPDATE thread SET name = '{HOSTILE}' WHERE trace_id = 1")
        con.execute(
            "INSERT INTO sample BY NAME SELECT 1 AS trace_id, 5 AS ts, 0 AS cpu, 1 AS seq, "
            "min(utid) AS utid, 'cpu-clock' AS event FROM thread WHERE trace_id = 1 AND NOT is_idle"
        )
    running = start(folder)
    yield running
    running.process.kill()
    running.process.communicate()


def test_requests_of_the_page_are_answered(served: Served) -> None:
    status, headers, body = served.ask("/timeline/overview?trace=1")
    assert status == 200
    assert headers["cache-control"] == "no-store"
    overview = json.loads(body)
    assert [one["trace_id"] for one in overview["recordings"]] == [1, 2]
    whole = f"trace=1&start_ns={overview['start_ns']}&end_ns={overview['end_ns']}"
    status, headers, body = served.ask(f"/timeline/lanes?kind=cpu&{whole}&width=5")
    assert (status, headers["content-type"]) == (200, "application/vnd.apache.arrow.stream")
    table = pa.ipc.open_stream(body).read_all()
    with duckdb.connect(str(served.folder / "analysis.duckdb"), read_only=True) as con:
        busy = con.execute(
            "SELECT sum(dur) FROM cpu_state WHERE trace_id = 1 AND state IN ('thread', 'interrupt')"
        ).fetchall()[0][0]
    assert sum(row["ns"] for row in table.to_pylist()) == busy
    status, _, body = served.ask(f"/timeline/totals?{whole}")
    rows = pa.ipc.open_stream(body).read_all().to_pylist()
    assert sum(row["ns"] for row in rows if row["state"].startswith("running")) <= busy
    finding = overview["findings"][0]
    at = f"trace=1&utid={finding['utid']}&time_ns={finding['start_ns']}"
    status, _, body = served.ask(f"/timeline/slice?{at}")
    assert (status, json.loads(body)["state"]) == (200, "ready")
    status, _, body = served.ask(f"/timeline/worst_waits?trace=1&utid={finding['utid']}")
    assert json.loads(body)[0]["start_ns"] == finding["start_ns"]
    status, _, body = served.ask(f"/timeline/neighbor?{at}&what=next")
    assert json.loads(body)["start_ns"] > finding["start_ns"]


def test_the_stacks_of_a_range_are_answered(served: Served) -> None:
    span = "trace=1&start_ns=0&end_ns=1000"
    status, _, body = served.ask(f"/timeline/flame?{span}&kind=samples")
    name = HOSTILE.replace("\u202e", "\\u202e")
    assert (status, json.loads(body)["rows"]) == (200, [[name, None, 1]])
    status, _, body = served.ask(f"/timeline/flame?{span}&kind=samples&utid=1")
    assert (status, json.loads(body)["rows"]) == (200, [])
    status, _, body = served.ask(f"/timeline/flame?{span}&kind=%3Cb%3E")
    assert (status, body) == (400, b"kind must be one of samples, waiting, ready, wakeups")
    status, _, _ = served.ask("/timeline/flame?trace=1&start_ns=5&end_ns=5&kind=ready")
    assert status == 400


@pytest.mark.parametrize(
    "headers",
    [
        {"X_Schedlens_Token": None},
        {"X_Schedlens_Token": "guess"},
        {"X_Schedlens_Token": ""},
        {"Host": "evil.example"},
        {"Host": "127.0.0.1"},
        {"Host": None},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ],
)
@pytest.mark.parametrize("path", ["/", "/sql", "/timeline/overview?trace=1", "/absent"])
def test_foreign_requests_are_refused(
    served: Served, path: str, headers: dict[str, str | None]
) -> None:
    status, answered, body = served.ask(path, headers)
    assert status in (400, 403)
    assert "access-control-allow-origin" not in answered
    assert served.token.encode() not in body


def test_origin_of_the_page_itself_is_let_in(served: Served) -> None:
    own = f"http://127.0.0.1:{served.port}"
    assert served.ask("/timeline/overview?trace=1", {"Origin": own})[0] == 200
    assert served.ask("/timeline/overview?trace=1", method="OPTIONS")[0] == 403


def test_pages_have_a_strict_policy_and_escape_names(served: Served) -> None:
    for path in ("/", "/sql"):
        token: dict[str, str | None] = {"X_Schedlens_Token": None}
        status, headers, body = served.ask(f"{path}?token={served.token}", token)
        assert status == 200
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; connect-src 'self'; script-src 'sha256-")
        assert "frame-ancestors 'none'" in policy
        assert HOSTILE not in body.decode()
        assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "path",
    [
        "/timeline/lanes?trace=1&kind=cpu&start_ns=5&end_ns=5",
        "/timeline/lanes?trace=1&kind=cpu&start_ns=x&end_ns=9",
        "/timeline/lanes?trace=1&kind=cpu&start_ns=0&end_ns=" + "9" * 40,
        "/timeline/lanes?trace=1&kind=cpu&start_ns=0&end_ns=9&ids=1);DROP",
        "/timeline/lanes?trace=1&start_ns=0&end_ns=9&kind=" + quote("' OR 1"),
        "/timeline/overview?trace=77",
        "/timeline/neighbor?trace=1&utid=1&time_ns=0&what=x",
    ],
)
def test_wrong_requests_get_one_line(served: Served, path: str) -> None:
    status, _, body = served.ask(path)
    assert status in (400, 404)
    assert len(body.decode().splitlines()) == 1


def test_sql_returns_bounded_rows(served: Served) -> None:
    status, text = served.sql("SELECT range AS n FROM range(100000)")
    answer = json.loads(text)
    assert (status, answer["columns"], answer["more"]) == (
        200,
        ["n"],
        100_000 - len(answer["rows"]),
    )
    assert len(answer["rows"]) == 400
    assert json.loads(served.sql("SELECT 9007199254740993 AS n")[1])["rows"] == [
        ["9007199254740993"]
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT content FROM read_text('/etc/passwd')",
        "SELECT * FROM glob('/*')",
        "COPY trace TO '/tmp/x.csv'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "ATTACH '/tmp/x.duckdb'",
        "SET memory_limit = '99GB'",
        "PRAGMA database_list",
        "SELECT getenv('HOME')",
        "DELETE FROM trace",
        "CREATE TABLE t AS SELECT 1",
        "SELECT 1; SELECT 2",
        "SELECT * FROM repeat('x', 1) , duckdb_secrets()",
    ],
)
def test_sql_that_reaches_outside_is_refused(served: Served, sql: str) -> None:
    status, text = served.sql(sql)
    assert status == 400
    assert len(text.splitlines()) == 1


def test_sql_has_limits_of_time_and_memory(served: Served) -> None:
    begun = time.monotonic()
    status, text = served.sql(
        "SELECT sum(hash(a.range + b.range)) FROM range(10000000) a, range(100000) b"
    )
    assert (status, "took longer than 2 s" in text) == (400, True)
    assert time.monotonic() - begun < 30
    status, text = served.sql("SELECT max(l) FROM (SELECT list(range) AS l FROM range(900000000))")
    assert status == 400
    assert re.search(r"[Mm]emory|longer than", text)
    assert served.sql("SELECT count(*) FROM trace")[0] == 200


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"sql": 1}', "[" * 10_000])
def test_malformed_statements_get_one_line(served: Served, body: str) -> None:
    status, _, answer = served.ask("/sql/run", method="POST", body=body)
    assert (status, len(answer.decode().splitlines())) == (400, 1)


def test_ctrl_c_stops_the_server_quietly(served: Served) -> None:
    other = start(served.folder)
    assert other.ask("/timeline/overview?trace=2")[0] == 200
    other.process.send_signal(signal.SIGINT)
    _, errors = other.process.communicate(timeout=20)
    assert (other.process.returncode, errors) == (0, "")


@pytest.mark.parametrize("content", [None, b"no database"])
def test_a_bad_path_is_one_line(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "missing"
    if content is not None:
        path = tmp_path / "notes.txt"
        path.write_bytes(content)
    done = subprocess.run(
        [str(BIN / "schedlens"), "serve", str(path), "--no-open"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "analyze" in done.stderr
