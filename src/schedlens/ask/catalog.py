"""The questions in `queries/`: read, documented, and made into views and macros of a database.

A file is one question; its folder is a subject, and the name of the file is that of the view. Its
leading comment says what it answers, then names each parameter
(`-- p_cpu: ...`, or `-- p_min_idle_ns [100000]: ...` with a default other than NULL); a comment
above each column of the last top-level SELECT says what the column holds. The line
`-- No rows without: frame.` names tables: if one of them is empty, nobody needs to ask; nor about a
single recording after `-- No rows about one recording.` The line
`-- Few rows, which other questions read.` has an analysis store the answer (`shared_answers.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from schedlens.errors import QueryFileError, UnknownNameError, UnknownQueryError
from schedlens.load.schema import STATES, folder, literal

if TYPE_CHECKING:
    import duckdb

# The folder of the questions about a lake.
FLEET = "fleet"

_PARAMETER = re.compile(r"^(p_\w+)(?: \[([^\]]+)\])?: (.+)$")
_NEEDS = re.compile(r"^No rows without: ([\w, ]+)\.$")
_COMPARES = "No rows about one recording."
_STORED = "Few rows, which other questions read."
_NAME = re.compile(r'"([^"]+)"\s*$|(\w+)\s*$')
# A name with all that is joined to it by points: `cpu.core` is not the question `cpu`.
_WORD = re.compile(r"(?<![\w.])\w+(?:\.\w+)*\b(?!\s*\.)")
# The order of the rows, and a call of a question.
_ORDER = re.compile(r"\nORDER BY\b(?:(?!\nORDER BY\b|\bLIMIT\b).)*\Z", re.DOTALL)
_CALL = re.compile(r"(?<![\w.])(\w+)(?=\()")
# A call whose arguments are words and numbers, and whether its rows get a name.
_TEXT = r"'(?:[^']|'')*'"
_PLAIN_CALL = re.compile(rf"{_TEXT}|(?<![\w.])(\w+)\(([\w\s,:=]*)\)(\s+AS\b)?")
_ANY_CALL = re.compile(rf"{_TEXT}|(?<![\w.])(\w+)(?=\()")
_LITERAL = re.compile(rf"NULL|true|false|-?\d+|{_TEXT}")
# A view behind FROM or JOIN, with the word after it; names that a statement gives its own parts.
_READ = re.compile(rf"{_TEXT}|(\b(?:FROM|JOIN)\s+)(\w+)\b(?![.(])(?=(\s*\w*))")
_OWN = re.compile(r"\b(\w+)(?:\([\w, ]*\))? AS (?:MATERIALIZED )?\(")
_AFTER_ROWS = {
    "ANTI", "AS", "ASOF", "CROSS", "EXCEPT", "FULL", "GROUP", "HAVING", "INNER", "INTERSECT",
    "JOIN", "LEFT", "LIMIT", "ON", "ORDER", "RIGHT", "SELECT", "SEMI", "UNION", "USING", "WHERE",
    "WINDOW",
}  # fmt: skip
_COMMENT = re.compile(r"^ *--.*\n", re.MULTILINE)
# The schema of the questions as others read them.
_UNORDERED = "unordered"


@dataclass(frozen=True)
class Parameter:
    """One parameter of a question; `default` is SQL text."""

    name: str
    default: str
    text: str


@dataclass(frozen=True)
class Query:
    """One question: its name is the file's, in a schema of its own for the dialects."""

    name: str
    schema: str
    text: str
    parameters: tuple[Parameter, ...]
    columns: tuple[tuple[str, str], ...]
    sql: str
    # If one of these tables is empty, there are no rows.
    needs: tuple[str, ...] = ()
    # Nor are there in a database of one recording.
    compares: bool = False
    # An analysis stores the answer for the questions that read it.
    is_stored: bool = False

    @property
    def full_name(self) -> str:
        """Name as typed in a shell: `sibling_overlap`, `perf.timehist`."""
        return self.name if self.schema == "main" else f"{self.schema}.{self.name}"


def load_all() -> list[Query]:
    """All questions, dialects included, each after those that it uses."""
    return _in_order([read(path, schema) for path, schema in _files()])


def load_fleet() -> list[Query]:
    """The questions about the recordings of a lake, which only its database has."""
    found = sorted((folder() / FLEET).glob("*.sql"))
    return _in_order([read(path, "main") for path in found])


def _files() -> list[tuple[Path, str]]:
    """The file of each question about a database, with its schema."""
    own = [path for path in folder().glob("*/*.sql") if path.parent.name not in ("schema", FLEET)]
    dialects = sorted((folder() / "dialects").glob("*/*.sql"))
    return [(path, "main") for path in sorted(own, key=lambda path: path.name)] + [
        (path, path.parent.name) for path in dialects
    ]


@cache
def _places() -> dict[str, tuple[Path, str]]:
    return {
        path.stem if schema == "main" else f"{schema}.{path.stem}": (path, schema)
        for path, schema in _files()
    }


