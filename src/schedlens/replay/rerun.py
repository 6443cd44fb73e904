"""Runs the programs of a recording under the rules of the simulated scheduler."""

from __future__ import annotations

from array import array
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

from schedlens import _decoders
from schedlens.replay.ops import Program
from schedlens.replay.recorded_programs import Recorded
from schedlens.simulate.rules import Rules

# A byte for each kind of step, as the extension knows it; other kinds do nothing.
_CODES = {
    "run": b"r", "wait": b"w", "spin": b"c", "open": b"o", "sleep": b"s", "gap": b"s",
    "until": b"u", "take": b"t", "present": b"p", "mark": b"m",
}  # fmt: skip


@dataclass
class Outcome:
    """What a replay did."""

    frames: dict[int, list[int]] = field(default_factory=dict)
    """Lengths in order, by presenting thread (utid)."""
    running_ns: dict[int, dict[str, int]] = field(default_factory=dict)
    """By thread and core type."""
    ready_ns: dict[int, int] = field(default_factory=dict)
    goal_ns: int | None = None
    """How long the watched threads took for the work of the goal; None: they did not do it."""
    responses: dict[int, list[int]] = field(default_factory=dict)
    """Times from a wakeup to the next wait, by watched thread."""


def replay(recorded: Recorded) -> Outcome:
    """The programs run again; deterministic. Slices and ready time count up to the end of the
    recording."""
    cpus = recorded.machine.machine.cpus
    processes: dict[int | None, int] = {}
    utids = list(recorded.programs)
    threads = [
        (
            processes.setdefault(program.upid, len(processes)),
            program.priority,
            program.affinity,
            program.ideal,
            program.eco,
            _packed(program),
        )
        for program in recorded.programs.values()
    ]
    needed = [0] * (1 + max(recorded.needed, default=0))
    for gate, count in recorded.needed.items():
        needed[gate] = count
    watched = recorded.watched.utids if recorded.watched else frozenset()
    frames, marks, running, ready, responses, reached, _ = _decoders.replay(
        [(cpu.core, cpu.smt_index > 0, cpu.core_type == "E", cpu.speed) for cpu in cpus],
        recorded.machine.machine.shared_speed,
        threads,
        needed,
        list(recorded.sections.items()),
        [(ts, cpu, parked and not soft) for ts, cpu, parked, soft in recorded.parking],
        quantum_ns=recorded.quantum_ns,
        wake_boost=recorded.wake_boost,
        starved_ns=Rules().starved_ns,
        until_ns=recorded.duration_ns,
        linux=recorded.linux.packed(utids) if recorded.linux else None,
        limits=[
            (
                limit.allowed_ns(),
                limit.period_ns,
                limit.begin_ns,
                [place for place, utid in enumerate(utids) if utid in limit.members],
            )
            for limit in recorded.limits
        ],
        moves_running=recorded.moves_running,
        stranded_share=recorded.stranded_share,
        watched=[place for place, utid in enumerate(utids) if utid in watched],
        goal_ns=recorded.goal.work_ns if recorded.goal else 0.0,
    )
    outcome = Outcome(goal_ns=reached[1] - reached[0] if reached else None)
    for place, utid in enumerate(utids):
        spent: dict[str, int] = defaultdict(int)
        for cpu, ns in zip(cpus, running[place], strict=True):
            if ns:
                spent[cpu.core_type] += ns
        if spent:
            outcome.running_ns[utid] = spent
        outcome.ready_ns[utid] = ready[place]
        if utid in watched:
            outcome.responses[utid] = responses[place]
        if marks[place]:
            outcome.frames[utid] = [after - before for before, after in pairwise(marks[place])]
        elif frames[place]:
            outcome.frames[utid] = frames[place]
    return outcome


def _packed(program: Program) -> tuple[bytes, bytes, bytes]:
    """The steps as the extension takes them; packed once, as most changes leave them alone."""
    if program.packed is not None and program.packed[0] is program.ops:
        return program.packed[1]
    kinds, values, gates = bytearray(), array("d"), array("I")
    for op in program.ops:
        code = _CODES.get(op.kind)
        if code is None:
            continue
        kinds += code
        if code == b"o":
            values.append(len(op.gates))
            gates.extend(op.gates)
        else:
            values.append(op.gates[0] if code in b"wct" else op.value)
    made = bytes(kinds), values.tobytes(), gates.tobytes()
    program.packed = (program.ops, made)
    return made
