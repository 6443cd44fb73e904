"""`schedlens.open` and `schedlens.analyze`: what is kept where, what is refused, what warns."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixture_files import fixture

import schedlens
from schedlens.api import kept_analyses
from schedlens.ask import blank_database
from schedlens.ask.pipeline import Questions
from schedlens.errors import (
    DatabaseError,
    MissingExtraError,
    NothingToReadError,
    SchedlensError,
    SessionError,
    UnknownNameError,
    WindowError,
)
from schedlens.load import recording
from schedlens.output import kept as kept_files

HEAVY = {"click", "duckdb", "numpy", "pandas", "plotly", "polars", "pyarrow", "rich"}


@pytest.fixture
def trace(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A copy of a recording in a folder of its own, with a cache without analyses."""
    # Making the blank database takes longer than the analysis.
    blank_database.place(tmp_path / "blank.duckdb")
    (tmp_path / "cache").mkdir()
    for file in kept_files.folder().glob("blank-*"):
        shutil.copy(file, tmp_path / "cache")
    monkeypatch.setenv("SCHEDLENS_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "traces"
    folder.mkdir()
    return Path(shutil.copy(fixture("plain", tmp_path_factory), folder / "game.perf.data"))


def kept(trace: Path) -> list[str]:
    folder = trace.parent.parent / "cache" / "analyses"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_import_loads_no_library() -> None:
    code = (
        "import sys, schedlens; "
        "print(*sorted({name.partition('.')[0] for name in sys.modules} - {'schedlens'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert set(done.stdout.split()) & HEAVY == set()


def test_trace_is_analyzed_once_and_kept_in_the_cache(trace: Path) -> None:
    with schedlens.open(trace) as analysis:
        assert analysis.recordings() == ["game.perf.data"]
        first = analysis.sql("SELECT count(*) AS n FROM sched_slice").to_pylist()
    (name,) = kept(trace)
    assert name.startswith("game.perf.data-")
    assert [path.name for path in trace.parent.iterdir()] == ["game.perf.data"]
    file = trace.parent.parent / "cache" / "analyses" / name
    inode = file.stat().st_ino
    with schedlens.open(str(trace)) as again:
        assert again.sql("SELECT count(*) AS n FROM sched_slice").to_pylist() == first
    assert file.stat().st_ino == inode


def test_changed_trace_is_analyzed_again(trace: Path) -> None:
    schedlens.open(trace).close()
    (before,) = kept(trace)
    os.utime(trace, ns=(0, 1))
    schedlens.open(trace).close()
    assert len(kept(trace)) == 2
    assert before in kept(trace)


def test_other_questions_are_kept_separately(trace: Path) -> None:
    found = recording.gather([trace])
    places = {
        kept_analyses.place(found, questions)
        for questions in (Questions(), Questions("game"), Questions(window=(0, None)),
                          Questions(only=("steal",)))
    }  # fmt: skip
    assert len(places) == 4


def test_damaged_kept_file_is_made_again(trace: Path) -> None:
    schedlens.open(trace).close()
    (name,) = kept(trace)
    file = trace.parent.parent / "cache" / "analyses" / name
    file.write_bytes(b"not a database")
    with schedlens.open(trace) as analysis:
        assert analysis.sql("FROM trace").num_rows == 1
    assert kept(trace) == [name]


def test_least_recently_used_analyses_are_removed(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_analyses, "MOST_FILES", 2)
    names = []
    for only in ("steal", "parking", "smt_tax"):
        schedlens.analyze(trace, only=[only]).close()
        names += [name for name in kept(trace) if name not in names]
        os.utime(trace.parent.parent / "cache" / "analyses" / names[-1], ns=(0, len(names)))
    assert kept(trace) == sorted(names[1:])


def test_unreadable_recording_warns_each_time_and_the_rest_is_opened(trace: Path) -> None:
    (trace.parent / "broken.data").write_bytes(b"PERFILE2" + bytes(96))
    for _ in range(2):
        with pytest.warns(schedlens.UnreadWarning, match="broken.data"):
            analysis = schedlens.open(trace.parent)
        assert analysis.recordings() == ["game.perf.data"]
        analysis.close()
    (name,) = kept(trace)
    assert name.endswith("-partial.duckdb")


def test_trace_that_cannot_be_read_leaves_no_file(trace: Path) -> None:
    trace.write_bytes(trace.read_bytes()[:64])
    with pytest.raises(SchedlensError) as error:
        schedlens.open(trace)
    assert len(str(error.value).splitlines()) == 1
    assert kept(trace) == []


def test_killed_analysis_leaves_no_result(trace: Path) -> None:
    code = (
        "import os, schedlens; from schedlens.ask import judging; "
        "judging.store = lambda *_: os._exit(9); schedlens.open(os.environ['TRACE'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, env={**os.environ, "TRACE": str(trace)}
    )
    assert done.returncode == 9
    assert [name for name in kept(trace) if not name.startswith(".")] == []
    schedlens.open(trace).close()
    assert [name[:4] for name in kept(trace)] == ["game"]


def test_threads_that_open_one_trace_get_the_same_rows(trace: Path) -> None:
    rows: list[int] = []

    def count() -> None:
        with schedlens.open(trace) as analysis:
            rows.append(analysis.sql("FROM sched_slice").num_rows)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(rows) == 4
    assert len(set(rows)) == 1
    assert len(kept(trace)) == 1


def test_cache_that_is_a_file_is_refused_in_one_line(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEDLENS_CACHE_DIR", str(trace))
    with pytest.raises(SessionError, match="Choose a writable place"):
        schedlens.open(trace)


def test_analysis_in_a_folder_with_its_report(trace: Path, tmp_path: Path) -> None:
    folder = tmp_path / "result"
    with schedlens.analyze(trace, output=folder, only=["thread_summary"], report=True) as analysis:
        assert {row["analyzer"] for row in analysis.sql("analyzer_outcome").to_pylist()} == {
            "thread_summary"
        }
        with pytest.raises(DatabaseError, match="is open here: close that analysis first"):
            schedlens.analyze(trace, output=folder)
    assert sorted(path.name for path in folder.iterdir()) == ["analysis.duckdb", "report.html"]
    assert kept(trace) == []
    with schedlens.open(folder) as again, schedlens.open(folder / "analysis.duckdb") as twice:
        assert again.findings() == twice.findings()


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"from_s": 2.0, "to_s": 1.0}, WindowError, "from_s 2 is not before to_s 1"),
        ({"from_s": float("nan")}, WindowError, "must be seconds"),
        ({"from_s": 1e6}, WindowError, "the window is outside game.perf.data"),
        ({"only": ["nothing"]}, UnknownNameError, "no analyzer named 'nothing'"),
        ({"process": "nobody"}, UnknownNameError, "no process named 'nobody'"),
        ({"report": True}, DatabaseError, "a report needs a folder"),
        ({"max_memory": "much"}, SchedlensError, "is not a size"),
        ({"topology": "none.json"}, SchedlensError, "none.json"),
    ],
)
def test_wrong_option_is_one_line(
    trace: Path, options: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words) as found:
        schedlens.analyze(trace, **options)  # type: ignore[arg-type]
    assert len(str(found.value).splitlines()) == 1
    assert kept(trace) == []


