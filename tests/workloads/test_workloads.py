"""The workload program, driven as a recorder drives it: exact values and complete files.

The program is the one in `SCHEDLENS_WORKLOADS`, else the one installed next to this Python, else
else the one on the path.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from schedlens.machine import cpu_list

PROGRAM = (
    os.environ.get("SCHEDLENS_WORKLOADS")
    or shutil.which("schedlens-workloads", path=str(Path(sys.executable).parent))
    or shutil.which("schedlens-workloads")
)

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(
        PROGRAM is None,
        reason="schedlens-workloads is neither installed nor in SCHEDLENS_WORKLOADS",
    ),
]

MULTIPLIER = 0x9E3779B97F4A7C15
SEED = 0x0123456789ABCDEF
MIB_OF_A = hashlib.sha256(b"a" * (1 << 20)).hexdigest()

REGISTER_KERNELS = [f"imul{n}" for n in range(1, 11)] + ["add1", "add8", "imul_add", "ruler"]
KERNELS = [
    *REGISTER_KERNELS,
    "sha256",
    "mem_seq",
    "mem_stride",
    "pointer_chase",
    "aes",
    "matmul",
    "scan",
    "serve",
    "pause",
    "housekeeping",
    "spin_handoff",
    "frame",
    "game",
    "queue",
    "mpmc_queue",
    "atomic_counter",
    "spin_lock",
    "mutex",
    "false_sharing",
]
PAIRED = {"spin_handoff", "frame", "queue"}


class Sample(NamedTuple):
    worker: int
    cpu_at_start: int
    cpu_at_end: int
    flags: int
    zero: int
    start_mono_ns: int
    end_mono_ns: int
    iterations: int
    bytes: int


def run(*words: str) -> subprocess.CompletedProcess[str]:
    assert PROGRAM is not None
    return subprocess.run(
        [PROGRAM, *words], capture_output=True, text=True, timeout=120, check=False
    )


def recorded(folder: Path, *words: str) -> dict[str, Any]:
    done = run("run", *words, "--out", str(folder))
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads((folder / "workload.json").read_text())
    # Frames have their own file.
    framed = any(worker["counts"].get("frames") for worker in result["workers"])
    expected = [*(["frames.csv"] if framed else []), "samples.bin", "workload.json"]
    assert sorted(path.name for path in folder.iterdir()) == expected
    return result


def samples(folder: Path) -> list[Sample]:
    data = (folder / "samples.bin").read_bytes()
    assert data[:8] == b"SLSAMP1\0"
    return [Sample(*record) for record in struct.iter_unpack("<IHHIIqqQQ", data[8:])]


@contextmanager
def gated(*words: str) -> Iterator[subprocess.Popen[str]]:
    """A run that has reported ready and waits."""
    assert PROGRAM is not None
    process = subprocess.Popen(
        [PROGRAM, "run", *words, "--gate"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()


def send(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line)
    process.stdin.flush()


def threads_of(pid: int) -> dict[str, tuple[str, set[int]]]:
    """Name of each thread but the main one: its state and the CPUs it may use."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        if int(task.name) == pid:
            continue
        status = dict(
            line.split(":\t", 1)
            for line in (task / "status").read_text().splitlines()
            if ":\t" in line
        )
        cpus = set(cpu_list.parse(status["Cpus_allowed_list"]))
        found[status["Name"]] = (status["State"][0], cpus)
    return found


def test_list_names_every_kernel_and_missing_cpu_features() -> None:
    listed = json.loads(run("list", "--json").stdout)
    assert [kernel["kernel"] for kernel in listed["kernels"]] == KERNELS
    for kernel in listed["kernels"]:
        assert kernel["unit"] in {"iterations", "bytes", "hops", "items"}
        assert kernel["parties"] == (2 if kernel["kernel"] in PAIRED else 1)
        assert kernel["default_variant"] == kernel["variants"][0]["variant"]
        for variant in kernel["variants"]:
            assert variant["supported"] is (variant["why"] is None)
    text = run("list").stdout
    assert [name for name in KERNELS if f"\n{name} " not in "\n" + text] == []


def test_every_kernel_passes_verification() -> None:
    done = run("verify", "--json")
    verified = json.loads(done.stdout)
    wrong = [one for one in verified["verdicts"] if one["status"] not in {"ok", "unsupported"}]
    assert (done.returncode, verified["ok"], wrong) == (0, True, [])
    assert list(dict.fromkeys(one["kernel"] for one in verified["verdicts"])) == KERNELS
    always = {one["kernel"] for one in verified["verdicts"] if one["status"] == "ok"}
    assert {*REGISTER_KERNELS, *PAIRED, "sha256", "mem_seq", "pause", "matmul", "serve"} <= always


def test_verify_accepts_names() -> None:
    verdicts = json.loads(run("verify", "imul3", "add1", "--json").stdout)["verdicts"]
    assert [one["kernel"] for one in verdicts] == ["imul3", "add1"]


