"""Builds the fuzz targets and runs each for some time of a CPU, with coverage as its guide.

The corpora in fixtures/fuzz are the first inputs; new ones go to build/fuzz/corpus, and inputs that
fail to build/fuzz/failed. Exit status 1: a target failed. With `--seed` a run starts from the
corpora in fixtures/fuzz alone, keeps no new inputs, and executes the same inputs each time, up to
`--runs` of them or as many as it has the time for. Other programs that run meanwhile make it take
longer, and execute as many inputs. `--optimized` is for hours: its build takes
longer and executes about twice as many inputs. `--minimize` writes the smallest corpora with the
same coverage to fixtures/fuzz instead.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "tools" / "fuzz"
FIXTURES = ROOT / "fixtures" / "fuzz"
BUILD = ROOT / "build" / "fuzz"
TARGET_FOLDER = ROOT / "target" / "fuzz"
BUILT = Path("x86_64-unknown-linux-gnu") / "debug" / "schedlens-fuzz"

PYTHON_TARGET = "csv_files"
# Longer inputs cost more than they find.
_MOST_BYTES = 20_000
# Bytes of a corpus in fixtures/fuzz before it is packed.
_MOST_CORPUS = 120_000
# Weighting inputs by the rarity of what they reach takes longer than most inputs themselves. What
# an input may take at a moment is limited by the program itself (src/memory.rs). The time is for
# inputs that never end: next to programs of higher priority, others may take long too.
_OPTIONS = (
    f"-max_len={_MOST_BYTES}", "-timeout=600", "-rss_limit_mb=512", "-print_final_stats=1",
    "-entropic=0",
)  # fmt: skip
# The allocator otherwise returns the memory of each input to the system, and many take as long to
# get it back as to be read.
_KEEPING_MEMORY = ":".join(
    f"glibc.malloc.{name}={mebibytes << 20}"
    for name, mebibytes in (("trim_threshold", 64), ("mmap_threshold", 32), ("top_pad", 4))
)
_STATUS = re.compile(
    r"#(\d+)\s+(?:DONE|pulse|REDUCE|NEW|INITED).*? cov: (\d+) ft: (\d+) corp: (\d+)"
)
# How often to look at a target's processor time.
_LOOK_S = 0.2


@dataclass(frozen=True)
class Result:
    """What a target did: inputs executed up to its last report, edges covered, features, inputs of
    the corpus that they need, seconds of a CPU, and its failure.
    """

    target: str
    executions: int
    edges: int
    features: int
    inputs: int
    seconds: float
    failure: str | None


@dataclass(frozen=True)
class Limits:
    """When a target ends, in seconds of a CPU and executions, and the seed of its mutations; None:
    another one each time."""

    seconds: float
    runs: int | None = None
    seed: int | None = None


def build(*, optimized: bool = False) -> Path:
    """Builds the program and returns it; a second call costs nothing."""
    folder, settings = TARGET_FOLDER, dict(os.environ)
    if optimized:
        folder /= "optimized"
        settings |= _for_hours()
    command = ["cargo", "build", "--locked", "-j2", "--target-dir", str(folder)]
    subprocess.run(command, cwd=HERE, check=True, env=settings)
    return folder / BUILT


def _for_hours() -> dict[str, str]:
    """Cargo's settings for a program that takes longer to build and executes more inputs.

    It does not record comparisons, which finds magic numbers but takes a quarter of the time, nor
    calls through pointers, and leaves out the checks of the standard library, but not those of
    overflow.
    """
    config = tomllib.loads((HERE / ".cargo" / "config.toml").read_text(encoding="utf-8"))
    flags = [flag for flag in config["build"]["rustflags"] if not flag.endswith("-trace-compares")]
    return {
        "RUSTC_WRAPPER": str(HERE / "rustc.py"),
        "RUSTFLAGS": " ".join(flags).replace("coverage-level=4", "coverage-level=3"),
        "CARGO_PROFILE_DEV_OPT_LEVEL": "3",
        "CARGO_PROFILE_DEV_DEBUG_ASSERTIONS": "false",
        "CARGO_PROFILE_DEV_OVERFLOW_CHECKS": "true",
    }


def targets() -> list[str]:
    """The names of all targets: those of the program in the order of their table, then Python's."""
    return [*compiled(), PYTHON_TARGET]


