"""The recordings in fixtures/ match their README, by perf's own text."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import switch_text
from fixture_files import FIXTURES, fixture, qemu_root, qemu_session

needs_perf = pytest.mark.skipif(
    shutil.which("perf") is None, reason="perf is not installed: it is the oracle here"
)

LIMIT_BYTES = 8_000_000
SMALL_BYTES = 200_000
CORES = [(first, first + 1) for first in range(0, 20, 2)]

# Share of cores with both CPUs busy, in percent, by counting: placement and threads.
BOTH_BUSY_PCT = {
    ("physical", 1): 0,
    ("physical", 10): 0,
    ("physical", 14): 40,
    ("physical", 20): 100,
    ("siblings", 1): 0,
    ("siblings", 10): 50,
    ("siblings", 14): 70,
    ("siblings", 20): 100,
}
STEPS = [
    f"sha256-{placement}-t{threads:02}-r1"
    for placement in ("default", "physical", "siblings")
    for threads in (1, 10, 14, 20)
] + ["spin_handoff-pinned-t02-r1"]


def manifest() -> dict[str, dict[str, Any]]:
    """Size and sha256 by path."""
    found: dict[str, dict[str, Any]] = json.loads((FIXTURES / "MANIFEST.json").read_text())
    return found


def load(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def common(workers: list[dict[str, Any]]) -> tuple[int, int]:
    """The interval in which all workers ran, in ns."""
    return (
        max(worker["start_mono_ns"] for worker in workers),
        min(worker["end_mono_ns"] for worker in workers),
    )


def test_every_file_is_listed_with_size_and_checksum() -> None:
    present = {
        str(path.relative_to(FIXTURES))
        for folder in ("qemu", "perf", "topology")
        for path in (FIXTURES / folder).rglob("*")
        if path.is_file()
    }
    assert present == set(manifest())
    for name, entry in manifest().items():
        data = (FIXTURES / name).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (entry["bytes"], entry["sha256"])


def test_all_files_are_small() -> None:
    sizes = {name: entry["bytes"] for name, entry in manifest().items()}
    assert sum(sizes.values()) <= LIMIT_BYTES
    assert [name for name, size in sizes.items() if size > SMALL_BYTES] == []


def test_readme_names_every_recording() -> None:
    text = (FIXTURES / "README.md").read_text()
    names = {
        Path(name).name.removesuffix(".tar.xz").removesuffix(".perf.data.xz")
        for name in manifest()
        if name.startswith("perf/")
    } | {*STEPS, *(Path(name).stem for name in manifest() if name.startswith("topology/"))}
    assert [name for name in sorted(names) if f"`{name}`" not in text] == []


def test_session_has_every_step(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = qemu_session(tmp_path_factory)
    listed = load(folder / "session.json")["steps"]
    assert sorted(step["name"] for step in listed) == sorted(STEPS)
    assert {step["state"] for step in listed} == {"done"}
    for name in STEPS:
        step = load(folder / name / "step.json")
        assert step["end_mono_ns"] - step["begin_mono_ns"] < 1_000_000_000
        edges = [load(folder / name / f"{edge}.json") for edge in ("begin", "end")]
        assert edges[0]["mono_ns"] <= step["begin_mono_ns"]
        assert step["end_mono_ns"] <= edges[1]["mono_ns"]
        assert [len(edge["cpus"]) for edge in edges] == [20, 20]


def test_copied_sysfs_has_ten_cores_with_two_cpus(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    cpu = qemu_root(tmp_path_factory) / "sys/devices/system/cpu"
    lists = {
        (cpu / f"cpu{number}/topology/core_cpus_list").read_text().strip() for number in range(20)
    }
    assert lists == {f"{first}-{second}" for first, second in CORES}
    session = load(qemu_session(tmp_path_factory) / "session.json")
    assert [row["core"] for row in session["topology"]["cpus"]] == [n - n % 2 for n in range(20)]


@needs_perf
@pytest.mark.parametrize("name", STEPS)
def test_worker_run_time_matches_its_clock(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = qemu_session(tmp_path_factory) / name
    switches = switch_text.switches(folder / "perf.data")
    slices = switch_text.slices(switches, switches[0].ns, switches[-1].ns)
    workers = load(folder / "workload.json")["workers"]
    assert len(workers) == load(folder / "step.json")["threads"]
    for worker in workers:
        ran = switch_text.run_ns(
            slices, worker["tid"], worker["start_mono_ns"], worker["end_mono_ns"]
        )
        assert ran == pytest.approx(worker["cpu_time_ns"], rel=0.01)


@needs_perf
@pytest.mark.parametrize(("placement", "threads"), BOTH_BUSY_PCT)
def test_cores_with_both_siblings_busy(
    placement: str, threads: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = qemu_session(tmp_path_factory) / f"sha256-{placement}-t{threads:02}-r1"
    begin, end = common(load(folder / "workload.json")["workers"])
    slices = switch_text.slices(switch_text.switches(folder / "perf.data"), begin, end)
    both = sum(switch_text.both_busy_ns(slices, pair) for pair in CORES)
    share = 100 * both / (len(CORES) * (end - begin))
    assert share == pytest.approx(BOTH_BUSY_PCT[placement, threads], abs=3)


@needs_perf
def test_pair_on_one_cpu_alternates_every_slice(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = qemu_session(tmp_path_factory) / "spin_handoff-pinned-t02-r1"
    workers = load(folder / "workload.json")["workers"]
    begin, end = common(workers)
    slices = switch_text.slices(switch_text.switches(folder / "perf.data"), begin, end)
    pair = {worker["tid"] for worker in workers}
    cpu = workers[0]["cpu"]
    taken = [slice_ for slice_ in slices if slice_.cpu == cpu and slice_.tid in pair]
    assert all(one.tid != next_.tid for one, next_ in pairwise(taken))
    # 100 ms in fair-class slices on 20 CPUs: neither a tick nor a second.
    whole = [slice_.end - slice_.begin for slice_ in taken[1:-1]]
    assert len(whole) >= 4
    assert all(3_000_000 <= length <= 40_000_000 for length in whole)
    # All other CPUs idle.
    others = sum(switch_text.busy_ns(slices, other) for other in range(20) if other != cpu)
    assert others / (19 * (end - begin)) < 0.03


@needs_perf
@pytest.mark.parametrize("name", STEPS)
def test_guest_recording_lost_nothing(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    counts = records(qemu_session(tmp_path_factory) / name / "perf.data")
    assert counts.get("LOST", 0) + counts.get("LOST_SAMPLES", 0) == 0


def records(trace: Path) -> dict[str, int]:
    """Records by type as `perf report --stats` counts them in the whole file."""
    text = subprocess.run(
        ["perf", "report", "-i", str(trace), "--stats"],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout
    found: dict[str, int] = {}
    for name, count in re.findall(r"^\s*(\w+) events:\s+(\d+)", text, re.MULTILINE):
        found.setdefault(name, int(count))
    return found


FORMS = (
    *("plain", "zstd", "pipe", "threads", "counters", "switch_only", "own_tree", "no_sched"),
    *("loss", "exec_by_thread", "sched_yield", "host_plain", "host_counters", "host_own_tree"),
)
READ_BY_NOBODY = ("killed", "truncated")


def listed_samples(name: str) -> dict[str, int]:
    """Samples by event of a file in perf/, as counted when it was made."""
    entry = manifest().get(f"perf/{name}.perf.data.xz") or manifest()[f"perf/{name}.tar.xz"]
    found: dict[str, int] = entry["samples"]
    return found


@needs_perf
@pytest.mark.parametrize("name", FORMS)
def test_manifest_sample_counts_match_perf(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = fixture(name, tmp_path_factory)
    done = subprocess.run(
        ["perf", "script", "-i", str(trace), "-F", "event"],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    found: dict[str, int] = {}
    for line in done.stdout.splitlines():
        event = line.strip().rstrip(":")
        if event:
            found[event] = found.get(event, 0) + 1
    assert found == listed_samples(name)


def test_each_file_has_the_format_in_its_name(tmp_path_factory: pytest.TempPathFactory) -> None:
    def header(name: str) -> tuple[int, int, int]:
        """Size of the header, begin and size of the data section."""
        data = fixture(name, tmp_path_factory).read_bytes()
        assert data[:8] == b"PERFILE2"
        numbers = [int.from_bytes(data[at : at + 8], "little") for at in (8, 40, 48)]
        return numbers[0], numbers[1], numbers[2]

    assert header("pipe")[0] == 16
    assert header("plain")[0] == 104
    # perf writes the size of the data when it ends: it was killed.
    assert header("killed")[2] == 0
    _, begin, size = header("truncated")
    assert begin < fixture("truncated", tmp_path_factory).stat().st_size < begin + size
    folder = fixture("threads", tmp_path_factory)
    assert sorted(path.name for path in folder.iterdir()) == [
        "data",
        *(f"data.{n}" for n in range(4)),
    ]


@needs_perf
def test_each_file_has_the_events_in_its_name(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    switch = "sched:sched_switch"
    assert {name for name in FORMS if switch not in listed_samples(name)} == {
        "switch_only",
        "no_sched",
    }
    assert set(listed_samples("no_sched")) == {"cpu-clock"}
    assert "syscalls:sys_enter_sched_yield" in listed_samples("sched_yield")
    assert listed_samples("exec_by_thread")["sched:sched_process_exec"] >= 2
    for name in ("counters", "host_counters"):
        assert "msr/tsc/" in listed_samples(name)
    lost = records(fixture("loss", tmp_path_factory))
    assert lost["LOST"] + lost.get("LOST_SAMPLES", 0) >= 1
    assert "SWITCH" in records(fixture("own_tree", tmp_path_factory))
    assert "SWITCH_CPU_WIDE" in records(fixture("switch_only", tmp_path_factory))


def test_no_file_names_its_machine(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    # Strings that would reveal where it was recorded: folders of users and of projects.
    private = re.compile(rb"/(?:work|home|root|opt|tmp/(?!x\b))[/\w]")
    for name in (*FORMS, *READ_BY_NOBODY):
        path = fixture(name, tmp_path_factory)
        for file in [path] if path.is_file() else sorted(path.iterdir()):
            assert private.findall(file.read_bytes()) == [], name
