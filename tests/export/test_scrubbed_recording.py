"""Analyzed, scrubbed, analyzed again: the same findings, and no name in the file."""

from __future__ import annotations

import contextlib
import io
import json
import re
import zipfile
from pathlib import Path

import duckdb
import etl_drawn
import pytest
from conftest import command
from drawn_trace import Cpu, DrawnTrace, Slice, add, drawn_database
from etl_bytes import Log
from fixture_files import fixture, qemu_session
from simulated import simulated_database

from schedlens import _decoders
from schedlens.ask import analysis, blank_database, judging
from schedlens.ask.findings import Scope
from schedlens.commands import cli
from schedlens.commands.analyze import analyze
from schedlens.export import excerpt, scrubbed_recording
from schedlens.export.excerpt import Choice
from schedlens.export.scrubbed_recording import Compared
from schedlens.load import query_threads, recording, scrubbed_file, store
from schedlens.output.pseudonyms import Pseudonyms
from schedlens.simulate import cases

MS = 1_000_000
ALL = Choice(("all",), 100 * MS)
MARK = "zqx"


def analyzed(paths: list[Path], folder: Path, process: str | None = None) -> Path:
    """The database of these recordings."""
    file = folder / "analysis.duckdb"
    found = recording.gather(paths)
    threads = query_threads.count(found)
    with store.create(file, place=blank_database.place, threads=threads) as con:
        assert analysis.load(con, found, (None, None), lambda *_: None) == []
        judging.store(con, judging.judge_all(Scope(con, process)))
    return file


def compared(file: Path, choice: Choice = ALL, process: str | None = None) -> list[Compared]:
    """The findings of a database, and what its scrubbed recording gives."""
    target = file.with_name("scrubbed.schedlens")
    with duckdb.connect(str(file)) as con:
        chosen = excerpt.choose(con, choice)
        hashed = scrubbed_recording.write(con, target, chosen, process=process)
    return scrubbed_recording.compare(target, chosen, process=hashed)


def differing(found: list[Compared]) -> list[str]:
    """The lines of findings that are not the same; there must be some findings."""
    assert found
    return [one.line for one in found if not one.is_same]


@pytest.mark.parametrize(
    "name", ["plain", "loss", "counters", "switch_only", "sched_yield", "own_tree", "host_plain"]
)
def test_fixture_gives_the_same_findings(
    name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = analyzed([fixture(name, tmp_path_factory)], tmp_path)
    assert differing(compared(file)) == []


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Compared]]:
    """The database of a session, and what its scrubbed recording gives."""
    file = analyzed([qemu_session(tmp_path_factory)], tmp_path_factory.mktemp("session"))
    return file, compared(file)


@pytest.mark.slow
def test_session_gives_the_same_findings(session: tuple[Path, list[Compared]]) -> None:
    assert differing(session[1]) == []


def test_written_etl_gives_the_same_findings(tmp_path: Path) -> None:
    trace = etl_drawn.written(tmp_path, Log(etl_drawn.two_cpus(), cpus=2))
    assert differing(compared(analyzed([trace], tmp_path))) == []


@pytest.mark.slow
@pytest.mark.parametrize("case", cases.CASES, ids=lambda case: case.name)
def test_case_of_the_demo_gives_the_same_findings(case: cases.Case, tmp_path: Path) -> None:
    pair = [(name, case.play(fixed=name == "fixed", seconds=1.5)) for name in ("faulty", "fixed")]
    with simulated_database(tmp_path, pair) as con:
        judging.store(con, judging.judge_all(Scope(con, "game.exe")))
    found = compared(tmp_path / "analysis.duckdb", process="game.exe")
    assert differing(found) == []


@pytest.mark.slow
def test_versions_of_one_thing_are_compared_as_before(tmp_path: Path) -> None:
    priority, critical_path = cases.CASES[:2]
    versions = [
        ("other.etl", priority.play(seconds=1.0)),
        ("secret-build-17.etl", critical_path.play(seconds=1.0)),
        ("secret-build-18.etl", critical_path.play(fixed=True, seconds=1.0)),
        ("game", priority.play(seed=2, seconds=1.0)),
        ("game-fixed", priority.play(seed=2, fixed=True, seconds=1.0)),
    ]
    pairs = "SELECT first_trace_id, second_trace_id, basis FROM recording_pair"
    with simulated_database(tmp_path, versions) as con:
        judging.store(con, judging.judge_all(Scope(con)))
        before = con.execute(pairs).fetchall()
    assert before == [(2, 3, "name"), (4, 5, "name")]
    found = compared(tmp_path / "analysis.duckdb")
    assert differing(found) == []
    assert "smt_comparison" in {one.original["analyzer"] for one in found}
    target = tmp_path / "scrubbed.schedlens"
    names = [one.name for one in scrubbed_file.contained(target)]
    assert names == [
        "recording1", "recording2-1", "recording2-2", "recording4", "recording4-fixed",
    ]  # fmt: skip
    again = analyzed([target], tmp_path)
    with duckdb.connect(str(again), read_only=True) as con:
        assert con.execute(pairs).fetchall() == before


