"""What the server refuses, in one line each, and that it answers afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agent_client import PROGRAM, Agent, talk
from fixture_files import fixture

import schedlens
from schedlens.agents.folders import Folders
from schedlens.agents.guarded_sql import GuardedDatabase
from schedlens.errors import AccessError, DatabaseError, SchedlensError

# Each reads or writes a file, reaches the network or the configuration, or is no SELECT.
REFUSED = (
    "FROM read_csv('{secret}')",
    "FROM read_csv_auto('{secret}')",
    "FROM read_text('{secret}')",
    "FROM read_blob('{own}')",
    "FROM read_text('{own}.wal')",
    "FROM read_json('{secret}')",
    "FROM read_parquet('{secret}')",
    "FROM parquet_scan('{secret}')",
    "FROM read_duckdb('{own}', table_name := 'trace')",
    "FROM sniff_csv('{secret}')",
    "FROM glob('/etc/*')",
    "FROM '{secret}'",
    'FROM "{own}"',
    "FROM 'https://example.com/x.csv'",
    "FROM 's3://bucket/x.parquet'",
    "SELECT (SELECT max(content) FROM read_text('{secret}'))",
    "WITH a AS (FROM READ_TEXT('{secret}')) FROM a",
    "SELECT 1 WHERE EXISTS (FROM (FROM (FROM main.read_csv('{secret}'))))",
    "FROM trace, LATERAL (FROM read_text(trace.path))",
    "FROM query('FROM read_text(''{secret}'')')",
    "FROM query_table('{secret}')",
    "FROM duckdb_secrets()",
    "FROM duckdb_settings()",
    "FROM pragma_storage_info('trace')",
    "FROM checkpoint()",
    "SELECT write_log('x')",
    "SELECT getenv('HOME')",
    "COPY (SELECT 1) TO '{out}'",
    "COPY trace FROM '{secret}'",
    "COPY FROM DATABASE memory TO analysis",
    "ATTACH '{out}' AS other",
    "ATTACH ':memory:' AS other",
    "DETACH analysis",
    "USE memory",
    "INSTALL httpfs",
    "LOAD httpfs",
    "EXPORT DATABASE '{out}'",
    "IMPORT DATABASE '{out}'",
    "CREATE TABLE x (a INTEGER)",
    "CREATE TEMP TABLE x AS FROM trace",
    "CREATE TEMP MACRO f() AS TABLE FROM read_text('{secret}')",
    "INSERT INTO trace SELECT * FROM trace",
    "UPDATE trace SET label = 'x'",
    "DELETE FROM finding",
    "DROP TABLE trace",
    "SET enable_external_access = true",
    "RESET enable_external_access",
    "SET memory_limit = '100GB'",
    "PRAGMA enable_profiling",
    "CALL pragma_version()",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "BEGIN",
    "CHECKPOINT",
    "VACUUM",
    "EXPLAIN ANALYZE FROM trace",
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP TABLE trace",
    "",
    ";",
    "SELEC 1",
    "SELECT '" + "x" * 4000 + "'",
    "SELECT " + "(" * 1500 + "1" + ")" * 1500,
    "SELECT \0",
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an analysis and a recording, and a secret next to it."""
    home = tmp_path_factory.mktemp("refusals")
    (home / "secret.csv").write_text("secret\n42\n")
    trace = Path(shutil.copy(fixture("plain", tmp_path_factory), home / "outside.perf.data"))
    served = home / "served"
    schedlens.analyze(trace, output=served / "session").close()
    shutil.copy(trace, served / "game.perf.data")
    shutil.copytree(served / "session", home / "elsewhere")
    (served / "link").symlink_to(home / "elsewhere")
    (served / "linked").mkdir()
    (served / "linked" / "analysis.duckdb").symlink_to(home / "elsewhere" / "analysis.duckdb")
    (served / "linked.perf.data").symlink_to(trace)
    (served / "folder").mkdir()
    (served / "folder" / "data").symlink_to(trace)
    (served / "fake").mkdir()
    (served / "fake" / "analysis.duckdb").write_bytes(b"not a database")
    (served / "loop").symlink_to(served / "loop")
    return home


@pytest.fixture(scope="module")
def database(home: Path) -> GuardedDatabase:
    return GuardedDatabase(home / "served" / "session" / "analysis.duckdb", 20)


