"""Jobs of worker pools: which worker takes which one is an outcome, not part of the program."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence

from schedlens.replay.ops import Op, Program

LEAST_JOB_NS = 1_000.0
MOST_JOBS = 1_000


def shared_out(
    programs: Mapping[int, Program], needed: dict[int, int], tails: Sequence[int]
) -> dict[int, list[float]]:
    """Turns the runs of workers that one thread waits for into jobs that any of them takes.

    Only runs without another act count. The recording does not separate the jobs of a run: those of
    a section have equal length. `tails`: how long before the last worker the others ran out of
    jobs, which is half a job on average.
    """
    runs: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for utid, program in programs.items():
        for place, op in enumerate(program.ops):
            if op.kind != "open" or len(op.gates) != 1 or needed[op.gates[0]] < 2:
                continue
            if [before.kind for before in program.ops[max(place - 2, 0) : place]] == [
                "wait",
                "run",
            ]:
                runs[op.gates[0]].append((utid, place - 1))
    whole = {gate: found for gate, found in runs.items() if len(found) == needed[gate]}
    lengths = sorted(
        programs[utid].ops[place].value for found in whole.values() for utid, place in found
    )
    sections: dict[int, list[float]] = {}
    if not lengths:
        return sections
    job = max(min(2 * statistics.median(tails), lengths[0]), LEAST_JOB_NS)
    for gate, found in whole.items():
        total = sum(programs[utid].ops[place].value for utid, place in found)
        count = min(max(len(found), round(total / job)), MOST_JOBS)
        sections[gate] = [total / count] * count
        needed[gate] = 1
        for utid, place in found:
            # The jobs that are taken open the gate.
            programs[utid].ops[place] = Op("take", gates=(gate,))
            programs[utid].ops[place + 1] = Op("nothing")
    return sections