def compiled() -> list[str]:
    """The targets of the program."""
    table = (HERE / "src" / "main.rs").read_text(encoding="utf-8")
    return re.findall(r'^    \("(\w+)", \w+::\w+\),$', table, re.MULTILINE)


def run(target: str, limits: Limits, program: Path) -> Result:
    """Fuzzes one target."""
    if target == PYTHON_TARGET:
        return _run_python(limits)
    own, known = BUILD / "corpus" / target, BUILD / "known" / target
    failed = BUILD / "failed" / target
    options = [f"-artifact_prefix={failed}/"]
    if limits.runs is not None:
        options.append(f"-runs={limits.runs}")
    if limits.seed is not None:
        own = BUILD / "seeded" / target
        shutil.rmtree(own, ignore_errors=True)
        options.append(f"-seed={limits.seed}")
    for folder in (own, failed):
        folder.mkdir(parents=True, exist_ok=True)
    unpack(target, known)
    done, spent = _call(program, target, [*options, *_OPTIONS], [own, known], limits.seconds)
    found = _STATUS.findall(done.stderr)
    executions, edges, features, inputs = map(int, found[-1]) if found else (0, 0, 0, 0)
    failure = None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if _is_reason(line)]
        failure = "\n".join(lines[-6:]) or done.stderr[-500:]
    return Result(target, executions, edges, features, inputs, spent, failure)


def _run_python(limits: Limits) -> Result:
    begin = time.monotonic()
    seed = time.time_ns() if limits.seed is None else limits.seed
    command = [sys.executable, str(HERE / "csv_files.py"), str(limits.seconds), str(seed)]
    if limits.runs is not None:
        command.append(str(limits.runs))
    with _folder_in_memory() as folder:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False,
            env=os.environ | {"TMPDIR": folder},
        )  # fmt: skip
    spent = min(time.monotonic() - begin, limits.seconds)
    if done.returncode:
        return Result(PYTHON_TARGET, 0, 0, 0, 0, spent, done.stderr[-2000:])
    found = json.loads(done.stdout)
    edges, inputs = found["edges"], found["inputs"]
    return Result(PYTHON_TARGET, found["executions"], edges, edges, inputs, spent, None)


def _is_reason(line: str) -> bool:
    return "panicked" in line or "ERROR" in line or "Test unit" in line or "assert" in line


