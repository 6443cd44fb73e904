"""Runs a job for each recording that a lake lacks, and reports what became of it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from schedlens.errors import FleetError
from schedlens.fleet import job
from schedlens.fleet.cluster import MEMORY, Cluster, largest_memory
from schedlens.fleet.job import Done, Job
from schedlens.fleet.sources import Finished, Unit
from schedlens.lake import checkpoint, set_aside, written
from schedlens.lake.extras import needed
from schedlens.lake.file_access import LakeFiles
from schedlens.load import store

# Submitted and not finished, for each worker: enough to keep it busy. More would wait on a worker
# whose job kills it, and count as killed with it.
_IN_FLIGHT = 2
_POLL_S = 0.5
# Without any worker for this long, nobody seems to be starting one.
_NO_WORKER_S = 120.0
# The database and the decoder need about this many times the size of a recording; what exceeds the
# memory of a worker is spilled to its disk.
_MEMORY_PER_BYTE = 4


@dataclass
class Result:
    """Recordings that are new in the lake, that were there already, and that were set aside.

    `failed` has the path and the reason of each of the last.
    """

    new: int = 0
    present: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0


@dataclass(frozen=True)
class Request:
    """Where to write, the labels of all recordings, and how often a job is repeated.

    With `again`, recordings that were set aside before are tried again.
    """

    place: str
    machine: str | None = None
    build: str | None = None
    retries: int = 2
    again: bool = False


def new_units(files: LakeFiles, units: list[Unit], request: Request) -> list[Unit]:
    """The units that need a job."""
    known = checkpoint.known(files)
    notes = [] if request.again else set_aside.read_all(files)
    finished = Finished(known.entries.values(), notes)
    return [unit for unit in units if not finished.contains(unit, request.machine, request.build)]


def run(
    cluster: Cluster,
    request: Request,
    units: list[Unit],
    progress: Callable[[str, float], None] = lambda label, share: None,
) -> Result:
    """Runs a job per unit. Raises `FleetError` if the cluster is lost; finished jobs remain.

    A job that fails for a reason of its machine is repeated up to `retries` times, and then set
    aside; so is one whose worker is killed that often, also when nothing else runs.
    """
    files = LakeFiles(request.place)
    # Made once here, rather than by the first jobs at the same moment.
    written.make_secret(files)
    run = _Run(cluster, request, files)
    began = time.monotonic()
    finished = 0

    def work(part: list[Unit]) -> None:
        nonlocal finished
        waiting = iter(part)
        while True:
            run.submit(waiting)
            if not run.running:
                return
            for unit in run.collect():
                finished += 1
                progress(unit.paths[0].name, finished / len(units))

    work(units)
    # Jobs that were on the same worker are all suspects: alone, only the one that kills it fails.
    run.is_alone = True
    for suspect in run.suspects:
        work([suspect])
    run.result.seconds = time.monotonic() - began
    return run.result


class _Run:
    """The jobs in flight and the results so far."""

    def __init__(self, cluster: Cluster, request: Request, files: LakeFiles) -> None:
        self.client = cluster.client
        self.threads = cluster.threads
        self.request = request
        self.files = files
        self.running: dict[Any, Unit] = {}
        self.result = Result()
        self.suspects: list[Unit] = []
        self.is_alone = False
        self._alone_since: float | None = None
        self._distributed = needed("distributed", "fleet")

    def submit(self, waiting: Iterator[Unit]) -> None:
        """Fills the cluster; waits for the first worker."""
        while True:
            most = largest_memory(self.client) if self._is_connected() else None
            if most is not None:
                break
            self._wait_for_worker()
        self._alone_since = None
        workers = len(self.client.scheduler_info(n_workers=-1)["workers"])
        for unit in itertools.islice(waiting, max(0, _IN_FLIGHT * workers - len(self.running))):
            need = min(most, store.LEAST_MEMORY + _MEMORY_PER_BYTE * unit.size)
            task = Job(
                self.request.place,
                tuple(str(path) for path in unit.paths),
                tuple(unit.all_sources),
                self.request.machine,
                self.request.build,
                need,
                self.threads,
            )
            future = self.client.submit(
                job.run, task, retries=self.request.retries, resources={MEMORY: need}, pure=False
            )
            self.running[future] = unit

    def collect(self) -> list[Unit]:
        """Waits for a job to finish; returns the units of all that have."""
        try:
            done, _ = self._distributed.wait(
                list(self.running), timeout=_POLL_S, return_when="FIRST_COMPLETED"
            )
        except TimeoutError:
            done = {future for future in self.running if future.done()}
        except Exception as error:
            # The library has several errors for a scheduler that is gone.
            raise self._lost() from error
        finished = []
        for future in done:
            # First taken out: an error below ends the run.
            unit = self.running.pop(future)
            if self._note(unit, future):
                finished.append(unit)
        if not done and not self._is_connected():
            raise self._lost()
        return finished

    def _note(self, unit: Unit, future: Any) -> bool:
        """Adds the outcome of a job to the result; false if the unit has to run again."""
        if future.status == "finished":
            done: Done = future.result()
            self.result.new += done.written
            self.result.present += done.present
            self.result.failed += done.set_aside
            if self.request.again and not done.set_aside:
                set_aside.clear(self.files, unit.all_sources)
            return True
        if future.status != "error":
            raise self._lost()
        error = future.exception()
        reason = (str(error).splitlines() or [""])[0] or type(error).__name__
        if isinstance(error, self._distributed.scheduler.KilledWorker):
            if not self.is_alone:
                self.suspects.append(unit)
                return False
            reason = (
                "its worker was killed each time, probably for lack of memory: "
                "analyze it alone, with --max-memory"
            )
        set_aside.write(self.files, unit.all_sources, reason, self.request.retries + 1)
        self.result.failed.append((str(unit.paths[0]), reason))
        return True

    def _is_connected(self) -> bool:
        return bool(self.client.status == "running")

    def _wait_for_worker(self) -> None:
        if not self._is_connected():
            raise self._lost()
        self._alone_since = self._alone_since or time.monotonic()
        if time.monotonic() - self._alone_since > _NO_WORKER_S:
            raise FleetError(
                f"the scheduler has had no worker for {_NO_WORKER_S:.0f} s: start some with "
                "`dask worker ADDRESS --resources memory=8e9`, then run this command again"
            )
        time.sleep(_POLL_S)

    def _lost(self) -> FleetError:
        new = self.result.new
        return FleetError(
            f"the scheduler is gone; {new} new recordings are in the lake. Run the same command "
            "again to continue"
        )
