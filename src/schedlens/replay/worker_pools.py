"""Fewer or more workers in a pool: who takes its jobs."""

from __future__ import annotations

from dataclasses import replace

from schedlens.replay.ops import CannotTellError, Op, Program
from schedlens.replay.recorded_programs import Recorded

# Work of its workers that is no job of the pool, as a share: above it, nothing is predicted.
OWN_SHARE = 0.05


def resize(made: Recorded, workers: list[Program], number: int) -> None:
    """Leaves `number` of the workers, or adds some like them. Raises `CannotTellError` if they do
    more than take jobs that any of them can take."""
    _check(made, workers)
    for gone in workers[number:]:
        del made.programs[gone.utid]
    last = min(made.programs, default=0)
    for place in range(number - len(workers)):
        _add(made, workers[place % len(workers)], min(last, 0) - 1 - place)


def _check(made: Recorded, workers: list[Program]) -> None:
    """Whether the workers do nothing but jobs."""
    taken = {op.gates[0] for program in workers for op in program.ops if op.kind == "take"}
    jobs = sum(sum(made.sections[gate]) for gate in taken)
    own = sum(op.value for program in workers for op in program.ops if op.kind == "run")
    if not jobs or own > OWN_SHARE * (own + jobs):
        raise CannotTellError(
            f"{workers[0].name} and its mates do more than take jobs that any of them can take"
        )
    utids = {program.utid for program in workers}
    others = {
        op.gates[0]
        for program in made.programs.values()
        if program.utid not in utids
        for op in program.ops
        if op.kind in {"wait", "spin"}
    }
    for program in workers:
        opened = {gate for op in program.ops if op.kind == "open" for gate in op.gates}
        if opened & others:
            raise CannotTellError(f"threads outside the pool wait for {program.name}")


def _add(made: Recorded, like: Program, utid: int) -> None:
    """A worker that is woken whenever `like` is, and takes jobs of the same sections."""
    gates: dict[int, int] = {}
    ops: list[Op] = []
    free = max(made.needed, default=0)
    needed = dict(made.needed)
    for op in like.ops:
        if op.kind == "wait":
            free += 1
            gates[op.gates[0]] = free
            needed[free] = needed[op.gates[0]]
            ops.append(Op("wait", 0.0, (free,)))
        elif op.kind not in {"run", "open"}:
            ops.append(op)
    made.needed = needed
    for program in made.programs.values():
        if any(op.kind == "open" and not gates.keys().isdisjoint(op.gates) for op in program.ops):
            program.ops = [
                Op("open", op.value, (*op.gates, *(gates[g] for g in op.gates if g in gates)))
                if op.kind == "open"
                else op
                for op in program.ops
            ]
    name = f"{like.name} (added {-utid})"
    made.programs[utid] = replace(like, utid=utid, name=name, ideal=None, ops=ops, packed=None)
