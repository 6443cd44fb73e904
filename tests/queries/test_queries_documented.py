"""Every query is documented, works as view and as macro, and runs in older shells."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database

from schedlens.ask import bounds, catalog
from schedlens.load import schema

pytestmark = pytest.mark.slow

QUESTIONS = catalog.load_all()
NAMES = [query.full_name for query in QUESTIONS]

# 10C of two siblings would be (n, n + 1); here two cores:    cpu 0  A A A . . B B
#                                                             cpu 1  . B B B . . .
SLICES = [
    Slice("game/A", 0, 0, 30, end="preempted"),
    Slice("game/B", 1, 10, 30, ready=5, wait=None, waker="game/A"),
    Slice("game/B", 0, 50, 20, ready=0, wait=10),
    Slice("game/A", 1, 60, 40, ready=30, wait=0, end="trace_end"),
]
CPUS = [Cpu(0, 0, 0), Cpu(1, 0, 1)]


def _fill(con: duckdb.DuckDBPyConnection) -> None:
    for trace_id in (1, 2):
        DrawnTrace(con, SLICES, CPUS, 100, trace_id=trace_id)


def _at_once(query: catalog.Query) -> str:
    """The macro with all of its parameters, by name, at their defaults.

    Each is the same SQL as without it, and binding takes most of the time.
    """
    given = ", ".join(f"{p.name} := {p.default}" for p in query.parameters)
    return f"FROM {query.full_name}({given})"


@pytest.fixture(scope="module")
def empty() -> Iterator[duckdb.DuckDBPyConnection]:
    """Created as `analyze` creates it; other tests use a copy."""
    with duckdb.connect() as con:
        schema.create(con)
        catalog.install(con)
        yield con


@pytest.fixture(scope="module")
def filled() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as con:
        _fill(con)
        yield con


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("questions") / "analysis.duckdb"
    with drawn_database(path) as con:
        _fill(con)
    return path


# Not the text of a macro: columns dropped by EXCLUDE have no order.
CATALOGUE = """
SELECT 'table' AS kind, table_name AS name, sql, comment FROM duckdb_tables() WHERE NOT internal
UNION ALL
SELECT 'view', schema_name || '.' || view_name, sql, comment FROM duckdb_views() WHERE NOT internal
UNION ALL
SELECT function_type, schema_name || '.' || function_name, parameters::VARCHAR, comment
FROM duckdb_functions() WHERE NOT internal
UNION ALL
SELECT 'column', table_name || '.' || column_name, data_type, comment
FROM duckdb_columns() WHERE NOT internal
ORDER BY ALL
"""


def test_test_database_copy_has_all_tables_and_queries(
    empty: duckdb.DuckDBPyConnection, filled: duckdb.DuckDBPyConnection
) -> None:
    original = empty.execute(CATALOGUE).fetchall()
    assert {kind for kind, *_ in original} == {"table", "view", "table_macro", "macro", "column"}
    assert filled.execute(CATALOGUE).fetchall() == original


@pytest.mark.parametrize("query", QUESTIONS, ids=NAMES)
def test_every_column_is_documented_by_its_name(
    query: catalog.Query, empty: duckdb.DuckDBPyConnection
) -> None:
    described = empty.execute(f"DESCRIBE FROM {query.full_name}").fetchall()
    assert [name for name, _ in query.columns] == [row[0] for row in described]
    # sum(BIGINT) is HUGEINT, which few readers support.
    assert not [row[0] for row in described if row[1] == "HUGEINT"]
    assert all(bounds.without_mark(text).endswith((".", "?")) for _, text in query.columns)


@pytest.mark.parametrize("query", QUESTIONS, ids=NAMES)
def test_every_parameter_is_used(query: catalog.Query) -> None:
    for parameter in query.parameters:
        assert parameter.name in query.sql, parameter.name


@pytest.mark.parametrize("query", QUESTIONS, ids=NAMES)
def test_both_forms_run_on_an_empty_database(
    query: catalog.Query, empty: duckdb.DuckDBPyConnection
) -> None:
    name = query.full_name
    forms = [f"FROM {name}", f"FROM {name}()", _at_once(query)]
    if any(p.name == "p_trace_id" for p in query.parameters):
        forms.append(f"FROM {name}(p_trace_id := 2)")
    for form in forms:
        assert empty.execute(form).fetchall() == []


@pytest.mark.parametrize("query", QUESTIONS, ids=NAMES)
def test_view_and_macro_agree_and_repeat(
    query: catalog.Query, filled: duckdb.DuckDBPyConnection
) -> None:
    first = filled.execute(f"FROM {query.full_name}").fetchall()
    for form in (f"FROM {query.full_name}()", _at_once(query)):
        assert filled.execute(form).fetchall() == first, form


@pytest.mark.parametrize("query", QUESTIONS, ids=NAMES)
def test_one_recording_alone_answers_as_in_the_session(
    query: catalog.Query, filled: duckdb.DuckDBPyConnection
) -> None:
    assert any(p.name == "p_trace_id" for p in query.parameters), "combines a whole database"
    alone = filled.execute(f"FROM {query.full_name}(p_trace_id := 2)").fetchall()
    if "trace_id" not in (name for name, _ in query.columns):
        pytest.skip("its rows combine several steps")
    among = filled.execute(f"FROM {query.full_name} WHERE trace_id = 2").fetchall()
    assert sorted(map(repr, alone)) == sorted(map(repr, among))


SHELL_FORMS = [form for query in QUESTIONS for form in (f"FROM {query.full_name}", _at_once(query))]


@pytest.fixture(scope="module")
def counts(file: Path) -> list[int]:
    """The number of rows of each form, as this library returns it."""
    with duckdb.connect(str(file), read_only=True) as con:
        return [
            con.execute(f"SELECT count(*) FROM ({form})").fetchall()[0][0] for form in SHELL_FORMS
        ]


@pytest.mark.parametrize("opening", ["direct", "attached"])
def test_all_queries_run_in_the_older_duckdb_shell(
    file: Path, counts: list[int], opening: str
) -> None:
    shell = shutil.which("duckdb", path=sysconfig.get_path("scripts")) or shutil.which("duckdb")
    if shell is None:
        pytest.skip("no duckdb shell is installed: `pip install duckdb-cli`")
    lines = [f"SELECT count(*) FROM ({form});" for form in SHELL_FORMS]
    if opening == "direct":
        command = [shell, "-readonly", "-csv", "-noheader", str(file)]
    else:
        command = [shell, "-csv", "-noheader"]
        lines.insert(0, f"ATTACH '{file}' AS sweep (READ_ONLY); USE sweep;")
    done = subprocess.run(
        command, input="\n".join(lines), capture_output=True, text=True, check=False, timeout=300
    )
    assert done.stderr == ""
    assert [int(line) for line in done.stdout.split()] == counts


def test_names_are_unique_across_folders() -> None:
    names = NAMES + [query.full_name for query in catalog.load_fleet()]
    assert len(names) == len(set(names))
    files = list(schema.folder().glob("*/*.sql"))
    assert sum(path.parent.name != "schema" for path in files) == sum("." not in n for n in names)