@cache
def described(name: str) -> Query | None:
    """The question of that name about a database, read alone; None if there is none."""
    place = _places().get(name)
    return None if place is None else read(*place)


def find(name: str, others: Iterable[str] = ()) -> Query:
    """The question of that name; raises `UnknownQueryError` with the nearest of all names.

    `others` are names that are no questions but may be meant.
    """
    every = {query.full_name: query for query in load_all() + load_fleet()}
    if name not in every:
        raise UnknownQueryError(name, sorted({*every, *others}))
    return every[name]


def call(query: Query, arguments: Mapping[str, str]) -> str:
    """`FROM query(p_a := 1)`; `arguments` are SQL texts by name, with or without `p_`.

    Raises `UnknownNameError` for an argument that the question does not have.
    """
    known = [parameter.name for parameter in query.parameters]
    words = []
    for key, text in arguments.items():
        name = key if key.startswith("p_") else f"p_{key}"
        if name not in known:
            raise UnknownNameError(f"argument of {query.full_name}", key, known or ["none"])
        words.append(f"{name} := {text}")
    return f"FROM {query.full_name}({', '.join(words)})"


def read(path: Path, schema: str) -> Query:
    """Reads one file; raises `QueryFileError` where a comment is missing."""
    lines = path.read_text(encoding="utf-8").rstrip().rstrip(";").splitlines()
    head = 0
    while head < len(lines) and lines[head].startswith("--"):
        head += 1
    text: list[str] = []
    parameters: list[Parameter] = []
    needs: tuple[str, ...] = ()
    compares = is_stored = False
    for line in (line[2:].strip() for line in lines[:head]):
        match = _PARAMETER.match(line)
        needed = _NEEDS.match(line)
        if needed:
            needs = tuple(needed[1].split(", "))
        elif line == _COMPARES:
            compares = True
        elif line == _STORED:
            is_stored = True
        elif match:
            parameters.append(Parameter(match[1], match[2] or "NULL", match[3]))
        elif parameters:
            last = parameters[-1]
            parameters[-1] = Parameter(last.name, last.default, f"{last.text} {line}")
        else:
            text.append(line)
    if not text:
        raise QueryFileError(path.name, "the first line does not say what it answers")
    body = lines[head:]
    return Query(
        path.stem,
        schema,
        " ".join(text),
        tuple(parameters),
        tuple(_columns(path, body)),
        "\n".join(body),
        needs,
        compares,
        is_stored,
    )


def _columns(path: Path, body: list[str]) -> Iterable[tuple[str, str]]:
    """The documented columns of the last SELECT that begins a line."""
    starts = [i for i, line in enumerate(body) if re.match(r"^SELECT\b", line)]
    if not starts:
        raise QueryFileError(path.name, "no line begins with SELECT")
    comment: list[str] = []
    expression: list[str] = []
    for line in body[starts[-1] + 1 :]:
        if re.match(r"^(FROM|WHERE|GROUP|ORDER|HAVING|QUALIFY|LIMIT|UNION|\))", line):
            break
        stripped = line.strip()
        if stripped.startswith("--"):
            if not expression:
                comment.append(stripped[2:].strip())
            continue
        code = line.split(" -- ")[0].rstrip()
        expression.append(code.strip())
        # A column ends with a comma at two spaces of indentation, or where the list ends.
        if line.startswith("  ") and code.endswith(",") and _balanced(expression):
            yield _column(path, comment, expression)
            comment, expression = [], []
    if expression:
        yield _column(path, comment, expression)


def _balanced(expression: list[str]) -> bool:
    joined = re.sub(r"'[^']*'", "", " ".join(expression))
    if joined.count("(") != joined.count(")") or joined.count("[") != joined.count("]"):
        return False
    words = re.findall(r"\b(CASE|END)\b", joined, re.IGNORECASE)
    return sum(1 if word.upper() == "CASE" else -1 for word in words) == 0


def _column(path: Path, comment: list[str], expression: list[str]) -> tuple[str, str]:
    code = " ".join(expression).rstrip(",").strip()
    match = _NAME.search(code)
    if not match:
        raise QueryFileError(path.name, f"a column has no name: {code[:60]}")
    if not comment:
        raise QueryFileError(path.name, f"the column {match[0]} has no comment above it")
    return match[1] or match[2], " ".join(comment)


def _in_order(queries: list[Query]) -> list[Query]:
    """Each question after those it names, so that binding finds them."""
    by_name = {query.full_name: query for query in queries}
    ordered: dict[str, Query] = {}

    def place(query: Query, above: tuple[str, ...]) -> None:
        if query.full_name in ordered:
            return
        if query.full_name in above:
            raise QueryFileError(query.name, f"uses itself by way of {' > '.join(above)}")
        code = re.sub(r"--.*", "", query.sql)
        words = set(_WORD.findall(code))
        for name, other in by_name.items():
            if name in words and other is not query:
                place(other, (*above, query.full_name))
        ordered[query.full_name] = query

    for query in queries:
        place(query, ())
    return list(ordered.values())


