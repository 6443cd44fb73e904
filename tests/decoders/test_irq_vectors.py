"""The local timer and interrupts from other CPUs, recorded here with perf."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from decoded import decoded

from schedlens.load import converted
from schedlens.record.changes import tracefs_mount

pytestmark = pytest.mark.records

EVENTS = (
    "sched:sched_switch,irq:softirq_entry,irq:softirq_exit,"
    "irq_vectors:local_timer_entry,irq_vectors:local_timer_exit"
)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    mount = tracefs_mount()
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed")
    if mount is None or not (mount / "events/irq_vectors/local_timer_entry").is_dir():
        pytest.skip("this kernel has no tracepoints of interrupt vectors, or hides them")
    output = tmp_path_factory.mktemp("vectors") / "perf.data"
    command = ["perf", "record", "-a", "-e", EVENTS, "-o", str(output)]
    done = subprocess.run([*command, "--", "sleep", "0.3"], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("perf may not record all CPUs here")
    return output


def _interrupts(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = decoded(path)["interrupt_slice"].to_pylist()
    return rows


def test_entry_and_exit_of_a_vector_are_an_interrupt(recording: Path) -> None:
    printed = subprocess.run(
        ["perf", "script", "-i", str(recording)], capture_output=True, text=True, check=True
    ).stdout
    ticks = [row for row in _interrupts(recording) if row["name"] == "local_timer"]
    assert len(ticks) == printed.count("irq_vectors:local_timer_entry:") > 0
    assert {row["kind"] for row in ticks} == {"irq"}
    # Only those that were running when the recording ended have no end.
    assert sum(row["dur"] is None for row in ticks) <= 8


def test_text_gives_the_same_interrupts(recording: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_bytes(
        subprocess.run(
            ["perf", "script", "-i", str(recording), "--ns", "-F", "+pid", "--header"],
            capture_output=True, check=True,
        ).stdout
    )  # fmt: skip
    columns = ("cpu", "dur", "kind", "name")

    # Records that the text lacks come first in the file, so that its ns 0 is earlier.
    def shown(path: Path) -> list[tuple[Any, ...]]:
        rows = _interrupts(path)
        return [(r["ts"] - rows[0]["ts"], *(r[column] for column in columns)) for r in rows]

    with converted.made(text) as found:
        assert found is not None
        assert shown(found.path) == shown(recording)
