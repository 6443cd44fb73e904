"""The replay as the scheduler simulation of the demo runs it; the extension must give the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from schedlens.replay.ops import Op, Program
from schedlens.replay.recorded_programs import Recorded
from schedlens.replay.rerun import Outcome
from schedlens.simulate import script
from schedlens.simulate.rules import Rules
from schedlens.simulate.scheduler import Simulation
from schedlens.simulate.script import Script
from schedlens.simulate.thread import Thread
from schedlens.simulate.truth import ReadySpan, Slice, Truth

LONGEST = 3


class _Nothing(list[Any]):
    """Records of a replay are not kept: a million of them take hundreds of MB."""

    def append(self, value: Any) -> None:
        pass


class _Slices(list[Slice]):
    """Sums of slices by thread and CPU."""

    def __init__(self, until: int) -> None:
        super().__init__()
        self.sums: dict[tuple[int, int], int] = defaultdict(int)
        self._until = until

    def append(self, value: Slice) -> None:
        if value.start < self._until:
            self.sums[value.tid, value.cpu] += min(value.end, self._until) - value.start


class _Ready(list[ReadySpan]):
    """Sums of ready time by thread."""

    def __init__(self, until: int) -> None:
        super().__init__()
        self.sums: dict[int, int] = defaultdict(int)
        self._until = until

    def append(self, value: ReadySpan) -> None:
        if value.start < self._until:
            self.sums[value.tid] += min(value.end, self._until) - value.start


def replay(recorded: Recorded) -> Outcome:
    """The programs run again; deterministic. Slices and ready time count up to the end of the
    recording."""
    until = recorded.duration_ns
    rules = Rules(
        clock_tick_ns=recorded.quantum_ns,
        quantum_ticks=1,
        wake_boost=recorded.wake_boost,
        interrupts_per_s=0.0,
        moves_running=recorded.moves_running,
    )
    simulation = _Simulation(recorded.machine.machine, rules)
    slices, ready = _Slices(until), _Ready(until)
    simulation.records = _Nothing()
    simulation.truth = Truth(slices=slices, ready=ready, handoffs=_Nothing())
    simulation._placement.strands = simulation.stranding(  # type: ignore[assignment,method-assign]
        recorded.stranded_share
    )
    run = _Run(recorded)
    threads: dict[int, int] = {}
    processes: dict[int | None, Any] = {}
    for utid, program in recorded.programs.items():
        if program.upid not in processes:
            processes[program.upid] = simulation.process(program.process)
        thread = simulation.thread(
            processes[program.upid],
            program.name,
            run.body(program),
            priority=program.priority,
            affinity=program.affinity,
            ideal=program.ideal,
            eco=program.eco,
        )
        threads[thread.tid] = utid
        if program.ops[0].kind in {"wait", "sleep", "gap", "until"}:
            simulation.waits[thread.tid] = program.ops[0]
            simulation.gates = run.gates
    for ts, cpu, parked, soft in recorded.parking:
        simulation.park(ts, cpu, parked, soft=soft)
    simulation.run(until * LONGEST)
    outcome = Outcome()
    kinds = recorded.machine.machine.cpus
    for (tid, cpu), spent in slices.sums.items():
        by_type = outcome.running_ns.setdefault(threads[tid], defaultdict(int))
        by_type[kinds[cpu].core_type] += spent
    outcome.ready_ns = {threads[tid]: spent for tid, spent in ready.sums.items()}
    for frame in simulation.truth.frames:
        outcome.frames.setdefault(threads[frame.tid], []).append(frame.end - frame.start)
    for utid, times in run.marks.items():
        outcome.frames[utid] = [after - before for before, after in pairwise(times)]
    return outcome


class _Simulation(Simulation):
    """Threads that wait first have not run for that."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.waits: dict[int, Op] = {}
        self.gates: dict[int, script.Gate] = {}

    def stranding(self, share: float) -> Callable[[Thread], bool]:
        """Leaves a thread on its busy CPU after each so many of its wakeups."""
        sums: dict[int, float] = defaultdict(lambda: 0.5)

        def strands(thread: Thread) -> bool:
            placement = self._placement
            if not share or placement.cpus[placement.home(thread)].running is None:
                return False
            if placement.idle_cpu(thread) is None:
                return False
            sums[thread.tid] += share
            is_stranded = sums[thread.tid] >= 1
            sums[thread.tid] -= is_stranded
            return is_stranded

        return strands

    def _begin(self, thread: Thread) -> None:
        op = self.waits.get(thread.tid)
        if op is None:
            super()._begin(thread)
            return
        at = self.now + int(op.value) if op.kind in {"sleep", "gap"} else int(op.value)
        gate = self.gates[op.gates[0]] if op.kind == "wait" else None
        if at <= self.now if gate is None else gate.count:
            super()._begin(thread)
            return
        assert thread.steps is not None
        if gate is not None:
            gate.waiting.append(thread)
        else:
            self.at(at, lambda: self._alarm(thread))
        next(thread.steps)
        thread.state = "waiting"


class _Run:
    """The gates of a replay."""

    def __init__(self, recorded: Recorded) -> None:
        self.gates: dict[int, script.Gate] = defaultdict(lambda: script.Gate("wait"))
        self.left = dict(recorded.needed)
        self.jobs = {gate: list(jobs) for gate, jobs in recorded.sections.items()}
        self.undone = {gate: len(jobs) for gate, jobs in recorded.sections.items()}
        self.marks: dict[int, list[int]] = {}

    def body(self, program: Program) -> script.Body:
        """The thread's script."""

        def steps(thread: Thread) -> Script:
            for op in program.ops:
                if op.kind == "run":
                    yield script.Run(op.value)
                elif op.kind == "take":
                    gate = op.gates[0]
                    jobs = self.jobs[gate]
                    while jobs:
                        yield script.Run(jobs.pop())
                        self.undone[gate] -= 1
                        if not self.undone[gate]:
                            yield script.SignalEach((self.gates[gate],))
                elif op.kind == "wait":
                    yield script.Wait(self.gates[op.gates[0]])
                elif op.kind == "spin":
                    yield script.Spin(self.gates[op.gates[0]])
                elif op.kind == "open":
                    opened = self._opened(op)
                    if opened:
                        yield script.SignalEach(opened)
                elif op.kind in {"sleep", "gap"}:
                    yield script.Sleep(int(op.value))
                elif op.kind == "until":
                    yield script.SleepUntil(int(op.value))
                elif op.kind == "present":
                    yield script.Present(int(op.value))
                elif op.kind == "mark":
                    self.marks.setdefault(program.utid, []).append(thread.now_ns)

        return steps

    def _opened(self, op: Op) -> tuple[script.Gate, ...]:
        """The gates that this opens: those for which no other thread is still needed."""
        opened = []
        for gate in op.gates:
            self.left[gate] -= 1
            if self.left[gate] == 0:
                opened.append(self.gates[gate])
        return tuple(opened)