def test_products_match_python(tmp_path: Path) -> None:
    result = recorded(tmp_path, "imul3", "--seconds", "0.05", "--threads", "2")
    chains = [proof for proof in result["proofs"] if "chain" in proof["proof"]]
    assert len(chains) == 6
    for index, proof in enumerate(chains):
        exponent = int(proof["proof"].split("m^")[1].split()[0])
        worker = result["workers"][index // 3]
        assert exponent >= worker["iterations"]
        seed = SEED + 2 * (index % 3)
        expected = seed * pow(MULTIPLIER, exponent, 1 << 64) % (1 << 64)
        assert int(proof["found"], 16) == expected
        assert proof["found"] == proof["expected"]


@pytest.mark.parametrize("variant", ["simd", "scalar", "shani", "ce"])
def test_digests_match_hashlib(variant: str, tmp_path: Path) -> None:
    kernels = json.loads(run("list", "--json").stdout)["kernels"]
    sha256 = next(kernel for kernel in kernels if kernel["kernel"] == "sha256")
    here = {one["variant"] for one in sha256["variants"] if one["supported"]}
    if variant not in here:
        pytest.skip(f"this CPU has no {variant} variant")
    result = recorded(tmp_path, "sha256", "--variant", variant, "--seconds", "0.1")
    assert result["proofs"][-1]["found"] == MIB_OF_A
    for proof in result["proofs"][:-1]:
        text, times = proof["proof"].split('"')[1], int(proof["proof"].rsplit(" ", 1)[1])
        assert proof["found"] == hashlib.sha256((text * times).encode()).hexdigest()
    worker = result["workers"][0]
    assert worker["bytes"] == 4096 * worker["iterations"]
    seconds = (worker["end_mono_ns"] - worker["start_mono_ns"]) / 1e9
    assert result["measured"]["mib_per_s"] == pytest.approx(worker["bytes"] / 2**20 / seconds)


def test_batches_tile_the_interval_and_sum_to_worker_totals(tmp_path: Path) -> None:
    result = recorded(tmp_path, "imul1", "--threads", "3", "--seconds", "0.3")
    assert (result["status"], result["interrupted"]) == ("ok", False)
    assert all(proof["ok"] for proof in result["proofs"])
    batches = samples(tmp_path)
    assert {batch.worker for batch in batches} == {0, 1, 2}
    for worker in result["workers"]:
        own = [batch for batch in batches if batch.worker == worker["worker"]]
        assert len(own) == worker["batches"]
        assert sum(batch.iterations for batch in own) == worker["iterations"]
        edges = [worker["start_mono_ns"]]
        for batch in own:
            edges += [batch.start_mono_ns, batch.end_mono_ns]
            assert batch.flags == (batch.cpu_at_start != batch.cpu_at_end)
            assert (batch.zero, batch.bytes) == (0, 0)
        edges.append(worker["end_mono_ns"])
        assert edges == sorted(edges)
        # Preempted batches are longer; at least half of them never are.
        middle = statistics.median(batch.end_mono_ns - batch.start_mono_ns for batch in own)
        assert 200_000 <= middle <= 2_500_000


def test_cpu_time_matches_the_system(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = recorded(tmp_path, "add8", "--threads", "3", "--seconds", "0.4")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    charged = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    measured = sum(worker["cpu_time_ns"] for worker in result["workers"]) / 1e9
    assert measured <= charged + 0.02
    # Setting up three workers takes well under half a second.
    assert measured >= charged - 0.5
    for worker in result["workers"]:
        wall = worker["end_mono_ns"] - worker["start_mono_ns"]
        # 20 us of slack for reading two clocks one after the other.
        assert worker["cpu_time_ns"] <= wall + 20_000


def test_workers_remain_on_their_cpu(tmp_path: Path) -> None:
    cpu = max(os.sched_getaffinity(0))
    result = recorded(tmp_path, "add1", "--threads", "2", "--cpus", str(cpu), "--seconds", "0.1")
    assert [worker["cpu"] for worker in result["workers"]] == [cpu, cpu]
    assert {(one.cpu_at_start, one.cpu_at_end) for one in samples(tmp_path)} == {(cpu, cpu)}


def test_gate_encloses_the_measured_interval(tmp_path: Path) -> None:
    with gated("sha256", "--threads", "2", "--seconds", "0.2", "--out", str(tmp_path)) as process:
        deadline = time.monotonic() + 10
        while {state for state, _ in threads_of(process.pid).values()} != {"S"}:
            assert time.monotonic() < deadline, "workers do not sleep at the barrier"
            time.sleep(0.01)
        allowed = os.sched_getaffinity(0)
        at_barrier = threads_of(process.pid)
        assert {name: cpus for name, (_, cpus) in at_barrier.items()} == {
            "sha256-00": allowed,
            "sha256-01": allowed,
        }
        assert list(tmp_path.iterdir()) == []
        go_ns = time.monotonic_ns()
        send(process, "go\n")
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        done_ns = time.monotonic_ns()
        assert process.stdout.read() == ""
        assert process.wait(timeout=60) == 0
    result = json.loads((tmp_path / "workload.json").read_text())
    for worker in result["workers"]:
        assert worker["pid"] == process.pid
        # The stamps of a time stamp counter are mapped to within a microsecond or two.
        assert go_ns - 5_000 <= worker["start_mono_ns"]
        assert worker["end_mono_ns"] <= done_ns + 5_000
        assert worker["end_mono_ns"] - worker["start_mono_ns"] >= 150_000_000


def test_workers_are_pinned_at_the_gate_and_the_main_thread_is_not() -> None:
    cpu = min(os.sched_getaffinity(0))
    with gated("pointer_chase", "--cpus", str(cpu), "--seconds", "0.05") as process:
        assert {name: cpus for name, (_, cpus) in threads_of(process.pid).items()} == {
            "pointer_chas-00": {cpu}
        }
        assert os.sched_getaffinity(process.pid) == os.sched_getaffinity(0)


def test_run_ends_without_files_if_the_recorder_dies(tmp_path: Path) -> None:
    with gated("imul1", "--out", str(tmp_path)) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=30) == 130
    assert list(tmp_path.iterdir()) == []


def test_signal_at_the_gate_ends_the_run() -> None:
    with gated("queue") as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 130


def test_wrong_command_at_the_gate_prints_one_line() -> None:
    with gated("imul1") as process:
        send(process, "stop\n")
        _, error = process.communicate(timeout=30)
        assert process.returncode == 2
        assert error.count("\n") == 1
        assert '"stop"' in error


@pytest.mark.parametrize("kernel", ["sha256", "spin_handoff", "queue"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_leaves_complete_files(
    kernel: str, number: signal.Signals, tmp_path: Path
) -> None:
    with gated(kernel, "--seconds", "60", "--out", str(tmp_path)) as process:
        send(process, "go\n")
        time.sleep(0.2)
        process.send_signal(number)
        assert process.wait(timeout=30) == 0
    result = json.loads((tmp_path / "workload.json").read_text())
    assert (result["status"], result["interrupted"]) == ("ok", True)
    assert len(samples(tmp_path)) == sum(worker["batches"] for worker in result["workers"])


@pytest.mark.parametrize("how", ["spin", "yield", "park"])
@pytest.mark.parametrize("one_cpu", [True, False])
def test_pair_alternates_in_every_wait_mode(how: str, one_cpu: bool, tmp_path: Path) -> None:
    pin = ["--cpus", str(min(os.sched_getaffinity(0)))] if one_cpu else []
    result = recorded(tmp_path, "spin_handoff", "--how", how, "--seconds", "0.2", *pin)
    hops = [worker["iterations"] for worker in result["workers"]]
    # Each thread's measured interval starts and ends on its own, within one hop of the other's.
    assert abs(hops[0] - hops[1]) <= 1
    assert all(proof["ok"] for proof in result["proofs"])
    assert result["options"]["how"] == how


@pytest.mark.parametrize("depth", [1, 2, 64])
def test_produced_items_are_consumed_or_queued(depth: int, tmp_path: Path) -> None:
    result = recorded(
        tmp_path, "queue", "--threads", "4", "--depth", str(depth), "--seconds", "0.2"
    )
    assert len(result["proofs"]) == 10
    assert all(proof["ok"] for proof in result["proofs"])
    left = result["measured"]["produced_items"] - result["measured"]["consumed_items"]
    assert 0 <= left <= 2 * depth


def test_unsupported_kernel_says_why(tmp_path: Path) -> None:
    words = ["run", "mem_stride", "--variant", "1g", "--threads", "4096", "--out", str(tmp_path)]
    done = run(*words)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    result = json.loads((tmp_path / "workload.json").read_text())
    assert result["status"] == "unsupported"
    assert result["workers"] == []
    assert result["warnings"][0] in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["walk"],
        ["run"],
        ["run", "imul11"],
        ["run", "imul1", "--threads", "many"],
        ["run", "imul1", "--cpus", "65000", "--seconds", "0.01"],
        ["run", "imul1", "--cpus", "0-"],
        ["run", "queue", "--threads", "3"],
        ["run", "imul1", "--out", "/dev/null/folder"],
        ["verify", "imul0"],
        ["list", "everything"],
    ],
)
def test_misuse_prints_one_line_and_exits_with_2(words: list[str]) -> None:
    done = run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("schedlens-workloads: ")


def test_failed_run_removes_an_older_result(tmp_path: Path) -> None:
    recorded(tmp_path, "imul1", "--seconds", "0.01")
    done = run("run", "imul1", "--cpus", "65000", "--out", str(tmp_path))
    assert done.returncode == 2
    assert not (tmp_path / "workload.json").exists()
