"""`analyze --max-memory`, `--temp-folder` and `--timings`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

import duckdb
import pytest
from conftest import command
from fixture_files import fixture

from schedlens.ask import catalog, judging
from schedlens.ask.findings import Finding, Outcome, Scope, clean
from schedlens.ask.judging import Analyzer
from schedlens.errors import SizeError
from schedlens.load import query_threads, schema, store
from schedlens.load.recording import Recording
from schedlens.machine import memory
from schedlens.report import embedded, page, sections

pytestmark = pytest.mark.slow

# Sorting this many wide rows takes gigabytes.
HUGE = "SELECT r, hash(r)::VARCHAR AS h FROM range(100_000_000) AS t(r) ORDER BY h"
PHASES = [
    "load", "load: reading and storing", "load: gaps", "load: intervals", "load: summaries",
    "analyzers", "what-if", "report",
]  # fmt: skip


def analyze(*arguments: object) -> subprocess.CompletedProcess[str]:
    return command("analyze", *map(str, arguments), check=False)


@pytest.fixture
def con() -> Iterable[duckdb.DuckDBPyConnection]:
    """A database that may use 100 MB of memory and no disk."""
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET memory_limit = '100MB'; SET temp_directory = ''")
        schema.create(connection)
        catalog.install(connection)
        connection.execute(
            "INSERT INTO trace BY NAME SELECT 1 AS trace_id, 'a' AS label, 'perf' AS source, "
            "0 AS first_ns, 1000 AS duration_ns, 1 AS schema_version, '0' AS tool_version; "
            "INSERT INTO analysis_window VALUES (1, 0, 1000, 'trace')"
        )
        yield connection


@pytest.mark.parametrize(
    ("text", "size"),
    [("2G", 2 << 30), ("512m", 512 << 20), ("1.5 GiB", 3 << 29), ("800MB", 800 << 20), ("7", 7)],
)
def test_size_is_read_in_powers_of_1024(text: str, size: int) -> None:
    assert memory.size(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1G", "two", "1e9", "1GG", "nan", "0.0M", "1 PiB"])
def test_other_texts_are_no_size(text: str) -> None:
    with pytest.raises(SizeError, match="is not a size: write it as 512M or 2G"):
        memory.size(text)


def test_few_bytes_in_files_and_folders_are_answered_by_one_thread(tmp_path: Path) -> None:
    small, large, folder = (tmp_path / name for name in ("small", "large", "folder"))
    folder.mkdir()
    for path, size in ((small, 1 << 20), (large, 16 << 20), (folder / "part", 15 << 20)):
        with path.open("wb") as file:
            file.truncate(size)
    known = {path: Recording(path.name, path) for path in (small, large, folder)}
    assert query_threads.count([known[small]]) == query_threads.count([known[folder]]) == 1
    assert query_threads.count([known[large]]) is None
    assert query_threads.count([known[small], known[folder]]) is None
    with store.create(tmp_path / "a.duckdb", threads=1) as con:
        assert con.execute("SELECT current_setting('threads')").fetchall() == [(1,)]


def limit_for(tmp_path: Path, recording: int) -> int:
    with store.create(tmp_path / "a.duckdb", to_read=recording) as con:
        [(text,)] = con.execute("SELECT current_setting('memory_limit')").fetchall()
        return memory.size(text)


def test_default_grows_with_the_recording_up_to_half_of_the_installed_memory(
    tmp_path: Path,
) -> None:
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    small, large = limit_for(tmp_path, 0), limit_for(tmp_path, 1 << 50)
    assert 0 < small <= 1750 << 20
    # A cgroup may allow less than the machine has.
    assert small <= large < physical / 2
    if large > 4 << 30:
        # DuckDB states the limit with one decimal.
        assert abs(limit_for(tmp_path, 6 << 30) - small - (1 << 30)) < 200 << 20


@pytest.mark.parametrize(
    ("size", "reason"),
    [
        ("much", "'much' is not a size: write it as 512M or 2G"),
        ("10M", "--max-memory must be at least 600M"),
    ],
)
def test_unusable_limit_is_refused_in_one_line(
    size: str, reason: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = fixture("own_tree", tmp_path_factory)
    done = analyze(trace, "-o", tmp_path, "--max-memory", size)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [f"analyze: {reason}"]
    assert not (tmp_path / "analysis.duckdb").exists()


def test_limit_and_temp_folder_apply_to_the_database(tmp_path: Path) -> None:
    with store.create(
        tmp_path / "a.duckdb", max_memory=1 << 30, temp_folder=tmp_path / "spill"
    ) as con:
        limit, folder = con.execute(
            "SELECT current_setting('memory_limit'), current_setting('temp_directory')"
        ).fetchall()[0]
    assert limit == "624.0 MiB"
    assert folder == str(tmp_path / "spill")


def test_large_sort_spills_to_the_temp_folder(tmp_path: Path) -> None:
    spill = tmp_path / "spill"
    with store.create(
        tmp_path / "a.duckdb", max_memory=store.LEAST_MEMORY, temp_folder=spill
    ) as con:
        con.execute(
            "CREATE TEMP TABLE wide AS SELECT r, repeat(hash(r)::VARCHAR, 12) AS h "
            "FROM range(2_000_000) AS t(r)"
        )
        used = con.execute("SELECT sum(size) FROM duckdb_temporary_files()").fetchall()[0][0]
        assert used > 50 << 20
        assert any(spill.iterdir())
        assert con.execute("SELECT count(DISTINCT h) FROM wide").fetchall() == [(2_000_000,)]


def test_analyzer_that_needs_too_much_memory_is_left_out_and_the_others_remain(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def heavy(scope: Scope) -> Iterable[Finding | Outcome]:
        scope.rows(HUGE)
        yield clean("unreachable")

    def light(scope: Scope) -> Iterable[Finding | Outcome]:
        yield clean(f"{scope.rows('SELECT 41 + 1 AS n')[0]['n']}")

    made = {
        name: Analyzer(name, judge, (), "measured", ())
        for name, judge in [("a_heavy", heavy), ("b_light", light)]
    }
    monkeypatch.setattr(judging, "analyzers", lambda: made)
    seen: list[tuple[str, float]] = []
    scope = Scope(con)
    judgement = judging.judge_all(scope, (), lambda name, share: seen.append((name, share)))
    found = [(o.analyzer, o.conclusion, o.reason) for o in judgement.outcomes]
    assert found == [
        (
            "a_heavy",
            "left_out",
            "Its query needs more memory than --max-memory allows. Allow more, or choose a shorter "
            "window (--from, --to).",
        ),
        ("b_light", "clean", "42"),
    ]
    assert seen == [("a_heavy", 0.0), ("b_light", 0.5)]
    assert [(t.part, t.left_out) for t in scope.timings.queries if t.part] == [
        ("a_heavy", True),
        ("b_light", False),
    ]
    judging.store(con, judgement)
    shown = page.payload(page.chosen_view(con, None, None))
    assert shown["findings"]["left_out"] == [f"a_heavy: {judging.LEFT_OUT}"]


def test_section_that_needs_too_much_memory_is_left_out_and_the_others_remain(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def heavy(view: sections.View) -> sections.Section:
        view.rows(HUGE)
        raise AssertionError

    def light(view: sections.View) -> sections.Section:
        return sections.Section("lead", view.step_window())

    chapters = [
        sections.Chapter("heavy", "Heavy section", 1, heavy),
        sections.Chapter("light", "Light section", 2, light),
    ]
    monkeypatch.setattr(page, "chapters", lambda: chapters)
    shown = page.payload(page.chosen_view(con, None, None))
    assert [section["heading"] for section in shown["sections"]] == ["Light section"]
    assert shown["absent"] == [["Heavy section", f"left out: {judging.LEFT_OUT}"]]


def test_timeline_is_shown_without_the_waits_that_need_too_much_memory(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    con.execute(
        "INSERT INTO thread BY NAME SELECT 1 AS trace_id, 1 AS utid, 1 AS tid, false AS is_idle; "
        "INSERT INTO sched_slice BY NAME SELECT 1 AS trace_id, 1 AS utid, 0 AS cpu, "
        "100 * range AS ts, 50 AS dur, false AS is_idle, false AS left_censored, "
        "false AS right_censored FROM range(10)"
    )
    call = Scope.call
    asked = []

    def huge(scope: Scope, query: str, **arguments: object) -> str:
        if query != "worst_waits":
            return call(scope, query, **arguments)
        asked.append(query)
        return f"SELECT 1 AS ready_ts, 1 AS ready_ns, h AS place FROM ({HUGE})"

    monkeypatch.setattr(Scope, "call", huge)
    # Too little for every slice, so that the page has those around the waits.
    [recorded] = embedded.payload(con, 1, 100)["recordings"]
    assert asked == ["worst_waits"]
    assert [one["kind"] for one in recorded["streams"]] == ["cpu", "thread", "sibling"]


def test_timings_name_phases_and_queries(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = fixture("own_tree", tmp_path_factory)
    done = analyze(trace, "-o", tmp_path, "--timings")
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    at = lines.index("Timings (s)")
    blank = lines.index("", at)
    phases = [line.split(maxsplit=1) for line in lines[at + 1 : blank]]
    assert [phase[1] for phase in phases] == PHASES
    whole, *parts = (float(phase[0]) for phase in phases[:5])
    assert all(part >= 0 for part in parts)
    # Each is rounded to a hundredth.
    assert sum(parts) <= whole + 0.03
    assert lines[blank + 1].startswith("Slowest queries (s), ")
    seconds = [float(line.split()[0]) for line in lines[blank + 2 :]]
    assert seconds == sorted(seconds, reverse=True)
    assert len(seconds) == 30
    facts = json.loads(analyze(trace, "-o", tmp_path, "--timings", "--json").stdout)
    assert [row["part"] for row in facts["timings"][: len(PHASES)]] == PHASES
    assert all(row["sql"] and not row["left_out"] for row in facts["timings"][len(PHASES) :])
    assert "timings" not in json.loads(analyze(trace, "-o", tmp_path, "--json").stdout)