@pytest.mark.slow
def test_part_of_a_case_gives_bounds_that_contain_the_truth(tmp_path: Path) -> None:
    case = cases.CASES[2]
    with simulated_database(tmp_path, [("faulty", case.play())]) as con:
        judging.store(con, judging.judge_all(Scope(con)))
    choice = Choice(("all",), 0, 500 * MS, 1500 * MS)
    found = compared(tmp_path / "analysis.duckdb", choice)
    matched = [one for one in found if one.again is not None]
    assert len(matched) >= 5
    assert differing(found)
    for one in matched:
        again, truth = one.again, one.original["cost_ns"]
        assert again is not None
        if truth is None or again["bound"] is None:
            continue
        low = again["cost_low_ns"] if again["bound"] == "range" else again["cost_ns"]
        high = {"exact": again["cost_ns"], "range": again["cost_high_ns"] or again["cost_ns"]}
        # Another thread of the same kind may be the worst of the part.
        if again["bound"] == "exact":
            assert one.is_same, one.line
        elif again["bound"] == "at_least":
            assert low <= truth, one.line
        else:
            assert (low or 0) <= truth <= high["range"], one.line


# cpu 0  A . B . A
# cpu 1  . W . .
SLICES = [
    Slice("game/A", 0, 0, 2 * MS),
    Slice("game/B", 0, 3 * MS, MS, ready=MS, waker="game/A"),
    Slice("game/A", 0, 6 * MS, MS, wait=4 * MS, waker="game/B"),
    Slice("game/worker-1", 1, 2 * MS, MS),
    Slice("game/worker-12", 1, 4 * MS, MS),
]


@pytest.fixture
def full_of_names(tmp_path: Path) -> Path:
    """A database with a text of its own in every column of every table of a recording."""
    file = tmp_path / "analysis.duckdb"
    with drawn_database(file) as con:
        DrawnTrace(con, SLICES, [Cpu(0, 0), Cpu(1, 1)], 10 * MS)
        con.execute("UPDATE trace SET schema_version = $1", [_decoders.SCHEMA_VERSION])
        number = 0
        for table in excerpt.tables():
            columns = con.execute(f"DESCRIBE {table}").fetchall()
            values: dict[str, object] = {}
            for name, kind, *_ in columns:
                number += 1
                text = f"/home/{MARK}{number}/{table} {name}"
                values[name] = {
                    "VARCHAR": text, "VARCHAR[]": [text], "BOOLEAN": False, "BIGINT": 1,
                    "INTEGER": 0, "INTEGER[]": [0], "DOUBLE": 1.0,
                }.get(kind)  # fmt: skip
            values |= {name: 1 << 32 | 1 for name in values if name in scrubbed_file.IDS}
            if table in ("trace", "cpu_state_other", "thread_state_other", "sched_slice"):
                texts = {n: v for n, v in values.items() if isinstance(v, str)}
                # The rows of the drawn recording must remain a recording.
                texts = {n: v for n, v in texts.items() if n not in ("state", "source")}
                for name, text in texts.items():
                    con.execute(f"UPDATE {table} SET {name} = ?", [text])
                continue
            add(con, table, **values)
    return file


def texts_of(path: Path) -> str:
    """All bytes of a file, and all texts of its tables."""
    found = [path.read_bytes().decode("latin-1")]
    with zipfile.ZipFile(path) as archive, duckdb.connect() as con:
        found.append(archive.read(scrubbed_file.MANIFEST).decode())
        for name in archive.namelist():
            if name.endswith(".parquet"):
                part = path.parent / "part.parquet"
                part.write_bytes(archive.read(name))
                found += [str(row) for row in con.execute(f"FROM '{part}'").fetchall()]
                about = f"FROM parquet_metadata('{part}')"
                found += [str(row) for row in con.execute(about).fetchall()]
                part.unlink()
    return "\n".join(found)


