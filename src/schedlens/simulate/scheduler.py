"""The simulated scheduler: advances time, runs the threads' scripts, and switches threads.

`cpu_choice` decides where a ready thread goes. A quantum ends in favor of a ready thread of at
least the same priority; wake-up boosts decay by one per quantum.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable

from schedlens.simulate import (
    codes,
    emitted,
    script,
)
from schedlens.simulate.cpu_choice import (
    Core,
    Placement,
    fill_order,
)
from schedlens.simulate.emitted import Record
from schedlens.simulate.machine import Machine
from schedlens.simulate.rules import FOREVER, TICK_NS, Rules
from schedlens.simulate.thread import Process, Thread
from schedlens.simulate.truth import Frame, Handoff, ReadySpan, Slice, Truth

# Cost of waking another thread, paid by the waker.
SIGNAL_NS = 500
FRAMES_IN_FLIGHT = 2
# Instructions per nanosecond of work.
INSTRUCTIONS_PER_NS = 6.0


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
        self._placement = Placement(machine, self.rules, self.random)
        self._cpus = self._placement.cpus
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self._ids = 4
        self._gpu_free = 0
        self._in_flight: dict[int, deque[int]] = {}

    # Setting up.

    def process(self, name: str) -> Process:
        """Adds a program."""
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
        """Adds a thread that starts at `start_ns`; `ideal` defaults to the cores in turn."""
        allowed = frozenset(affinity if affinity is not None else range(len(self._cpus)))
        if ideal is None:
            order = sorted(self._cpus, key=lambda core: fill_order(core.description))
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
        """Parks or unparks a CPU at a time; soft parking only makes it a last choice."""
        self.at(at_ns, lambda: self._park(cpu, parked, reason, soft))

    def at(self, when_ns: int, what: Callable[[], None]) -> None:
        """Schedules an action; actions at the same time run in the order they were added."""
        self._order += 1
        when = max(math.ceil(when_ns / TICK_NS) * TICK_NS, self.now)
        heapq.heappush(self._heap, (when, self._order, what))

    def run(self, until_ns: int) -> None:
        """Simulates up to a time; slices that are still running end there."""
        if self.rules.interrupts_per_s:
            for core in self._cpus:
                self._next_interrupt(core)
        self.run_to(until_ns)
        self.now = until_ns
        for core in self._cpus:
            if core.running is not None:
                self._end_slice(core, core.running, "trace_end")
        for thread in self.threads:
            if thread.state == "ready":
                self.truth.ready.append(
                    ReadySpan(thread.tid, thread.ready_since, until_ns, thread.priority)
                )

    def run_to(self, until_ns: int) -> None:
        """Simulates up to a time, to be continued."""
        while self._heap and self._heap[0][0] <= until_ns:
            self.now, _, what = heapq.heappop(self._heap)
            what()

    # Threads.

    def _next_id(self) -> int:
        self._ids += 4
        return self._ids

    def _begin(self, thread: Thread) -> None:
        cpu = self._placement.home(thread)
        self.records.append(emitted.ThreadStart(self.now, cpu, thread.tid))
        self._wake(thread, cpu, emitted.IDLE, in_interrupt=False, boost=0)

    def _step(self, core: Core, thread: Thread) -> None:
        """Runs a thread's script until something takes time or the thread leaves the CPU."""
        while core.running is thread:
            thread.now_ns = self.now
            action = next(thread.steps, None) if thread.steps is not None else None
            if action is None:
                thread.steps = None
                thread.end_ns = self.now
                self.records.append(emitted.ThreadEnd(self.now, core.description.cpu, thread.tid))
                self._leave(core, thread, "exit", codes.TERMINATED, codes.EXECUTIVE)
            elif isinstance(action, script.Run):
                thread.work = action.work_ns / TICK_NS
            elif isinstance(action, script.Signal):
                thread.work = SIGNAL_NS / TICK_NS
                self._signal(action, core, thread)
            elif isinstance(action, script.SignalEach):
                thread.work = SIGNAL_NS / TICK_NS
                for gate in action.gates:
                    self.open(gate, core.description.cpu, thread.tid)
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
                    self._leave(core, thread, "blocked", codes.WAITING, codes.DELAY_EXECUTION)
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

    def _wait(self, gate: script.Gate, reason: int, core: Core, thread: Thread) -> None:
        if gate.count:
            gate.count -= 1
            return
        gate.waiting.append(thread)
        self._leave(core, thread, "blocked", codes.WAITING, reason)

    def _signal(self, action: script.Signal, core: Core, thread: Thread) -> None:
        for _ in range(action.count):
            self.open(action.gate, core.description.cpu, thread.tid)

    def open(self, gate: script.Gate, cpu: int, waker: int, *, in_interrupt: bool = False) -> None:
        """Lets one waiter pass the gate; `waker` is the thread that runs on `cpu`."""
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
        cpu = thread.last_cpu if thread.last_cpu is not None else self._placement.home(thread)
        running = self._cpus[cpu].running
        waker = running.tid if running else emitted.IDLE
        self._wake(thread, cpu, waker, in_interrupt=True, boost=self.rules.wake_boost)

    def _set_priority(self, core: Core, thread: Thread, priority: int) -> None:
        self.records.append(
            emitted.PriorityChange(
                self.now, core.description.cpu, thread.tid, thread.base_priority, priority, "base"
            )
        )
        thread.base_priority = thread.priority = priority
        thread.work = SIGNAL_NS / TICK_NS

    def _yield(self, core: Core, thread: Thread) -> None:
        other = core.queued()
        thread.work = SIGNAL_NS / TICK_NS
        if other is not None and other.priority >= thread.priority:
            self._leave(core, thread, "yield", codes.READY, codes.WR_YIELD_EXECUTION)

    def _present(self, core: Core, thread: Thread, gpu_ns: int) -> None:
        """The GPU renders frames in order, shows them at the next vsync, and blocks a thread
        that is too far ahead."""
        pid = thread.process.pid
        thread.frames += 1
        cpu = core.description.cpu
        self.records.append(emitted.PresentCall(self.now, cpu, thread.tid, thread.frames))
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
            self._leave(core, thread, "blocked", codes.WAITING, codes.USER_REQUEST)

    # Ready threads.

    def _wake(
        self, thread: Thread, cpu: int, waker: int, *, in_interrupt: bool, boost: int
    ) -> None:
        self.records.append(emitted.Ready(self.now, cpu, thread.tid, waker, in_interrupt))
        if boost and thread.priority < 15 and thread.priority == thread.base_priority:
            thread.priority = min(thread.base_priority + boost, 15)
        thread.quantum_left = self.rules.quantum_ns
        self._place(thread, woken=True)

    def _place(self, thread: Thread, *, head: bool = False, woken: bool = False) -> None:
        """Finds a CPU or a queue for a thread that has become ready."""
        thread.state = "ready"
        thread.ready_since = self.now
        stranded = woken and self._placement.strands(thread)
        idle = None if stranded else self._placement.idle_cpu(thread)
        if idle is not None:
            self._enter(self._cpus[idle], thread)
            return
        lower = self._placement.lower_cpu(thread)
        if lower is not None:
            self._preempt(self._cpus[lower], thread)
            return
        queue = self._cpus[self._placement.home(thread)].queues[thread.priority]
        if head:
            queue.appendleft(thread)
        else:
            queue.append(thread)
        if thread.priority < 15:
            self.at(self.now + self.rules.starved_ns, lambda: self._starved(thread))

    def _starved(self, thread: Thread) -> None:
        if thread.state != "ready" or self.now - thread.ready_since < self.rules.starved_ns:
            return
        self._placement.unqueue(thread)
        self.records.append(
            emitted.PriorityChange(
                self.now, self._placement.home(thread), thread.tid, thread.priority, 15, "dynamic"
            )
        )
        since = thread.ready_since
        thread.priority = 15
        self._place(thread)
        if thread.state == "ready":
            thread.ready_since = since

    # CPUs.

    def _speed(self, core: Core) -> float:
        shared = self.machine.shared_speed if self._placement.sibling_busy(core) else 1.0
        return core.description.speed * shared

    def _advance(self, core: Core) -> None:
        """Accounts for the work done since the last update."""
        thread = core.running
        if thread is not None:
            spent = self.now - core.since
            done = spent / TICK_NS * self._speed(core)
            thread.work = max(0.0, thread.work - done)
            core.cycles += spent * core.description.khz // 1_000_000
            core.instructions += int(done * TICK_NS * INSTRUCTIONS_PER_NS)
        core.since = self.now

    def _reschedule(self, core: Core) -> None:
        core.version += 1
        version, thread = core.version, core.running
        if thread is None:
            return
        if thread.spins is None:
            ticks = math.ceil(thread.work / self._speed(core) - 1e-9)
            end = self.now + max(ticks, 0) * TICK_NS
            self.at(end, lambda: self._finished(core, thread, version))
        self.at(core.quantum_end, lambda: self._quantum(core, thread, version))

    def _finished(self, core: Core, thread: Thread, version: int) -> None:
        if core.version != version or core.running is not thread:
            return
        self._advance(core)
        thread.work = 0.0
        self._step(core, thread)

    def _quantum(self, core: Core, thread: Thread, version: int) -> None:
        if core.version != version or core.running is not thread or self.now < core.quantum_end:
            return
        self._advance(core)
        if thread.priority > thread.base_priority:
            thread.priority -= 1
        taker = core.queued()
        if taker is None or taker.priority < thread.priority:
            if self._placement.moves_off(core, thread):
                thread.quantum_left = self.rules.quantum_ns
                self._leave(core, thread, "quantum_end", codes.READY, codes.WR_QUANTUM_END)
                return
            core.quantum_end = self.now + self.rules.quantum_ns
            self._reschedule(core)
            return
        self.truth.handoffs.append(Handoff(self.now, core.description.cpu, thread.tid, taker.tid))
        thread.quantum_left = self.rules.quantum_ns
        self._leave(core, thread, "quantum_end", codes.READY, codes.WR_QUANTUM_END)

    def _preempt(self, core: Core, thread: Thread) -> None:
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
        self._end_slice(core, victim, "preempted")
        self._switch(core, victim, thread, shown, codes.READY, codes.WR_PREEMPTED)
        self._place(victim, head=True)
        self._after_entry(core, thread)

    def _leave(self, core: Core, thread: Thread, why: str, state: int, reason: int) -> None:
        """A thread leaves its CPU to the next one in line, or to the idle thread."""
        self._advance(core)
        self._end_slice(core, thread, why)
        following = self._placement.take_for(core)
        self._switch(core, thread, following, following, state, reason)
        if why in {"quantum_end", "yield"}:
            self._place(thread)
        else:
            thread.state = "waiting" if why == "blocked" else "ended"
        if following is not None:
            self._after_entry(core, following)

    def _enter(self, core: Core, thread: Thread) -> None:
        """A thread enters an idle CPU."""
        self._switch(core, None, thread, thread, codes.READY, codes.EXECUTIVE)
        self._after_entry(core, thread)

    def _after_entry(self, core: Core, thread: Thread) -> None:
        if core.running is not thread:
            return
        if thread.work > 0 or thread.spins is not None:
            self._reschedule(core)
        else:
            # Its script continues after everything at this time has been recorded.
            core.version += 1
            version = core.version
            self.at(self.now, lambda: self._finished(core, thread, version))

    def _end_slice(self, core: Core, thread: Thread, why: str) -> None:
        self.truth.slices.append(
            Slice(
                thread.tid,
                core.description.cpu,
                core.slice_start,
                self.now,
                why,
                core.slice_priority,
            )
        )

    def _switch(
        self,
        core: Core,
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
            emitted.Switch(
                ts=self.now,
                cpu=cpu,
                prev=leaver.tid if leaver else emitted.IDLE,
                planned=planned.tid if planned else emitted.IDLE,
                entered=entered.tid if entered else emitted.IDLE,
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
        core.since = core.slice_start = self.now
        core.version += 1
        core.quantum_end = FOREVER
        if entered is not None:
            self.truth.ready.append(
                ReadySpan(entered.tid, entered.ready_since, self.now, entered.priority)
            )
            entered.state, entered.cpu = "running", cpu
            core.slice_priority = entered.priority
            core.quantum_end = self.now + entered.quantum_left
        for other in others:
            if other.running is not None:
                self._reschedule(other)

    # The machine.

    def _park(self, cpu: int, parked: bool, reason: str | None, soft: bool) -> None:
        core = self._cpus[cpu]
        self.records.append(emitted.Park(self.now, cpu, parked, soft, reason))
        core.parked = parked and not soft
        if core.parked or core.running is not None:
            return
        thread = self._placement.take_for(core)
        if thread is not None:
            self._enter(core, thread)

    def _next_interrupt(self, core: Core) -> None:
        gap = self.random.expovariate(self.rules.interrupts_per_s) * 1e9
        self.at(self.now + int(gap), lambda: self._interrupt(core))

    def _interrupt(self, core: Core) -> None:
        length = self.random.randrange(20, 300) * TICK_NS
        kind = "dpc" if self.random.random() < 0.7 else "isr"
        self.records.append(emitted.Interrupt(self.now, core.description.cpu, length, kind))
        self.at(self.now + length, lambda: self._next_interrupt(core))