def test_missing_path_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(NothingToReadError, match="does not exist"):
        schedlens.open(tmp_path / "none.etl")


@pytest.fixture
def no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.usefixtures("no_warnings")
def test_frames_have_the_rows_and_types_of_the_table(trace: Path) -> None:
    with schedlens.open(trace) as analysis:
        table = analysis.sql("thread_summary", process=None)
        polars, pandas = analysis.polars("thread_summary"), analysis.pandas("thread_summary")
        assert polars.columns == list(pandas.columns) == table.column_names
        assert polars["run_ns"].to_list() == table["run_ns"].to_pylist()
        assert pandas["run_ns"].tolist() == table["run_ns"].to_pylist()
        narrowed = analysis.sql("thread_summary", process="sleep")
        assert set(narrowed["process"].to_pylist()) <= {"sleep"}
        assert analysis.parameters("thread_summary").keys() >= {"trace_id", "process"}
        for query, arguments, words in (
            ("thread_summary", {"proces": "x"}, "no argument of thread_summary named 'proces'"),
            ("thread_sumary", {"process": "x"}, "did you mean thread_summary"),
            ("FROM trace", {"process": "x"}, "only a named query takes arguments"),
            ("SELECT nothing", {}, "nothing"),
        ):
            with pytest.raises(SchedlensError, match=words):
                analysis.sql(query, **arguments)


@pytest.mark.parametrize("package", ["polars", "pandas"])
def test_missing_package_is_one_line(
    trace: Path, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with (
        schedlens.open(trace) as analysis,
        pytest.raises(MissingExtraError, match=rf"pip install schedlens\[{package}\]"),
    ):
        getattr(analysis, package)("trace")
