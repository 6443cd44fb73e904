"""The work of a step: the workload's own report, its throughput, the recorder's cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from schedlens.errors import NoSpaceError, WorkloadError
from schedlens.load.step_file import Overhead, Throughput
from schedlens.output.whole_file import read_json
from schedlens.record import batches

Json = dict[str, Any]


def result(code: int | None, said: str, folder: Path) -> Json:
    """The workload's own report. Raises `WorkloadError` if it failed to verify its result.

    `code` is its exit code, `said` its output on stderr.
    """
    if not (folder / "workload.json").exists():
        if "No space left" in said:
            raise NoSpaceError("no space left on the disk for the workload's samples")
        raise WorkloadError(f"the workload exited with code {code}: {said or 'no result'}")
    account = read_json(folder / "workload.json")
    if account.get("status") != "ok" or code != 0:
        wrong = [proof.get("proof") for proof in account.get("proofs", []) if not proof.get("ok")]
        which = ", ".join(map(str, wrong)) or said
        raise WorkloadError(f"the workload is {account.get('status')}: {which}")
    return account


def overhead(folder: Path, baseline: Json) -> Overhead | None:
    """Units a second of all running workers, without and with the recorder.

    `baseline` is the workload's report of the run without it, in `folder`/baseline. `spread_pct` is
    the larger spread of the two runs. None if one run did nothing.
    """
    unit = unit_of(baseline)
    files = [place / "samples.bin" for place in (folder / "baseline", folder)]
    rates = [batches.throughput(file, unit) for file in files]
    if not all(rates):
        return None
    spread = max(batches.spread_pct(file, unit) for file in files)
    return Overhead(baseline_per_s=rates[0], recorded_per_s=rates[1], spread_pct=spread, unit=unit)


def throughput(result: Json) -> Throughput | None:
    """Units a second of all workers, from the first start to the last end; None if nothing."""
    workers = result["workers"]
    unit = unit_of(result)
    done = sum(worker[unit] for worker in workers)
    if not done:
        return None
    begin = min(worker["start_mono_ns"] for worker in workers)
    end = max(worker["end_mono_ns"] for worker in workers)
    return Throughput(done * 1e9 / (end - begin), unit) if end > begin else None


def unit_of(result: Json) -> str:
    """The unit that a workload counts: bytes if it counts any, else iterations."""
    return "bytes" if any(worker["bytes"] for worker in result["workers"]) else "iterations"