def test_no_text_of_any_column_survives(full_of_names: Path) -> None:
    target = full_of_names.with_name("out.schedlens")
    with duckdb.connect(str(full_of_names)) as con:
        chosen = excerpt.choose(con, Choice(from_ns=0))
        scrubbed_recording.write(con, target, chosen)
    assert texts_of(target).count(MARK) == 0
    (one,) = scrubbed_file.contained(target)
    assert set(one.rows) == set(excerpt.tables())
    # Settings and events that are not known are left out as whole rows.
    assert {name for name, rows in one.rows.items() if not rows} == {
        "machine_setting", "record_count",
    }  # fmt: skip


@pytest.mark.slow
def test_no_name_of_a_recording_survives(session: tuple[Path, list[Compared]]) -> None:
    file, _ = session
    with duckdb.connect(str(file)) as con:
        columns = con.execute(
            "SELECT table_name, column_name FROM duckdb_columns() WHERE data_type = 'VARCHAR' "
            "AND schema_name = 'main' AND table_name IN (SELECT table_name FROM duckdb_tables())"
        ).fetchall()
        originals = {
            text
            for table, column in columns
            for (text,) in con.execute(f'SELECT DISTINCT "{column}" FROM {table}').fetchall()
            if text is not None and len(text) >= 4
        }
    text = texts_of(file.with_name("scrubbed.schedlens"))
    found = {name for name in originals if name in text}
    # What docs/scrubbed-recordings.md says is kept.
    kept = re.compile(
        r"[a-z_]+|kworker/.*|(swapper|migration|ksoftirqd|cpuhp)/\d+|PERF_RECORD_\w+|\w+:\w+"
        r"|TIMER|SCHED|NET_RX|BLOCK|HRTIMER|TASKLET|\d+(\.\d+)+|[0-9,]+|QEMU|sha256"
        r"|kcompactd\d|kswapd\d|voluntary \(.*"
        # The words of the state machine in `problem`.
        # Settings of groups: their cgroups are replaced, which the other columns show.
        r'|\{"/": \d+\}|\{("\d+": "/autogroup-\d+ nice -?\d+"(, )?)*\}'
        r"|switch-in without .*|tick unknown.*|the thread that leaves .*|the records of a CPU .*"
    )
    assert {name for name in found if not kept.fullmatch(name)} == set()
    named = {row for row in originals if "schedlens" in row or row.startswith("sha256-")}
    assert named
    assert not named & found


