"""The Dask cluster that runs the jobs: one of this machine, or one that runs already."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from schedlens.errors import FleetError
from schedlens.lake.extras import needed
from schedlens.load import store

# What a worker has to announce so that jobs know what fits: `dask worker --resources memory=8e9`.
MEMORY = "memory"
_CONNECT_S = 10


@dataclass(frozen=True)
class Cluster:
    """A client of a cluster, and how many threads each of its jobs may use."""

    client: Any
    threads: int


@contextmanager
def connected(
    scheduler: str | None, workers: int | None, memory: int | None, retries: int
) -> Iterator[Cluster]:
    """The cluster of a scheduler, or one of this machine.

    Without an address, starts a cluster of `workers` processes that share `memory` bytes; by
    default as many as there are CPUs and 2 GiB for each, within 80 % of the machine's memory.
    Raises `FleetError`.
    """
    distributed = needed("distributed", "fleet")
    # The logs of its many parts repeat, with tracebacks, what this command reports in one line.
    logging.disable(logging.CRITICAL)
    if scheduler is not None:
        try:
            client = distributed.Client(scheduler, timeout=_CONNECT_S)
        except (OSError, ValueError) as error:
            raise FleetError(
                f"cannot reach the scheduler {scheduler} ({_first_line(error)}): start one with "
                "`dask scheduler`, and workers with `dask worker ADDRESS --resources memory=8e9`"
            ) from None
        try:
            # Its workers share their machines in a way that is not known here.
            yield Cluster(client, threads=1)
        finally:
            _close(client)
        return
    needed("dask", "fleet").config.set({"distributed.scheduler.allowed-failures": retries})
    allowed = memory or int(store.installed_memory() * 0.8)
    count = workers or max(1, min(_cpus(), allowed // (2 << 30)))
    share = allowed // count
    if share < store.LEAST_MEMORY:
        raise FleetError(
            f"{count} workers need at least {count * store.LEAST_MEMORY >> 20} MiB: "
            "choose fewer with --workers, or allow more with --memory"
        )
    with (
        distributed.LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            memory_limit=share,
            resources={MEMORY: share},
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as local,
        distributed.Client(local) as client,
    ):
        yield Cluster(client, threads=max(1, _cpus() // count))


def _close(client: Any) -> None:
    """Ends the connection, also if the scheduler is gone, which the library reports as an error."""
    with contextlib.suppress(Exception):
        client.close(timeout=_CONNECT_S)


def _cpus() -> int:
    with contextlib.suppress(AttributeError):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def largest_memory(client: Any) -> int | None:
    """The most memory that a worker announces, in bytes; None without workers.

    Raises `FleetError` if none of the workers announces any: its jobs would wait forever.
    """
    known = client.scheduler_info(n_workers=-1)["workers"].values()
    if not known:
        return None
    announced = [worker["resources"].get(MEMORY, 0) for worker in known]
    if not any(announced):
        raise FleetError(
            "no worker announces its memory: start them with `dask worker ADDRESS "
            "--resources memory=8e9` (bytes)"
        )
    return int(max(announced))


def dashboard(client: Any) -> str:
    """The address of the page with the state of the cluster."""
    link = str(client.dashboard_link)
    # Without bokeh, the page with the figures only says that it is missing.
    has_figures = importlib.util.find_spec("bokeh") is not None
    return link if has_figures else link.replace("/status", "/info/main/workers.html")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
