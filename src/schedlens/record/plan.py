"""The steps of a sweep: which plan runs when, and which placements it covers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from schedlens.errors import PlanError
from schedlens.load.session_file import Step
from schedlens.machine.topology import Topology
from schedlens.record import placement as placements_


def sweep(
    topology: Topology,
    workload: str,
    threads: Sequence[int],
    placements: Sequence[str],
    repeats: int,
    cpus: Sequence[int] | None,
) -> list[Step]:
    """All runs, repeat by repeat; identical plans become one step.

    `cpus` pins by hand instead of `placements`. Raises `PlanError`.
    """
    if repeats < 1:
        raise PlanError("--repeat must be at least 1")
    usable = len(topology.usable)
    made = []
    for repeat in range(1, repeats + 1):
        for count in threads:
            plans: list[tuple[list[str], list[int] | None]] = []
            if cpus is not None:
                plans.append((["pinned"], placements_.pinned(topology, cpus, count)))
            else:
                for name in placements:
                    planned = placements_.planned(topology, name, count)
                    same = [names for names, other in plans if other == planned]
                    if same:
                        same[0].append(name)
                    else:
                        plans.append(([name], planned))
            for names, planned in plans:
                room = len(set(planned)) if planned is not None else usable
                made.append(
                    Step(
                        name=f"{workload}-{names[0]}-t{count:02d}-r{repeat}",
                        workload=workload,
                        placements=tuple(names),
                        placement=names[0],
                        threads=count,
                        repeat=repeat,
                        oversubscribed=count > room,
                        planned_cpus=None if planned is None else tuple(planned),
                    )
                )
    return made


def single(name: str, repeats: int) -> list[Step]:
    """Runs of a program, or of the machine as it is."""
    if repeats < 1:
        raise PlanError("--repeat must be at least 1")
    return [
        Step(f"{folder_name(name)}-r{repeat}", None, (), None, None, repeat, False, None)
        for repeat in range(1, repeats + 1)
    ]


def folder_name(text: str) -> str:
    """A text as a folder name: no blanks, separators or leading dots, at most 40 characters."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", text).strip(".-")[:40] or "program"