@pytest.mark.parametrize("sql", REFUSED)
def test_statement_that_is_not_a_plain_select_is_refused(
    home: Path, database: GuardedDatabase, sql: str
) -> None:
    out = home / "out"
    own = home / "served" / "session" / "analysis.duckdb"
    text = sql.replace("{secret}", str(home / "secret.csv")).replace("{out}", str(out))
    with pytest.raises(SchedlensError) as error:
        database.select(text.replace("{own}", str(own)))
    assert len(str(error.value).splitlines()) == 1
    assert "42" not in str(error.value)
    assert not out.exists()
    assert database.select("SELECT count(*) AS n FROM trace;").rows == [[1]]


def test_configuration_refuses_files_without_the_check_of_the_statement(
    home: Path, database: GuardedDatabase
) -> None:
    for sql in (
        f"FROM read_text('{home / 'secret.csv'}')",
        f"COPY (SELECT 1) TO '{home / 'out'}'",
        f"ATTACH '{home / 'out'}' AS other",
        "SET enable_external_access = true",
        "INSTALL httpfs",
        "DELETE FROM finding",
    ):
        with pytest.raises(Exception, match=r"disabled by configuration|locked|read-only"):
            database.con.execute(sql)
    assert not (home / "out").exists()


def test_variables_of_the_server_are_no_tables(database: GuardedDatabase) -> None:
    rows = [1]  # A table in DuckDB's eyes, unless that is off.
    with pytest.raises(DatabaseError, match="rows"):
        database.select("FROM rows")
    assert rows == [1]


def test_what_is_allowed_is_answered(database: GuardedDatabase) -> None:
    for sql in (
        "FROM trace",
        "SELECT view_name, comment FROM duckdb_views() WHERE NOT internal",
        "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = 'finding'",
        "FROM thread_summary(p_process := 'sleep')",
        "FROM perf.timehist LIMIT 3",
        "WITH a AS (FROM sched_slice) SELECT count(*), avg(dur) FROM a",
        "SELECT unnest(range(3)) AS n UNION ALL SELECT * FROM range(2)",
        "SUMMARIZE finding",
        "DESCRIBE trace",
        "VALUES (1, 'read_text(x)')",
    ):
        assert database.select(sql).columns


def test_long_statement_is_stopped(home: Path, tmp_path: Path) -> None:
    own = shutil.copy(home / "served" / "session" / "analysis.duckdb", tmp_path)
    slow = GuardedDatabase(Path(own), 0.3)
    with pytest.raises(DatabaseError, match=r"longer than 0.3 s"):
        slow.select("SELECT count(*) FROM range(10000000000) AS a, range(1000) AS b")
    assert slow.select("SELECT 1").rows == [[1]]


def test_large_rows_are_refused_and_many_are_counted(database: GuardedDatabase) -> None:
    with pytest.raises(DatabaseError, match="rows are too large"):
        database.select("SELECT repeat('x', 50000000)")
    found = database.select("SELECT * FROM range(100000)")
    assert (len(found.rows), found.more, found.more_known) == (400, 99_600, True)


@pytest.mark.parametrize(
    "given",
    ["../secret.csv", "..", "/etc/passwd", "/", "session/../../secret.csv", "link", "linked",
     "linked/analysis.duckdb", "linked.perf.data", "link/analysis.duckdb", "~", "", "\0", "folder",
     "loop", "session\0", "x" * 5000, "session/../../served/../secret.csv"],
)  # fmt: skip
def test_paths_outside_are_refused(home: Path, given: str) -> None:
    folders = Folders([home / "served"])
    for find in (folders.database, folders.recording):
        with pytest.raises(SchedlensError) as error:
            find(given)
        assert str(home / "elsewhere") not in str(error.value)


def test_outside_and_missing_look_the_same_there(home: Path) -> None:
    folders = Folders([home / "served"])
    said = []
    for name in ("../secret.csv", "../no such file"):
        with pytest.raises(AccessError) as error:
            folders.path(name)
        said.append(str(error.value).replace(name, "X"))
    assert said[0] == said[1]