def _folder_in_memory() -> tempfile.TemporaryDirectory[str]:
    """A folder for the files that some targets write for each input; on a disk if need be."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)


def _call(
    program: Path,
    target: str,
    options: Sequence[str],
    folders: Sequence[Path],
    seconds: float = math.inf,
) -> tuple[subprocess.CompletedProcess[str], float]:
    """Runs a target for so many seconds of a CPU; also returns how many it took."""
    command = [str(program), *options, *map(str, folders)]
    is_over, spent = False, 0.0
    with _folder_in_memory() as folder:
        running = subprocess.Popen(
            command,
            env=os.environ | {"SCHEDLENS_FUZZ_TARGET": target, "SCHEDLENS_FUZZ_FOLDER": folder,
                              "RUST_BACKTRACE": "1", "GLIBC_TUNABLES": _KEEPING_MEMORY},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
        )  # fmt: skip
        with running:
            while True:
                try:
                    out, err = running.communicate(timeout=_LOOK_S)
                    break
                except subprocess.TimeoutExpired:
                    spent = _processor_time(running.pid) or spent
                if spent >= seconds and not is_over:
                    is_over = True
                    # At SIGTERM, libFuzzer prints from its signal handler, and may wait forever for
                    # a lock that the program has.
                    running.kill()
    is_killed = is_over and running.returncode == -signal.SIGKILL
    code = 0 if is_killed else running.returncode
    return subprocess.CompletedProcess(command, code, out, err), spent


def _processor_time(pid: int) -> float | None:
    """Seconds for which a process ran so far; None: it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def unpack(target: str, folder: Path) -> None:
    """Unpacks the corpus of a target."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    packed = FIXTURES / f"{target}.tar.xz"
    if packed.exists():
        with tarfile.open(packed) as archive:
            archive.extractall(folder, filter="data")


def minimize(target: str, program: Path) -> tuple[int, int]:
    """Writes the smallest corpus with the same coverage; returns inputs and packed bytes."""
    own, known, small = (BUILD / part / target for part in ("corpus", "known", "small"))
    own.mkdir(parents=True, exist_ok=True)
    unpack(target, known)
    shutil.rmtree(small, ignore_errors=True)
    small.mkdir(parents=True)
    done, _ = _call(program, target, ["-merge=1", *_OPTIONS], [small, own, known])
    if done.returncode:
        raise SystemExit(f"{target}: the corpus cannot be minimized\n{done.stderr[-2000:]}")
    # The first inputs remain; of the others, the shortest.
    first = {path.read_bytes(): path.name for path in (*own.iterdir(), *known.iterdir())
             if path.name.startswith("seed-")}  # fmt: skip
    found = sorted((path.read_bytes() for path in small.iterdir()), key=lambda one: (len(one), one))
    inputs, total = list(first), sum(map(len, first))
    for one in found:
        if one not in first and total + len(one) <= _MOST_CORPUS:
            inputs.append(one)
            total += len(one)
    packed = FIXTURES / f"{target}.tar.xz"
    with tarfile.open(packed, "w:xz", format=tarfile.USTAR_FORMAT, preset=9) as archive:
        for one in inputs:
            # Without times and owners, the same inputs make the same file.
            member = tarfile.TarInfo(first.get(one, hashlib.sha1(one).hexdigest()))
            member.size = len(one)
            archive.addfile(member, io.BytesIO(one))
    return len(inputs), packed.stat().st_size


def table(results: Sequence[Result]) -> str:
    """The results as a table of Markdown."""
    lines = [
        "| target | executions | per second | edges | features | inputs |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for result in results:
        rate = result.executions / max(result.seconds, 1e-9)
        cells = (result.executions, round(rate), result.edges, result.features, result.inputs)
        lines.append(f"| {result.target} | " + " | ".join(f"{cell:,}" for cell in cells) + " |")
    total = sum(result.executions for result in results)
    lines.append(f"| all | {total:,} | | | | |")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    limit = parser.add_mutually_exclusive_group()
    limit.add_argument("--seconds", type=float, default=10.0, help="of a CPU, for each target")
    limit.add_argument("--hours", type=float, help="of all workers, for all targets together")
    parser.add_argument("--runs", type=int, help="executions of each target at most")
    parser.add_argument("--seed", type=int, help="of the mutations, for the same inputs each time")
    parser.add_argument("--workers", type=int, default=2, help="targets that run at a time")
    parser.add_argument("--optimized", action="store_true", help="for hours: a faster program")
    parser.add_argument("--minimize", action="store_true", help="rewrite fixtures/fuzz")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="only these")
    asked = parser.parse_args(arguments)
    known = targets()
    unknown = [name for name in asked.targets if name not in known]
    if unknown:
        print(f"no target {unknown[0]}: choose from {' '.join(known)}", file=sys.stderr)
        return 2
    program = build(optimized=asked.optimized)
    chosen = asked.targets or known
    if asked.minimize:
        for name in (name for name in chosen if name != PYTHON_TARGET):
            inputs, size = minimize(name, program)
            print(f"{name}: {inputs} inputs, {size:,} bytes")
        return 0
    seconds = asked.seconds
    if asked.hours is not None:
        seconds = asked.hours * 3600 * asked.workers / len(chosen)
    with ThreadPoolExecutor(asked.workers) as pool:
        limits = Limits(seconds, asked.runs, asked.seed)
        results = list(pool.map(lambda name: run(name, limits, program), chosen))
    print(table(results))
    for result in results:
        if result.failure is not None:
            place = (
                f"in {BUILD.relative_to(ROOT)}/failed"
                if result.target != PYTHON_TARGET
                else "below"
            )
            print(f"\n{result.target} failed: its input is {place}")
            print(result.failure)
    return int(any(result.failure is not None for result in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