def test_report_of_a_scrubbed_recording_has_no_names(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path / "zqxhome"
    home.mkdir()
    analyzed([fixture("plain", tmp_path_factory)], home)
    done = command(
        "schedlens", "export", str(home), "--scrub", "--finding", "all", "--report",
        "-o", str(tmp_path / "out.schedlens"),
    )  # fmt: skip
    assert "the same in this file" in done.stdout
    with duckdb.connect(str(home / "analysis.duckdb"), read_only=True) as con:
        names = {
            row[0]
            for row in con.execute(
                "SELECT name FROM thread UNION SELECT name FROM process UNION "
                "SELECT host FROM trace UNION SELECT path FROM trace"
            ).fetchall()
            if row[0] and len(row[0]) >= 6 and not row[0].startswith(("swapper", "kworker"))
        }
    opened = command("analyze", str(tmp_path / "out.schedlens"), "-o", str(tmp_path / "again"))
    report = (tmp_path / "out.html").read_text(encoding="utf-8")
    shown = command("schedlens", "sql", str(tmp_path / "again"), "FROM thread", "--csv").stdout
    for text in (done.stdout, opened.stdout, report, shown):
        assert [name for name in names if name in text and not WELL_KNOWN.fullmatch(name)] == []
    assert "zqxhome" not in report


WELL_KNOWN = re.compile(
    r"(migration|ksoftirqd|cpuhp)/\d+|kthreadd|rcu_\w+|kauditd|khugepaged|kcompactd0|kswapd0"
)


def test_names_of_a_pool_share_a_word() -> None:
    names = Pseudonyms(b"secret")
    one, other, year = (names.name(f"worker-{n}") for n in (1, 12, 20771))
    word = re.match(r"[A-Za-z]+", one)
    assert word is not None
    assert (one, other) == (f"{word[0]}-1", f"{word[0]}-12")
    assert year.startswith(word[0])
    assert "20771" not in year
    assert names.name("a1b23") != names.name("a12b3")
    assert re.sub("[0-9]+", "#", names.name("a1b23")) == re.sub("[0-9]+", "#", names.name("a12b3"))
    # The query that leaves out threads bound by the kernel recognizes them by this form.
    assert re.fullmatch(r"[a-z_]+/[0-9].*", names.name("kworker/3:1-events"))
    assert not re.fullmatch(r"[a-z_]+/[0-9].*", names.name("Pool/3"))


def test_same_secret_gives_the_same_names_and_another_does_not(tmp_path: Path) -> None:
    one, same, other = Pseudonyms(b"a"), Pseudonyms(b"a"), Pseudonyms(b"b")
    assert one.name("game.exe") == same.name("game.exe") != other.name("game.exe")


def test_cgroup_keeps_what_containers_and_services_are_recognized_by() -> None:
    names = Pseudonyms(b"secret")
    shown = names.cgroup("/system.slice/docker-" + "ab" * 32 + ".scope")
    assert re.fullmatch(r"/system\.slice/docker-[0-9a-f]{64}\.scope", shown)
    assert "abab" not in shown
    assert re.fullmatch(
        r"/system\.slice/[a-z]{10}\.service", names.cgroup("/system.slice/x.service")
    )
    below = names.cgroup("/user.slice/user-1000.slice/app.scope")
    assert below.startswith(names.cgroup("/user.slice/user-1000.slice") + "/")
    assert "1000" not in below


def scrubbed(tmp_path: Path) -> Path:
    """A scrubbed recording of the drawn trace."""
    file, target = tmp_path / "analysis.duckdb", tmp_path / "drawn.schedlens"
    with drawn_database(file) as con:
        DrawnTrace(con, SLICES, [Cpu(0, 0), Cpu(1, 1)], 10 * MS)
        con.execute("UPDATE trace SET schema_version = $1", [_decoders.SCHEMA_VERSION])
        scrubbed_recording.write(con, target, excerpt.choose(con, Choice(from_ns=0)))
    return target


def test_time_outside_the_part_is_unknown(tmp_path: Path) -> None:
    file, target = tmp_path / "analysis.duckdb", tmp_path / "part.schedlens"
    with drawn_database(file) as con:
        DrawnTrace(con, SLICES, [Cpu(0, 0), Cpu(1, 1)], 10 * MS)
        con.execute("UPDATE trace SET schema_version = $1", [_decoders.SCHEMA_VERSION])
        choice = Choice(from_ns=int(2.5 * MS), to_ns=int(3.5 * MS))
        scrubbed_recording.write(con, target, excerpt.choose(con, choice))
    again = tmp_path / "again"
    command("analyze", str(target), "-o", str(again), "--no-report")
    with duckdb.connect(str(again / "analysis.duckdb"), read_only=True) as con:
        states = con.execute(
            "SELECT cpu, ts / 1e6, dur / 1e6, state FROM cpu_state ORDER BY cpu, ts"
        ).fetchall()
        assert states == [
            (0, 0.0, 2.5, "unknown"), (0, 2.5, 0.5, "idle"), (0, 3.0, 0.5, "thread"),
            (0, 3.5, 6.5, "unknown"),
            (1, 0.0, 2.5, "unknown"), (1, 2.5, 0.5, "thread"), (1, 3.0, 0.5, "idle"),
            (1, 3.5, 6.5, "unknown"),
        ]  # fmt: skip
        assert con.execute("SELECT count(*) FROM thread WHERE NOT is_idle").fetchall() == [(4,)]
        assert con.execute("SELECT start_ns, end_ns FROM analysis_window").fetchall() == [
            (0, 10 * MS)
        ]
        kinds = con.execute("SELECT kind, cost_ns FROM finding ORDER BY ALL").fetchall()
        assert ("left_out", 2 * 9 * MS) in kinds
        assert "loss" not in dict(kinds)


def refused(path: Path) -> str:
    """The one line with which `analyze` refuses a file."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        code = cli.run(analyze, [str(path), "-o", str(path.parent / "refused")], "analyze")
    assert code == 2
    assert len(said.getvalue().strip().splitlines()) == 1, said.getvalue()
    assert not (path.parent / "refused" / "analysis.duckdb").exists()
    return said.getvalue()


def rewritten(path: Path, change: dict[str, bytes | None], name: str = "bad.schedlens") -> Path:
    """A copy with other parts."""
    target = path.with_name(name)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w") as new:
        for part in old.namelist():
            content = change.get(part, old.read(part))
            if content is not None:
                new.writestr(part, content)
    return target


def changed_table(path: Path, table: str, sql: str) -> Path:
    """A copy in which the rows of a table are those of a query on `t`."""
    part, out = path.with_name("old.parquet"), path.with_name("new.parquet")
    with zipfile.ZipFile(path) as archive, duckdb.connect() as con:
        part.write_bytes(archive.read(f"1/{table}.parquet"))
        con.execute(f"COPY (WITH t AS (FROM '{part}') {sql}) TO '{out}' (FORMAT parquet)")
    return rewritten(path, {f"1/{table}.parquet": out.read_bytes()})


def test_damaged_files_are_refused_in_one_line(tmp_path: Path) -> None:
    good = scrubbed(tmp_path)
    cut = tmp_path / "cut.schedlens"
    cut.write_bytes(good.read_bytes()[:-200])
    assert "not a whole scrubbed recording" in refused(cut)
    # As a user does.
    done = command("analyze", str(cut), "-o", str(tmp_path / "refused"), check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    with zipfile.ZipFile(good) as archive:
        known = json.loads(archive.read(scrubbed_file.MANIFEST))
    other = json.dumps(known | {"schema_version": 999}).encode()
    assert "with version" in refused(rewritten(good, {scrubbed_file.MANIFEST: other}))
    for wrong in (b"[]", b"{", json.dumps(known | {"recordings": [7]}).encode()):
        refused(rewritten(good, {scrubbed_file.MANIFEST: wrong}))
    assert "cannot read cpu" in refused(rewritten(good, {"1/cpu.parquet": None}))
    assert "cannot read cpu" in refused(rewritten(good, {"1/cpu.parquet": b"PAR1"}))


@pytest.mark.parametrize(
    ("table", "sql", "words"),
    [
        ("cpu", "SELECT *, 1 AS more FROM t", "other columns"),
        ("cpu", "FROM t UNION ALL FROM t", "rows"),
        ("cpu", "SELECT * REPLACE (-1::INTEGER AS cpu) FROM t", "values that no recording has"),
        ("cpu", "SELECT * REPLACE (2::BIGINT AS trace_id) FROM t", "values that no recording has"),
        ("thread", "SELECT * REPLACE (utid + 1099511627776 AS utid) FROM t", "values that no"),
        ("sched_slice", "SELECT * REPLACE (-5::BIGINT AS dur) FROM t", "values that no recording"),
        ("cpu_state_other", "SELECT * REPLACE (0::BIGINT AS ts) FROM t", "overlap"),
        ("thread_state_other", "SELECT * REPLACE (ts + 5000000 AS ts) FROM t", "overlap"),
        ("trace", "FROM t LIMIT 0", "rows"),
    ],
)
def test_rows_that_no_recording_has_are_refused(
    table: str, sql: str, words: str, tmp_path: Path
) -> None:
    assert words in refused(changed_table(scrubbed(tmp_path), table, sql))


def test_file_with_repeated_or_compressed_parts_is_refused(tmp_path: Path) -> None:
    good = scrubbed(tmp_path)
    packed = tmp_path / "packed.schedlens"
    with zipfile.ZipFile(good) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for part in old.namelist():
            new.writestr(part, old.read(part))
    assert "compressed" in refused(packed)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--scrub"], "no finding is above info"),
        (["--scrub", "--finding", "stuter"], "no finding named 'stuter'"),
        (["--scrub", "--from", "2", "--to", "1"], "is not before"),
        (["--scrub", "--finding", "all", "--from", "9"], "leave out all of recording 1"),
        (["--scrub", "thread"], "--scrub takes no QUERY"),
        (["--parquet", "--report"], "need --scrub"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], words: str, tmp_path: Path) -> None:
    file = tmp_path / "analysis.duckdb"
    with drawn_database(file) as con:
        drawn = DrawnTrace(con, SLICES, [Cpu(0, 0), Cpu(1, 1)], 10 * MS)
        con.execute("UPDATE trace SET schema_version = $1", [_decoders.SCHEMA_VERSION])
        drawn.add(
            "finding", finding_id=1, analyzer="sibling_overlap", kind="k", severity="info", rank=1,
            title="T", detail="D", advice="A", cost_of="time", evidence_sql="trace_id = 1",
        )  # fmt: skip
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        code = cli.run(cli.group, ["export", str(tmp_path), *arguments], "schedlens")
    assert code == 2
    assert words in said.getvalue()
    assert list(tmp_path.glob("*.schedlens*")) == []


def test_inspect_and_events_know_the_file(tmp_path: Path) -> None:
    file = scrubbed(tmp_path)
    facts = json.loads(command("schedlens", "inspect", str(file), "--json").stdout)
    assert (facts["format"], facts["recordings"]) == ("scrubbed recording", 1)
    done = command("schedlens", "events", str(file), check=False)
    assert "is a scrubbed recording" in done.stderr
