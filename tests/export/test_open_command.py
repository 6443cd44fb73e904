"""`schedlens open --perfetto`, driven as the page does: CORS, the trace, and the finding's time."""

from __future__ import annotations

import http.client
import re
import subprocess
import urllib.parse
from pathlib import Path

import compared_recordings
import duckdb
import pytest
import trace_engine
from conftest import BIN, command

pytestmark = pytest.mark.slow

PAGE = "https://ui.perfetto.dev"


def ask(address: str, method: str, path: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request(
        method, path, headers={"Origin": PAGE, "Access-Control-Request-Private-Network": "true"}
    )
    answer = connection.getresponse()
    return answer.status, {key.lower(): text for key, text in answer.getheaders()}, answer.read()


def test_page_gets_the_trace_and_the_time_of_the_finding(tmp_path: Path) -> None:
    compared_recordings.write(tmp_path / "case", case="priority", seconds=0.5)
    done = command("analyze", str(tmp_path / "case"), "-o", str(tmp_path / "out"), "--no-report")
    assert done.returncode == 0, done.stderr
    start, end = 120_000_000, 150_000_000
    with duckdb.connect(str(tmp_path / "out" / "analysis.duckdb")) as con:
        # Its findings are about all of the time: one of them gets a moment.
        number, title = con.execute(
            "UPDATE finding SET start_ns = $1, end_ns = $2 WHERE finding_id = "
            "(SELECT min(finding_id) FROM finding) RETURNING finding_id, title",
            [start, end],
        ).fetchall()[0]
    opened = subprocess.Popen(
        [str(BIN / "schedlens"), "open", str(tmp_path / "out"),
         "--perfetto", "--finding", str(number), "--no-open"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert opened.stdout is not None
        said = "".join(opened.stdout.readline() for _ in range(3))
        found = re.search(r"open +(\S+)", said)
        assert found, (said, opened.stderr)
        assert title in said
        page, _, fragment = found[1].partition("#!/?")
        wanted = dict(urllib.parse.parse_qsl(fragment))
        url = urllib.parse.urlsplit(wanted["url"])
        assert (page, url.netloc) == (f"{PAGE}/", "127.0.0.1:9001")
        # Chromium asks first whether the page may read from this machine.
        code, headers, _ = ask(url.netloc, "OPTIONS", url.path)
        assert (code, headers["access-control-allow-origin"]) == (204, PAGE)
        assert headers["access-control-allow-private-network"] == "true"
        code, headers, content = ask(url.netloc, "GET", url.path)
        assert (code, headers["access-control-allow-origin"]) == (200, PAGE)
        assert int(headers["content-length"]) == len(content)
        assert opened.wait(timeout=60) == 0
    finally:
        opened.kill()
        opened.communicate()
    trace = tmp_path / "served.pftrace"
    trace.write_bytes(content)
    with trace_engine.loaded(trace) as engine:
        ((at, length),) = [
            (ts, dur) for ts, dur, name in engine.rows("SELECT ts, dur, name FROM slice")
            if name == title
        ]  # fmt: skip
    assert length == end - start
    assert int(wanted["visStart"]) <= at < at + length <= int(wanted["visEnd"])
