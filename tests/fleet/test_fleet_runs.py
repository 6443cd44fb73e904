"""A fleet run with real processes: complete, resumable, and each recording exactly once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cloudpickle
import fixture_files
import pytest
from conftest import BIN

from schedlens.fleet import cluster, dispatch, job
from schedlens.fleet.sources import find
from schedlens.lake import reading, set_aside
from schedlens.lake.file_access import LakeFiles

pytestmark = pytest.mark.slow

RECORDINGS = 5
ENVIRONMENT = {**os.environ, "PYTHONWARNINGS": "ignore"}


@pytest.fixture
def sources(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings of two machines with different content, and a file that is none."""
    original = fixture_files.fixture("plain", tmp_path_factory).read_bytes()
    folder = tmp_path / "sources"
    for number in range(RECORDINGS):
        path = folder / f"machine=m{number % 2}" / "build=1" / f"{number}.perf.data"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(original + bytes([number]))
    (folder / "poisoned.data").write_text("junk")
    return folder


def fleet(*arguments: str) -> subprocess.Popen[str]:
    """A started `schedlens fleet`."""
    return subprocess.Popen(
        [str(BIN / "schedlens"), "fleet", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
    )  # fmt: skip


def result(run: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
    """Exit code, the JSON on stdout, and stderr."""
    out, said = run.communicate(timeout=180)
    return run.returncode, json.loads(out) if out.strip() else {}, said


def contents(lake: Path) -> dict[str, int]:
    """Rows of context_switch by recording."""
    with reading.connect(lake) as con:
        return dict(
            con.execute(
                "SELECT machine || '/' || label, count(*) FROM manifest "
                "JOIN context_switch USING (trace_id) GROUP BY trace_id, machine, label"
            ).fetchall()
        )


WHOLE = {f"m{number % 2}/{number}.perf.data": 345 for number in range(RECORDINGS)}


def wait_for(what: str, is_so: Callable[[], bool]) -> None:
    """Returns when a condition holds; fails after two minutes."""
    end = time.monotonic() + 120
    while not is_so():
        if time.monotonic() > end:
            pytest.fail(f"waited in vain for {what}")
        time.sleep(0.02)


def entries(lake: Path) -> int:
    return len(list(lake.glob("manifest/*.json")))


def test_a_second_run_analyzes_only_what_is_new(sources: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    command = (str(sources), "--lake", str(lake), "--workers", "2", "--json")
    code, first, said = result(fleet(*command))
    assert (code, first["new"], first["present"]) == (1, RECORDINGS, 0)
    assert [Path(note["source"]).name for note in first["set_aside"]] == ["poisoned.data"]
    assert 'begins with "junk"' in first["set_aside"][0]["reason"]
    assert "6 recordings to analyze; state of the cluster: http://127.0.0.1:" in said
    assert contents(lake) == WHOLE
    with reading.connect(lake) as con:
        noted = con.execute("SELECT source, attempts FROM set_aside").fetchall()
    assert noted == [(str(sources / "poisoned.data"), 1)]

    shutil.copyfile(sources / "machine=m0/build=1/0.perf.data", sources / "copy.data")
    new = sources / "machine=m0/build=1/new.perf.data"
    new.write_bytes((sources / "machine=m1/build=1/1.perf.data").read_bytes() + b"!")
    (sources / "copy.data").unlink()
    code, second, _ = result(fleet(*command))
    assert (code, second["new"], second["present"]) == (1, 1, RECORDINGS + 1)
    assert contents(lake) == WHOLE | {"m0/new.perf.data": 345}


@contextmanager
def process(module: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the cluster; killed at the end."""
    started = subprocess.Popen(
        [sys.executable, "-m", f"distributed.cli.{module}", *arguments],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT,
    )  # fmt: skip
    try:
        yield started
    finally:
        started.kill()
        started.wait()


@contextmanager
def scheduler(folder: Path, name: str) -> Iterator[tuple[subprocess.Popen[bytes], str, Path]]:
    """A scheduler: its process, its address, and the file with the address for workers."""
    file = folder / f"{name}.json"
    with process(
        "dask_scheduler", "--host", "127.0.0.1", "--port", "0",
        "--dashboard-address", "127.0.0.1:0", "--scheduler-file", str(file),
    ) as started:  # fmt: skip
        wait_for("the scheduler", lambda: file.exists() and file.read_text().endswith("}"))
        yield started, json.loads(file.read_text())["address"], file


def worker(file: Path, folder: Path, *more: str) -> Any:
    return process(
        "dask_worker", "--scheduler-file", str(file), "--nthreads", "1", "--no-nanny",
        "--no-dashboard", "--local-directory", str(folder), *more,
    )  # fmt: skip


MEMORY = ("--resources", "memory=2e9")


def test_killed_workers_and_schedulers_lose_and_duplicate_nothing(
    sources: Path, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    with (
        scheduler(tmp_path, "first") as (head, address, file),
        worker(file, tmp_path, *MEMORY) as one,
        worker(file, tmp_path, *MEMORY),
    ):
        run = fleet(str(sources), "--lake", str(lake), "--scheduler", address)
        wait_for("a recording", lambda: entries(lake) >= 1)
        one.send_signal(signal.SIGKILL)
        before = entries(lake)
        wait_for("a recording of the other worker", lambda: entries(lake) > before)
        assert run.poll() is None
        head.send_signal(signal.SIGKILL)
        _, said = run.communicate(timeout=120)
    assert run.returncode == 2
    assert "Traceback" not in said
    assert "schedlens: the scheduler is gone; " in said
    assert 2 <= entries(lake) < RECORDINGS
    assert contents(lake).items() <= WHOLE.items()

    with (
        scheduler(tmp_path, "second") as (_, address, file),
        worker(file, tmp_path, *MEMORY),
    ):
        done = entries(lake)
        code, again, _ = result(
            fleet(str(sources), "--lake", str(lake), "--scheduler", address, "--json")
        )
    assert code == 1
    assert again["new"] == RECORDINGS - done
    assert contents(lake) == WHOLE


def killing(task: job.Job) -> job.Done:
    """Kills the worker for one of the recordings, as the system does without memory."""
    if "2.perf" in task.paths[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    return job.run(task)


def test_a_recording_that_kills_its_workers_is_set_aside(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    files = LakeFiles(lake)
    units = [unit for unit in find([sources / "machine=m0"]) if "4.perf" not in str(unit.paths[0])]
    request = dispatch.Request(str(lake), retries=0)
    # Workers cannot import the tests.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with (
        cluster.connected(None, 1, None, request.retries) as on,
        monkeypatch.context() as patch,
    ):
        patch.setattr(job, "run", killing)
        result = dispatch.run(on, request, units)
    # A job whose worker is killed before it reports is repeated, and finds its recording.
    assert result.new + result.present == 1
    ((path, reason),) = result.failed
    assert path.endswith("2.perf.data")
    assert reason.startswith("its worker was killed each time")
    assert dispatch.new_units(files, units, request) == []
    again = dispatch.Request(str(lake), again=True)
    (left,) = dispatch.new_units(files, units, again)
    assert left.paths[0].name == "2.perf.data"
    with cluster.connected(None, 1, None, again.retries) as on:
        assert dispatch.run(on, again, [left]).new == 1
    assert set_aside.read_all(files) == []
    assert contents(lake) == {"m0/0.perf.data": 345, "m0/2.perf.data": 345}


def test_errors_of_the_cluster_are_one_line(sources: Path, tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    code, _, said = result(fleet(str(sources), "--lake", lake, "--scheduler", "nowhere"))
    assert (code, said.count("\n")) == (2, 1)
    assert said.startswith("schedlens: cannot reach the scheduler nowhere")
    with scheduler(tmp_path, "third") as (_, address, file), worker(file, tmp_path):
        code, _, said = result(fleet(str(sources), "--lake", lake, "--scheduler", address))
    assert code == 2
    assert said.splitlines()[-1].startswith("schedlens: no worker announces its memory")
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "distributed.py").write_text("raise ImportError('hidden')")
    done = subprocess.run(
        [str(BIN / "schedlens"), "fleet", str(sources), "--lake", lake],
        capture_output=True, text=True, check=False, timeout=60,
        env={**ENVIRONMENT, "PYTHONPATH": str(hidden)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (
        2,
        "schedlens: this needs the package distributed: "
        "install it with `pip install schedlens[fleet]`\n",
    )