CALLS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("nothing", {}, "there is no tool 'nothing'"),
    ("run_sql", {}, "session: Field required"),
    ("run_sql", {"session": 1, "sql": "FROM trace"}, "session: Input should be a valid string"),
    ("run_sql", {"session": "session", "sql": "FROM trace", "x": 1}, "x: Extra inputs"),
    ("run_sql", {"session": "session", "sql": "FROM trace\n\nWHERE"}, "syntax error"),
    ("run_sql", {"session": "session", "sql": "FROM read_text('/etc/passwd')"}, "not allowed"),
    ("run_sql", {"session": "../elsewhere", "sql": "FROM trace"}, "outside the folders"),
    ("run_sql", {"session": "link", "sql": "FROM trace"}, "outside the folders"),
    ("run_sql", {"session": "fake", "sql": "FROM trace"}, "is not an analyzed"),
    ("list_findings", {"session": "game.perf.data"}, "is not an analyzed"),
    ("list_findings", {"session": "."}, "is not analyzed"),
    ("list_findings", {"session": "session", "severity": "worst"}, "severity: Input should be"),
    ("list_findings", {"session": "session", "after": -1}, "after: Input should be"),
    ("list_findings", {"session": "session", "after": 10**30}, "after: Input should be"),
    ("finding_evidence", {"session": "session", "finding": 9999}, "there is no finding 9999"),
    ("finding_evidence", {"session": "session", "finding": "one"}, "finding: Input should be"),
    ("thread_story", {"session": "session"}, "pass either utid or thread"),
    (
        "thread_story",
        {"session": "session", "utid": 1, "thread": "x"},
        "pass either utid or thread",
    ),
    ("thread_story", {"session": "session", "thread": "'; DROP TABLE trace"}, "no thread matches"),
    ("thread_story", {"session": "session", "utid": -5}, "no thread matches"),
    ("inspect_trace", {"path": "session/report.html"}, "does not exist"),
    ("inspect_trace", {"path": "session/analysis.duckdb"}, "give a perf.data"),
    ("inspect_trace", {"path": "linked.perf.data"}, "outside the folders"),
    ("inspect_trace", {"path": "folder"}, "outside the folders"),
    ("inspect_trace", {"path": "--help"}, "does not exist"),
    ("list_sessions", {"path": ".."}, "path: Extra inputs"),
)


def test_wrong_calls_are_one_line_and_the_server_goes_on(home: Path) -> None:
    async def script(agent: Agent) -> None:
        for name, arguments, words in CALLS:
            reply = await agent.call(name, **arguments)
            assert reply.error is not None, (name, arguments, reply.answer)
            assert words in reply.error, reply.error
            assert len(reply.error.splitlines()) == 1
            assert "Traceback" not in reply.error
            assert "elsewhere" not in reply.error.replace("../elsewhere", "")
        session, fake, linked = await agent.rows("list_sessions", "sessions")
        assert "outside the folders" in linked["error"]
        assert (session["session"], session["recordings"]) == ("session", 1)
        assert fake["session"] == "fake"
        assert "is not an analyzed" in fake["error"]
        raw = await agent.rows("list_sessions", "recordings")
        assert [row["path"] for row in raw] == ["game.perf.data"]
        records = await agent.rows("inspect_trace", "records", path="game.perf.data")
        assert records[0]["count"] > 0

    talk(script, home / "served")


def test_analysis_written_again_is_read_again(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "served" / "session", tmp_path / "again")

    async def script(agent: Agent) -> None:
        sql = "SELECT count(DISTINCT analyzer) AS n FROM analyzer_outcome"
        (before,) = await agent.rows("run_sql", "rows", session="again", sql=sql)
        code = (
            "import schedlens; schedlens.analyze("
            f"{str(home / 'outside.perf.data')!r}, output={str(tmp_path / 'again')!r}, "
            "only=['steal']).close()"
        )
        subprocess.run([sys.executable, "-c", code], check=True)
        (after,) = await agent.rows("run_sql", "rows", session="again", sql=sql)
        assert before["n"] > after["n"] == 1

    talk(script, tmp_path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none"], "does not exist"),
        ([], "Missing argument"),
        ([".", "--max-bytes", "100"], "is not in the range"),
        ([".", "--max-seconds", "0"], "is not in the range"),
    ],
)
def test_wrong_command_line_is_one_line(arguments: list[str], words: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [PROGRAM, "mcp", *arguments], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_missing_package_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "mcp.py").write_text("raise ImportError\n")
    done = subprocess.run(
        [PROGRAM, "mcp", "."], capture_output=True, text=True, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == (
        "schedlens: this needs the package mcp: install it with `pip install schedlens[mcp]`\n"
    )
