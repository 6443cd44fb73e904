"""The simulated scheduler: who runs where, by Windows' rules as far as traces show them.

Strict priority with a queue per CPU and level; a thread made ready takes its ideal CPU if that is
idle, else an idle one (whole P cores, E cores, siblings of busy ones), else the allowed CPU with
the lowest lower priority, else the tail of its ideal CPU's queue, or, where its mask forbids that,
of the CPU it last ran on. A quantum ends in favour of a ready thread of at least its priority;
boosts on wake decay by one a quantum. Parked CPUs are used only where the mask leaves no other.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from schedlens.simulate import records, script
from schedlens.simulate.machine import Cpu, Machine
from schedlens.simulate.records import Record
from schedlens.simulate.truth import Frame, Handoff, ReadySpan, Stay, Truth

# The clock of the recorder: QPC at 10 MHz.
TICK_NS = 100
LEVELS = 32
# Cost of waking another thread, in the waker.
SIGNAL_NS = 500
FRAMES_IN_FLIGHT = 2
# Instructions in a nanosecond of work.
INSTRUCTIONS_PER_NS = 6.0
FOREVER = 1 << 62


@dataclass(frozen=True)
class Rules:
    """What differs between systems."""

    clock_tick_ns: int = 15_625_000
    quantum_ticks: int = 2
    """Clock ticks of a quantum: 2 on a client, 6 for its foreground, 12 on a server."""
    wake_boost: int = 1
    """Priority added to a thread below 16 when a gate wakes it."""
    starved_ns: int = 4_000_000_000
    """A thread that has been ready so long is boosted to 15 once."""
    vsync_ns: int = 16_666_700
    interrupts_per_s: float = 200.0
    """Deferred calls on each CPU."""
    replaced_share: float = 0.0
    """Share of preempting switch-ins whose record names the thread planned before."""
    stranded_share: float = 0.0
    """Share of wakings after which a thread queues on its own CPU, busy, though another is idle:
    what Linux does when it wakes threads near their waker."""
    start_work_ns: int = 0
    """Work of a new thread before its script begins."""
    moves_running: bool = True
    """Whether a thread whose quantum ends goes to a better CPU that idles."""

    @property
    def quantum_ns(self) -> int:
        """Length of a quantum."""
        return self.clock_tick_ns * self.quantum_ticks // TICK_NS * TICK_NS


@dataclass(eq=False)
class Process:
    """A program."""

    pid: int
    name: str


@dataclass(eq=False)
class Thread:
    """A thread and where it stands."""

    tid: int
    name: str
    process: Process
    base_priority: int
    affinity: frozenset[int]
    ideal: int
    start_ns: int
    eco: bool = False
    """EcoQoS: prefers E cores."""
    priority: int = 0
    state: str = "new"
    cpu: int | None = None
    last_cpu: int | None = None
    ready_since: int = 0
    quantum_left: int = 0
    work: float = 0.0
    spins: script.Gate | None = None
    steps: script.Script | None = None
    now_ns: int = 0
    """The time of its last step, for its script to read."""
    frames: int = 0
    frame_start: int = 0
    end_ns: int | None = None


@dataclass(eq=False)
class _Core:
    """A logical CPU and who stands there."""

    description: Cpu
    siblings: list[int]
    running: Thread | None = None
    since: int = 0
    stay_start: int = 0
    version: int = 0
    quantum_end: int = FOREVER
    parked: bool = False
    cycles: int = 0
    instructions: int = 0
    queues: list[deque[Thread]] = field(default_factory=lambda: [deque() for _ in range(LEVELS)])

    def queued(self) -> Thread | None:
        for queue in reversed(self.queues):
            if queue:
                return queue[0]
        return None


class Simulation:
    """A machine, its programs, and the records of them."""

    def __init__(self, machine: Machine, rules: Rules | None = None, *, seed: int = 0) -> None:
        self.machine = machine
        self.rules = rules or Rules()
        self.random = random.Random(seed)
        self.records: list[Record] = []
        self.truth = Truth()
        self.processes: list[Process] = []
        self.threads: list[Thread] = []
        self.now = 0
        self._cpus = [_Core(cpu, machine.siblings(cpu.cpu)) for cpu in machine.cpus]
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self._ids = 4
        self._gpu_free = 0
        self._in_flight: dict[int, deque[int]] = {}

    # What is simulated.

    def process(self, name: str) -> Process:
        """A program."""
        made = Process(self._next_id(), name)
        self.processes.append(made)
        return made

    def thread(
        self,
        process: Process,
        name: str,
        body: script.Body,
        *,
        priority: int = 8,
        affinity: list[int] | None = None,
        ideal: int | None = None,
        start_ns: int = 0,
        eco: bool = False,
    ) -> Thread:
        """A thread that begins at `start_ns`; without `ideal` they go round the whole cores."""
        allowed = frozenset(affinity if affinity is not None else range(len(self._cpus)))
        if ideal is None:
            order = sorted(self._cpus, key=lambda core: _fill_order(core.description))
            ideal = order[len(self.threads) % len(order)].description.cpu
        made = Thread(self._next_id(), name, process, priority, allowed, ideal, start_ns, eco)
        made.priority = priority
        made.steps = body(made)
        made.work = self.rules.start_work_ns / TICK_NS
        self.threads.append(made)
        self.at(start_ns, lambda: self._begin(made))
        return made

    def park(
        self, at_ns: int, cpu: int, parked: bool, reason: str | None = None, *, soft: bool = False
    ) -> None:
        """Parks or unparks a CPU at a time; a soft-parked one is only avoided."""
        self.at(at_ns, lambda: self._park(cpu, parked, reason, soft))

    def at(self, when_ns: int, what: Callable[[], None]) -> None:
        """Does something at a time, in the order of asking."""
        self._order += 1
        when = max(math.ceil(when_ns / TICK_NS) * TICK_NS, self.now)
        heapq.heappush(self._heap, (when, self._order, what))

    def run(self, until_ns: int) -> None:
        """Simulates up to a time; what still runs then is cut off."""
        if self.rules.interrupts_per_s:
            for core in self._cpus:
                self._next_interrupt(core)
        while self._heap and self._heap[0][0] <= until_ns:
            self.now, _, what = heapq.heappop(self._heap)
            what()
        self.now = until_ns
        for core in self._cpus:
            if core.running is not None:
                self._stay(core, core.running, "trace_end")
        for thread in self.threads:
            if thread.state == "ready":
                self.truth.ready.append(ReadySpan(thread.tid, thread.ready_since, until_ns))

    # Threads.

    def _next_id(self) -> int:
        self._ids += 4
        return self._ids

    def _begin(self, thread: Thread) -> None:
        cpu = self._home(thread)
        self.records.append(records.ThreadStart(self.now, cpu, thread.tid))
        self._wake(thread, cpu, records.IDLE, in_interrupt=False, boost=0)

    def _step(self, core: _Core, thread: Thread) -> None:
        """Goes on with a thread's script until something takes time or the thread is off."""
        while core.running is thread:
            thread.now_ns = self.now
            action = next(thread.steps, None) if thread.steps is not None else None
            if action is None:
                thread.steps = None
                thread.end_ns = self.now
                self.records.append(records.ThreadEnd(self.now, core.description.cpu, thread.tid))
                self._leave(core, thread, "exit", records.TERMINATED, script.EXECUTIVE)
            elif isinstance(action, script.Run):
                thread.work = action.work_ns / TICK_NS
            elif isinstance(action, script.Signal):
                thread.work = SIGNAL_NS / TICK_NS
                self._signal(action, core, thread)
            elif isinstance(action, script.Wait):
                self._wait(action.gate, action.reason, core, thread)
            elif isinstance(action, script.Spin):
                if action.gate.count:
                    action.gate.count -= 1
                else:
                    action.gate.spinning.append(thread)
                    thread.spins = action.gate
            elif isinstance(action, script.Sleep | script.SleepUntil):
                until = self.now + action.ns if isinstance(action, script.Sleep) else action.at_ns
                if until > self.now:
                    self.at(until, lambda: self._alarm(thread))
                    self._leave(core, thread, "blocked", records.WAITING, script.DELAY_EXECUTION)
            elif isinstance(action, script.SetPriority):
                self._set_priority(core, thread, action.priority)
            elif isinstance(action, script.Present):
                self._present(core, thread, action.gpu_ns)
            else:
                self._yield(core, thread)
            if thread.work > 0 or thread.spins is not None:
                break
        if core.running is thread:
            self._reschedule(core)

    def _wait(self, gate: script.Gate, reason: int, core: _Core, thread: Thread) -> None:
        if gate.count:
            gate.count -= 1
            return
        gate.waiting.append(thread)
        self._leave(core, thread, "blocked", records.WAITING, reason)

    def _signal(self, action: script.Signal, core: _Core, thread: Thread) -> None:
        for _ in range(action.count):
            self.open(action.gate, core.description.cpu, thread.tid)

    def open(self, gate: script.Gate, cpu: int, waker: int, *, in_interrupt: bool = False) -> None:
        """Lets one wait at the gate pass; `waker` is the thread that runs on `cpu`."""
        if gate.waiting:
            woken = gate.waiting.popleft()
            boost = self.rules.wake_boost
            self._wake(woken, cpu, waker, in_interrupt=in_interrupt, boost=boost)
        elif gate.spinning:
            passed = gate.spinning.pop(0)
            passed.spins = None
            if passed.cpu is not None:
                there = self._cpus[passed.cpu]
                self.at(self.now, lambda: self._finished(there, passed, there.version))
        else:
            gate.count += 1

    def _alarm(self, thread: Thread) -> None:
        cpu = thread.last_cpu if thread.last_cpu is not None else self._home(thread)
        running = self._cpus[cpu].running
        waker = running.tid if running else records.IDLE
        self._wake(thread, cpu, waker, in_interrupt=True, boost=self.rules.wake_boost)

    def _set_priority(self, core: _Core, thread: Thread, priority: int) -> None:
        self.records.append(
            records.PriorityChange(
                self.now, core.description.cpu, thread.tid, thread.base_priority, priority, "base"
            )
        )
        thread.base_priority = thread.priority = priority
        thread.work = SIGNAL_NS / TICK_NS

    def _yield(self, core: _Core, thread: Thread) -> None:
        other = core.queued()
        thread.work = SIGNAL_NS / TICK_NS
        if other is not None and other.priority >= thread.priority:
            self._leave(core, thread, "yield", records.READY, records.WR_YIELD_EXECUTION)

    def _present(self, core: _Core, thread: Thread, gpu_ns: int) -> None:
        """The GPU takes frames in order, shows them at the next vsync, and holds back a thread
        that is too far ahead."""
        pid = thread.process.pid
        thread.frames += 1
        cpu = core.description.cpu
        self.records.append(records.PresentCall(self.now, cpu, thread.tid, thread.frames))
        begin = max(self._gpu_free, self.now)
        end = begin + gpu_ns // TICK_NS * TICK_NS
        self._gpu_free = end
        vsync = self.rules.vsync_ns
        shown = -(-end // vsync) * vsync
        flight = self._in_flight.setdefault(pid, deque())
        flight.append(end)
        while flight and flight[0] <= self.now:
            flight.popleft()
        back = self.now
        if len(flight) > FRAMES_IN_FLIGHT:
            back = flight[-1 - FRAMES_IN_FLIGHT]
        start, thread.frame_start = thread.frame_start, back
        self.truth.frames.append(
            Frame(thread.frames, thread.tid, start, self.now, back, begin, end, shown)
        )
        thread.work = SIGNAL_NS / TICK_NS
        if back > self.now:
            self.at(back, lambda: self._alarm(thread))
            self._leave(core, thread, "blocked", records.WAITING, script.USER_REQUEST)

    # Placement.

    def _home(self, thread: Thread) -> int:
        """Whose queue a ready thread joins."""
        usable = [cpu for cpu in thread.affinity if not self._cpus[cpu].parked]
        candidates = usable or list(thread.affinity)
        if thread.ideal in candidates:
            return thread.ideal
        if thread.last_cpu in candidates and thread.last_cpu is not None:
            return thread.last_cpu
        return min(candidates)

    def _idle_cpu(self, thread: Thread) -> int | None:
        idle = self._idle_allowed(thread)
        if not idle:
            home = self._cpus[self._home(thread)]
            # Its mask leaves parked CPUs alone: one of them must do.
            return home.description.cpu if home.running is None else None
        ideal = self._cpus[thread.ideal]
        if ideal in idle and not thread.eco and not self._beside_busy(ideal):
            return thread.ideal

        def order(core: _Core) -> tuple[int, bool, int]:
            cpu = core.description.cpu
            return (self._rank(core, thread), cpu != thread.last_cpu, cpu)

        return min(idle, key=order).description.cpu

    def _idle_allowed(self, thread: Thread) -> list[_Core]:
        return [
            core
            for core in self._cpus
            if core.running is None and not core.parked and core.description.cpu in thread.affinity
        ]

    def _rank(self, core: _Core, thread: Thread) -> int:
        """Whole P cores, E cores, siblings of busy ones; for EcoQoS E cores first."""
        if thread.eco and core.description.core_type == "E":
            return -1
        return 2 if self._beside_busy(core) else _fill_order(core.description)[0]

    def _moves_off(self, core: _Core, thread: Thread) -> bool:
        """Whether a thread goes elsewhere when its quantum ends: off a parked CPU if it may use
        another, or to an idle one of a better kind."""
        if core.parked and any(not self._cpus[cpu].parked for cpu in thread.affinity):
            return True
        if not self.rules.moves_running:
            return False
        here = self._rank(core, thread)
        return any(self._rank(other, thread) < here for other in self._idle_allowed(thread))

    def _beside_busy(self, core: _Core) -> bool:
        return any(self._cpus[other].running is not None for other in core.siblings)

    def _lower_cpu(self, thread: Thread) -> int | None:
        lower = []
        for cpu in thread.affinity:
            core = self._cpus[cpu]
            running = core.running
            if running is not None and running.priority < thread.priority and not core.parked:
                lower.append((running.priority, cpu != thread.ideal, cpu != thread.last_cpu, cpu))
        return min(lower)[3] if lower else None

    def _wake(
        self, thread: Thread, cpu: int, waker: int, *, in_interrupt: bool, boost: int
    ) -> None:
        self.records.append(records.Ready(self.now, cpu, thread.tid, waker, in_interrupt))
        if boost and thread.priority < 15 and thread.priority == thread.base_priority:
            thread.priority = min(thread.base_priority + boost, 15)
        thread.quantum_left = self.rules.quantum_ns
        self._place(thread)

    def _place(self, thread: Thread, *, head: bool = False) -> None:
        """Finds a CPU for a thread that has become ready, or a queue."""
        thread.state = "ready"
        thread.ready_since = self.now
        idle = None if self._strands(thread) else self._idle_cpu(thread)
        if idle is not None:
            self._enter(self._cpus[idle], thread)
            return
        lower = self._lower_cpu(thread)
        if lower is not None:
            self._preempt(self._cpus[lower], thread)
            return
        queue = self._cpus[self._home(thread)].queues[thread.priority]
        if head:
            queue.appendleft(thread)
        else:
            queue.append(thread)
        if thread.priority < 15:
            self.at(self.now + self.rules.starved_ns, lambda: self._starved(thread))

    def _strands(self, thread: Thread) -> bool:
        share = self.rules.stranded_share
        if not share or self.random.random() >= share:
            return False
        return self._cpus[self._home(thread)].running is not None

    def _starved(self, thread: Thread) -> None:
        if thread.state != "ready" or self.now - thread.ready_since < self.rules.starved_ns:
            return
        self._unqueue(thread)
        self.records.append(
            records.PriorityChange(
                self.now, self._home(thread), thread.tid, thread.priority, 15, "dynamic"
            )
        )
        since = thread.ready_since
        thread.priority = 15
        self._place(thread)
        if thread.state == "ready":
            thread.ready_since = since

    def _unqueue(self, thread: Thread) -> None:
        for core in self._cpus:
            queue = core.queues[thread.priority]
            if thread in queue:
                queue.remove(thread)
                return

    def _take_for(self, core: _Core) -> Thread | None:
        """The thread that a free CPU runs next: its own queue's, else one from another's."""
        own = core.queued()
        if own is not None:
            core.queues[own.priority].popleft()
            return own
        if core.parked:
            return None
        best: Thread | None = None
        for other in self._cpus:
            for queue in other.queues:
                for thread in queue:
                    if core.description.cpu in thread.affinity and (
                        best is None
                        or (-thread.priority, thread.ready_since)
                        < (-best.priority, best.ready_since)
                    ):
                        best = thread
        if best is not None:
            self._unqueue(best)
        return best

    # CPUs.

    def _speed(self, core: _Core) -> float:
        shared = self.machine.shared_speed if self._beside_busy(core) else 1.0
        return core.description.speed * shared

    def _advance(self, core: _Core) -> None:
        """Books the work done since the last look."""
        thread = core.running
        if thread is not None:
            spent = self.now - core.since
            done = spent / TICK_NS * self._speed(core)
            thread.work = max(0.0, thread.work - done)
            core.cycles += spent * core.description.khz // 1_000_000
            core.instructions += int(done * TICK_NS * INSTRUCTIONS_PER_NS)
        core.since = self.now

    def _reschedule(self, core: _Core) -> None:
        core.version += 1
        version, thread = core.version, core.running
        if thread is None:
            return
        if thread.spins is None:
            ticks = math.ceil(thread.work / self._speed(core) - 1e-9)
            end = self.now + max(ticks, 0) * TICK_NS
            self.at(end, lambda: self._finished(core, thread, version))
        self.at(core.quantum_end, lambda: self._quantum(core, thread, version))

    def _finished(self, core: _Core, thread: Thread, version: int) -> None:
        if core.version != version or core.running is not thread:
            return
        self._advance(core)
        thread.work = 0.0
        self._step(core, thread)

    def _quantum(self, core: _Core, thread: Thread, version: int) -> None:
        if core.version != version or core.running is not thread or self.now < core.quantum_end:
            return
        self._advance(core)
        if thread.priority > thread.base_priority:
            thread.priority -= 1
        taker = core.queued()
        if taker is None or taker.priority < thread.priority:
            if self._moves_off(core, thread):
                thread.quantum_left = self.rules.quantum_ns
                self._leave(core, thread, "quantum_end", records.READY, records.WR_QUANTUM_END)
                return
            core.quantum_end = self.now + self.rules.quantum_ns
            self._reschedule(core)
            return
        self.truth.handoffs.append(Handoff(self.now, core.description.cpu, thread.tid, taker.tid))
        thread.quantum_left = self.rules.quantum_ns
        self._leave(core, thread, "quantum_end", records.READY, records.WR_QUANTUM_END)

    def _preempt(self, core: _Core, thread: Thread) -> None:
        victim = core.running
        if victim is None:
            return
        self._advance(core)
        victim.quantum_left = max(core.quantum_end - self.now, TICK_NS)
        planned = core.queued()
        replaced = (
            planned is not None
            and planned.priority >= victim.priority
            and self.random.random() < self.rules.replaced_share
        )
        shown = planned if replaced and planned is not None else thread
        self._stay(core, victim, "preempted")
        self._switch(core, victim, thread, shown, records.READY, records.WR_PREEMPTED)
        self._place(victim, head=True)
        self._after_entry(core, thread)

    def _leave(self, core: _Core, thread: Thread, why: str, state: int, reason: int) -> None:
        """A thread leaves its CPU for the next one in line, or for the idle thread."""
        self._advance(core)
        self._stay(core, thread, why)
        following = self._take_for(core)
        self._switch(core, thread, following, following, state, reason)
        if why in {"quantum_end", "yield"}:
            self._place(thread)
        else:
            thread.state = "waiting" if why == "blocked" else "ended"
        if following is not None:
            self._after_entry(core, following)

    def _enter(self, core: _Core, thread: Thread) -> None:
        """A thread enters a CPU that idles."""
        self._switch(core, None, thread, thread, records.READY, script.EXECUTIVE)
        self._after_entry(core, thread)

    def _after_entry(self, core: _Core, thread: Thread) -> None:
        if core.running is not thread:
            return
        if thread.work > 0 or thread.spins is not None:
            self._reschedule(core)
        else:
            # Its script goes on when everything of this moment has been written.
            core.version += 1
            version = core.version
            self.at(self.now, lambda: self._finished(core, thread, version))

    def _stay(self, core: _Core, thread: Thread, why: str) -> None:
        self.truth.stays.append(
            Stay(thread.tid, core.description.cpu, core.stay_start, self.now, why)
        )

    def _switch(
        self,
        core: _Core,
        leaver: Thread | None,
        entered: Thread | None,
        planned: Thread | None,
        state: int,
        reason: int,
    ) -> None:
        cpu = core.description.cpu
        others = [self._cpus[other] for other in core.siblings]
        for other in others:
            self._advance(other)
        if leaver is not None:
            leaver.last_cpu, leaver.cpu = cpu, None
        if entered is not planned:
            self.truth.replaced += 1
        self.records.append(
            records.Switch(
                ts=self.now,
                cpu=cpu,
                prev=leaver.tid if leaver else records.IDLE,
                planned=planned.tid if planned else records.IDLE,
                entered=entered.tid if entered else records.IDLE,
                prev_state=state,
                wait_reason=reason,
                prev_priority=leaver.priority if leaver else 0,
                next_priority=planned.priority if planned else 0,
                prev_ideal=leaver.ideal if leaver else None,
                cycles=core.cycles,
                instructions=core.instructions,
            )
        )
        core.running = entered
        core.since = core.stay_start = self.now
        core.version += 1
        core.quantum_end = FOREVER
        if entered is not None:
            self.truth.ready.append(ReadySpan(entered.tid, entered.ready_since, self.now))
            entered.state, entered.cpu = "running", cpu
            core.quantum_end = self.now + entered.quantum_left
        for other in others:
            if other.running is not None:
                self._reschedule(other)

    # The machine.

    def _park(self, cpu: int, parked: bool, reason: str | None, soft: bool) -> None:
        core = self._cpus[cpu]
        self.records.append(records.Park(self.now, cpu, parked, soft, reason))
        core.parked = parked and not soft
        if core.parked or core.running is not None:
            return
        thread = self._take_for(core)
        if thread is not None:
            self._enter(core, thread)

    def _next_interrupt(self, core: _Core) -> None:
        gap = self.random.expovariate(self.rules.interrupts_per_s) * 1e9
        self.at(self.now + int(gap), lambda: self._interrupt(core))

    def _interrupt(self, core: _Core) -> None:
        length = self.random.randrange(20, 300) * TICK_NS
        kind = "dpc" if self.random.random() < 0.7 else "isr"
        self.records.append(records.Interrupt(self.now, core.description.cpu, length, kind))
        self.at(self.now + length, lambda: self._next_interrupt(core))


def _fill_order(cpu: Cpu) -> tuple[int, int]:
    """Whole P cores, then E cores, then second siblings."""
    if cpu.smt_index:
        return (2, cpu.cpu)
    return (1 if cpu.core_type == "E" else 0, cpu.cpu)