def is_installed(con: duckdb.DuckDBPyConnection) -> bool:
    """Whether the database has the views of all questions."""
    views = con.execute(
        "SELECT count(*) FROM duckdb_views() WHERE NOT internal "
        "AND database_name = current_database() "
        "AND NOT (schema_name = 'main' AND list_contains(?, view_name))",
        [list(STATES)],
    ).fetchall()
    return bool(views[0][0] == len(_files()))


def install(con: duckdb.DuckDBPyConnection, queries: Iterable[Query] | None = None) -> None:
    """Makes a macro and a view of every question, with their documentation as comments.

    `queries` are the questions, each after those that it uses; by default `load_all()`. Questions
    read each other without their order, which DuckDB would sort by even where it is of no use.
    """
    chosen = load_all() if queries is None else list(queries)
    main = {query.name for query in chosen if query.schema == "main"}
    read_by_others = {
        name for query in chosen for name in _CALL.findall(query.sql) if name in main - {query.name}
    }
    con.execute(f"CREATE SCHEMA IF NOT EXISTS {_UNORDERED}")
    for query in chosen:
        if query.schema != "main":
            con.execute(f"CREATE SCHEMA IF NOT EXISTS {query.schema}")
        arguments = ", ".join(f"{p.name} := {p.default}" for p in query.parameters)
        name = query.full_name
        sql = _CALL.sub(
            lambda call: f"{_UNORDERED}.{call[1]}" if call[1] in read_by_others else call[1],
            query.sql,
        )
        con.execute(f"CREATE OR REPLACE MACRO {name}({arguments}) AS TABLE {sql}")
        if query.schema == "main" and name in read_by_others:
            rows = without_order(sql)
            con.execute(f"CREATE OR REPLACE MACRO {_UNORDERED}.{name}({arguments}) AS TABLE {rows}")
        con.execute(f"CREATE OR REPLACE VIEW {name} AS FROM {name}()")
        signature = "".join(f" {p.name} [{p.default}]: {p.text}" for p in query.parameters)
        con.execute(f"COMMENT ON MACRO TABLE {name} IS {literal(query.text + signature)}")
        con.execute(f"COMMENT ON VIEW {name} IS {literal(query.text)}")
        for column, text in query.columns:
            con.execute(f'COMMENT ON COLUMN {name}."{column}" IS {literal(text)}')


def read_by(sql: str, answer: Callable[[str], str | None]) -> str:
    """A statement that reads the views of questions, with tables in the place of some.

    `answer` is asked about each question that the statement names behind FROM or JOIN; it returns
    the table to read instead, or None.
    """
    own = set(_OWN.findall(sql))

    def read_from(found: re.Match[str]) -> str:
        name = found[2]
        if name is None or name in own or described(name) is None:
            return found[0]
        after = found[3].strip().upper()
        # Without AS, the next word may be another name for its rows.
        if after and after not in _AFTER_ROWS:
            return found[0]
        table = answer(name)
        if table is None:
            return found[0]
        named = "" if after == "AS" else f" AS {name}"
        return f"{found[1]}{table}{named}"

    return _READ.sub(read_from, sql)


def body(
    query: Query,
    given: Mapping[str, str],
    answer: Callable[[str, Mapping[str, str]], str | None],
) -> str:
    """The SQL of a question with these arguments, texts by parameter, as its macro expands to.

    `answer` is asked about each question inside it, by name and arguments other than the default
    ones; it returns the table to read instead, or None.
    """
    values = {p.name: p.default for p in query.parameters} | dict(given)

    def read_from(call: re.Match[str]) -> str:
        name = call[1] or ""
        other = described(name)
        if other is None:
            return call[0]
        arguments = [word.strip() for word in call[2].split(",") if word.strip()]
        own: dict[str, str] = {}
        for parameter, word in zip(other.parameters, arguments, strict=False):
            named, _, text = word.rpartition(":=")
            text = text.strip()
            own[named.strip() or parameter.name] = values.get(text, text)
        defaults = {p.name: p.default for p in other.parameters}
        # A macro can be called with columns: then each row is a question of its own.
        if all(_LITERAL.fullmatch(text) for text in own.values()):
            differing = {key: text for key, text in own.items() if text != defaults[key]}
            table = answer(name, differing)
            if table is not None:
                return table + (call[3] or f" AS {name}")
        return call[0]

    def unordered(call: re.Match[str]) -> str:
        return call[0] if described(call[1] or "") is None else f"{_UNORDERED}.{call[0]}"

    sql = _PLAIN_CALL.sub(read_from, _COMMENT.sub("", query.sql))
    sql = _ANY_CALL.sub(unordered, sql)
    names = "|".join(values)
    if not names:
        return sql
    parameter = re.compile(rf"{_TEXT}|(?<![\w.])(?:{names})\b(?!\s*:=)")
    return parameter.sub(lambda word: values.get(word[0], word[0]), sql)


def without_order(sql: str) -> str:
    """A question without the order of its rows, unless a limit depends on it."""
    return _ORDER.sub("", sql)
