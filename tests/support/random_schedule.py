"""A random schedule with its truth: a small simulation that records who ran where and why.

It shares nothing with any reader: it plays threads on CPUs event by event, writes each event as a
line for the writer, and keeps the slices, parkings, and counters that a reader must find again.
Times are ns, all whole multiples of 100: the ticks of the usual Windows clock.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

TICK = 100
US = 1_000
# The default of a reader for Linux if the recording lacks it (1 ms), and the quantum.
QUANTUM = 1_500 * US
SYSTEM, GAME, BACKGROUND = 4, 1000, 2000
HOGS = 3

Line = dict[str, Any]


@dataclass
class Slice:
    """A slice of a thread on a CPU, as in `sched_slice`."""

    tid: int
    cpu: int
    ts: int
    dur: int = 0
    priority: int = 8
    end_reason: str = "trace_end"
    ready_ns: int | None = None
    wait_ns: int | None = None
    # The thread that made it ready; ("idle", cpu) if the CPU's idle thread ran there.
    waker: int | tuple[str, int] | None = None
    prev_cpu: int | None = None
    left_censored: bool = False
    right_censored: bool = False


@dataclass
class Thread:
    """The current state of a thread in the simulation."""

    tid: int
    pid: int
    name: str
    priority: int
    state: str = "waiting"
    since: int | None = None
    ready_at: int | None = None
    by_waking: bool = False
    wait_ns: int | None = None
    waker: int | tuple[str, int] | None = None
    early_waker: int | tuple[str, int] | None = None
    last_cpu: int | None = None
    bursts_left: int = 1_000_000
    # The only CPU it may use; it runs long there.
    home: int | None = None


@dataclass
class Cpu:
    """The current state of a logical CPU in the simulation."""

    cpu: int
    running: int = 0
    slice_: Slice | None = None
    queue: deque[int] = field(default_factory=deque)
    token: int = 0
    last_switch: int = 0
    cycles: int = 0
    instructions: int = 0
    parked: bool = False


def machine_cpus(p_cores: int = 8, e_cores: int = 8) -> list[Line]:
    """Intel's hybrid of 2021: P cores with two siblings and their own L2, E cores in fours."""
    cpus: list[Line] = []
    for core in range(p_cores):
        for _ in range(2):
            cpus.append({
                "cpu": len(cpus), "core": core, "efficiency_class": 1, "pmu": "cpu_core",
                "l2": core, "l3": 0,
            })  # fmt: skip
    for core in range(e_cores):
        cpus.append({
            "cpu": len(cpus), "core": p_cores + core, "efficiency_class": 0, "pmu": "cpu_atom",
            "l2": p_cores + core // 4, "l3": 0,
        })  # fmt: skip
    return cpus


class RandomSchedule:
    """Plays `threads` threads for `length_ns` on a machine; the same seed plays the same."""

    def __init__(
        self,
        seed: int,
        length_ns: int = 20_000 * US,
        threads: int = 40,
        cpus: list[Line] | None = None,
        replanned: float = 0.0,
    ) -> None:
        self.cpus = machine_cpus() if cpus is None else cpus
        self.length_ns = length_ns
        # Share of the switches with a queue in which Windows planned another queued thread.
        self.replanned = replanned
        self.lines: list[Line] = []
        self.slices: list[Slice] = []
        self.threads: dict[int, Thread] = {}
        # (cpu, tid, ts, dur, cycles, instructions) of each slice with counters.
        self.counted: list[tuple[int, int, int, int, int, int]] = []
        # (cpu, ts, parked) of each change.
        self.parkings: list[tuple[int, int, bool]] = []
        # (cpu, begin, end, kind) of each interrupt, and (cpu, ts, khz) of each frequency.
        self.interrupts: list[tuple[int, int, int, str]] = []
        self.frequencies: list[tuple[int, int, int]] = []
        # Three threads share one E core and never yield, as in a known case of a stutter.
        self.crowded = self.cpus[-1]["cpu"]
        self._random = random.Random(seed)
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self._now = 0
        self._cpus = {cpu["cpu"]: Cpu(cpu["cpu"]) for cpu in self.cpus}
        self._begin(threads)
        while self._heap and self._heap[0][0] < length_ns:
            self._now, _, happen = heapq.heappop(self._heap)
            happen()
        self._end()
        self._forget_last_plans()
        self._interrupt()
        self.lines.sort(key=lambda line: line["ts"])

    def head(self, **layouts: Line) -> Line:
        """First line of the script; `etl` and `perf` are the layouts of the files."""
        return {"machine": {"cpus": self.cpus, "cpu_model": "Drawn 8P+8E"}, **layouts}

    # Events.

    def _at(self, delay: int, happen: Callable[[], None]) -> None:
        self._order += 1
        time = self._now + max(TICK, delay // TICK * TICK)
        heapq.heappush(self._heap, (time, self._order, happen))

    def _line(self, cpu: int, event: str, **fields: Any) -> None:
        self.lines.append({"ts": self._now, "cpu": cpu, "event": event, **fields})

    def _below(self, limit: int) -> int:
        return self._random.randrange(limit)

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _begin(self, threads: int) -> None:
        names = {SYSTEM: "System", GAME: "game.exe", BACKGROUND: "indexer.exe"}
        for pid, name in names.items():
            self._line(0, "process", phase="rundown_start", pid=pid, parent=4, name=name,
                       command_line=name)  # fmt: skip
        self._line(0, "counters", names=["TotalCycles", "InstructionRetired"])
        for number in range(threads):
            pid = (GAME, GAME, GAME, BACKGROUND)[number % 4]
            thread = self._new(pid, f"worker {number}", 8 + number % 5, phase="rundown_start")
            thread.home = self.crowded if number < HOGS else None
        for cpu in self.cpus:
            # Parking is known from the rundown on, and so are the classes.
            parked = self._may_park(cpu) and self._chance(0.5)
            self._cpus[cpu["cpu"]].parked = parked
            self.parkings.append((cpu["cpu"], 0, parked))
            self._line(0, "power_rundown", about=cpu["cpu"], parked=parked, soft=False,
                       efficiency_class=cpu["efficiency_class"], mhz=3000)  # fmt: skip
        existing = list(self.threads.values())
        self._random.shuffle(existing)
        for place, thread in zip(self._cpus.values(), existing, strict=False):
            if not place.parked and thread.home is None and self._chance(0.5):
                thread.state = "running"
                place.running = thread.tid
                place.slice_ = Slice(thread.tid, place.cpu, 0, priority=thread.priority,
                                  left_censored=True)  # fmt: skip
                self._line(place.cpu, "running", tid=thread.tid)
                self._plan_leaving(place)
        for thread in existing:
            if thread.state == "waiting":
                self._at(self._below(3_000 * US), partial(self._wake, thread.tid))
        self._mark_edge()
        self._at(1_000 * US, self._create)
        self._at(700 * US, self._park)
        self._at(200 * US, self._change_frequency)

    def _mark_edge(self) -> None:
        """A record in both files that changes nothing: their first, and their last."""
        running = [place for place in self._cpus.values() if place.running]
        if running:
            self._line(running[0].cpu, "ready", tid=running[0].running, target=running[0].cpu)
        else:
            self._line(0, "idle", state=1)

    def _new(self, pid: int, name: str, priority: int, phase: str, cpu: int = 0) -> Thread:
        tid = 5000 + 4 * len(self.threads)
        thread = Thread(tid, pid, name, priority)
        self.threads[tid] = thread
        self._line(cpu, "thread", phase=phase, pid=pid, tid=tid, name=name,
                   base_priority=priority)  # fmt: skip
        return thread

    def _create(self) -> None:
        """A running thread creates another, which lives for a few bursts."""
        self._at(500 * US + self._below(1_500 * US), self._create)
        makers = [place for place in self._cpus.values() if place.running]
        if not makers:
            return
        maker = self._random.choice(makers)
        pid = self.threads[maker.running].pid
        thread = self._new(pid, f"task {len(self.threads)}", 8, "start", maker.cpu)
        thread.state, thread.since = "new", self._now
        thread.bursts_left = 1 + self._below(4)

        def begin() -> None:
            # Its creator makes it ready where that runs now.
            at = next((p for p in self._cpus.values() if p.running == maker_tid), maker)
            self._make_ready(thread, at.cpu, new=True)

        maker_tid = maker.running
        self._at(5 * US, begin)

    def _park(self) -> None:
        """Parks or unparks an idle E core."""
        self._at(300 * US + self._below(1_000 * US), self._park)
        small = [cpu["cpu"] for cpu in self.cpus if self._may_park(cpu)]
        free = [n for n in small if not self._cpus[n].running and not self._cpus[n].queue]
        if not free:
            return
        place = self._cpus[self._random.choice(free)]
        place.parked = not place.parked
        self.parkings.append((place.cpu, self._now, place.parked))
        fields: Line = {"soft": False} if place.parked else {}
        self._line(0, "park" if place.parked else "unpark", about=place.cpu, **fields)

    def _may_park(self, cpu: Line) -> bool:
        return bool(cpu["efficiency_class"] == 0 and cpu["cpu"] != self.crowded)

    def _change_frequency(self) -> None:
        self._at(100 * US + self._below(800 * US), self._change_frequency)
        cpu, mhz = self._random.choice(list(self._cpus)), 800 + 100 * self._below(40)
        if [khz for other, _, khz in self.frequencies if other == cpu][-1:] == [mhz * 1000]:
            return
        reported_by = self._random.choice(("perf_state", "delivered", "delivered_later"))
        self.frequencies.append((cpu, self._now, mhz * 1000))
        self._line(cpu, "frequency", about=cpu, mhz=mhz, reported_by=reported_by)

    def _forget_last_plans(self) -> None:
        """The last switch of a CPU went as planned: no later record could correct it."""
        last = {line["cpu"]: line for line in self.lines if line["event"] == "switch"}
        for line in last.values():
            line.pop("planned", None)

    def _interrupt(self) -> None:
        """Puts interrupts where a CPU writes nothing for a while."""
        for cpu in self._cpus:
            times = [line["ts"] for line in self.lines if line["cpu"] == cpu]
            for before, after in pairwise([*times, self.length_ns]):
                if after - before > 50 * US and self._chance(0.3):
                    begin = before + 10 * US + self._below(10) * US
                    end = begin + TICK * (1 + self._below(200))
                    kind = self._random.choice(("dpc", "timer_dpc", "isr"))
                    self.interrupts.append((cpu, begin, end, kind))
                    self.lines.append({"ts": end, "cpu": cpu, "event": "interrupt", "start": begin,
                                       "kind": kind, "routine": 0xFFFF_F800_0000_0010})  # fmt: skip

    def _runner(self, cpu: int) -> int | tuple[str, int]:
        return self._cpus[cpu].running or ("idle", cpu)

    def _wake(self, tid: int) -> None:
        thread = self.threads[tid]
        if thread.state == "waiting":
            self._make_ready(thread, self._random.choice(list(self._cpus)))

    def _make_ready(self, thread: Thread, by_cpu: int, new: bool = False) -> None:
        idle = [p for p in self._cpus.values() if self._is_free(p)]
        awake = [p for p in self._cpus.values() if not p.parked]
        target = self._random.choice(idle if idle and self._chance(0.8) else awake)
        if thread.home is not None:
            target = self._cpus[thread.home]
        last = thread.last_cpu if thread.last_cpu is not None else target.cpu
        self._line(by_cpu, "ready", tid=thread.tid, target=target.cpu if new else last, new=new,
                   in_dpc=not self._cpus[by_cpu].running)  # fmt: skip
        if not new and last != target.cpu:
            self._line(by_cpu, "migrate", tid=thread.tid, **{"from": last, "to": target.cpu})
        if thread.since is not None:
            thread.wait_ns = 0 if new else self._now - thread.since
        thread.state, thread.ready_at, thread.by_waking = "ready", self._now, True
        thread.waker = self._runner(by_cpu)
        self._send(thread, target)
        if self._chance(0.05):
            # Woken again: changes nothing.
            self._line(by_cpu, "ready", tid=thread.tid, target=target.cpu)

    def _is_free(self, place: Cpu) -> bool:
        return not place.running and not place.queue and not place.parked

    def _send(self, thread: Thread, target: Cpu) -> None:
        target.queue.append(thread.tid)
        if not target.running:
            self._at(1 * US + self._below(20 * US), lambda: self._dispatch(target))
        elif self._chance(0.4):
            self._at(1 * US, lambda: self._preempt(target, thread.tid))

    def _dispatch(self, place: Cpu) -> None:
        if not place.running and place.queue:
            self._line(place.cpu, "idle")
            self._switch(place, place.queue.popleft(), "blocked")

    def _preempt(self, place: Cpu, tid: int) -> None:
        if place.running and tid in place.queue:
            place.queue.remove(tid)
            place.queue.appendleft(tid)
            self._leave_runnable(place)

    def _plan_leaving(self, place: Cpu) -> None:
        token = place.token
        homed = self.threads[place.running].home is not None
        burst = self._random.choice((20, 100, 400, 3_000)) * US
        burst = 5 * US + self._below(30_000 * US if homed else burst)

        def still(happen: Callable[[Cpu], None]) -> Callable[[], None]:
            return lambda: happen(place) if place.token == token and place.running else None

        self._at(burst, still(self._block))
        self._at(QUANTUM, still(self._quantum_end))
        if self._chance(0.1):
            self._at(burst // 2, still(self._yield))
        # If another thread than planned runs, a wakeup of one that is believed ready means that a
        # record is lost: Windows readies only waiting threads.
        if self._chance(0.05) and not self.replanned:
            self._at(burst // 3, still(self._wake_early))
        if self._chance(0.03):
            self._at(burst // 4, still(self._move_away))

    def _wake_early(self, place: Cpu) -> None:
        """A wakeup precedes the wait: the wait ends as it begins."""
        by_cpu = self._random.choice(list(self._cpus))
        self.threads[place.running].early_waker = self._runner(by_cpu)
        self._line(by_cpu, "ready", tid=place.running, target=place.cpu)

    def _yield(self, place: Cpu) -> None:
        if place.queue:
            self._line(place.cpu, "yield")
            token = place.token
            self._at(1 * US, lambda: self._yielded(place, token))

    def _yielded(self, place: Cpu, token: int) -> None:
        if place.token == token and place.queue:
            self._leave_runnable(place, "yield")

    def _move_away(self, place: Cpu) -> None:
        """Leaves a CPU runnable that then idles, and continues on another."""
        others = [p for p in self._cpus.values() if self._is_free(p)]
        thread = self.threads[place.running]
        if place.queue or not others or thread.home is not None:
            return
        target = self._random.choice(others)
        self._switch(place, 0, "runnable_other")
        self._line(place.cpu, "migrate", tid=thread.tid,
                   **{"from": place.cpu, "to": target.cpu})  # fmt: skip
        self._send(thread, target)

    def _quantum_end(self, place: Cpu) -> None:
        if place.queue:
            self._leave_runnable(place)
        else:
            token = place.token
            self._at(QUANTUM, lambda: self._quantum_end(place) if place.token == token else None)

    def _leave_runnable(self, place: Cpu, why: str | None = None) -> None:
        """Gives the CPU to the first in the queue, for a reason that both systems would record."""
        new, old = self.threads[place.queue.popleft()], place.running
        assert place.slice_ is not None
        assert new.ready_at is not None
        begin = place.slice_.ts
        if why is None and new.by_waking and new.ready_at > begin:
            why = "preempted"
        elif why is None and new.ready_at <= begin and self._now - begin >= 900 * US:
            why = "quantum_end"
        place.queue.append(old)
        self._switch(place, new.tid, why or "runnable_other")

    def _block(self, place: Cpu) -> None:
        thread = self.threads[place.running]
        thread.bursts_left -= 1
        new = place.queue.popleft() if place.queue else 0
        if thread.bursts_left <= 0:
            self._line(place.cpu, "thread", phase="end", pid=thread.pid, tid=thread.tid,
                       name=thread.name, base_priority=thread.priority)  # fmt: skip
            self._switch(place, new, "exit")
            return
        early = thread.early_waker
        self._switch(place, new, "blocked")
        if early is None:
            self._at(10 * US + self._below(4_000 * US), lambda: self._wake(thread.tid))
            return
        thread.state, thread.ready_at, thread.by_waking = "ready", self._now, True
        thread.wait_ns, thread.waker = 0, early
        self._send(thread, place)

    # Writing and bookkeeping.

    def _switch(self, place: Cpu, new: int, leaves: str) -> None:
        old = place.running
        self._count(place)
        self._line(
            place.cpu, "switch", old=old, new=new, leaves=leaves,
            old_priority=self.threads[old].priority if old else 0,
            new_priority=self.threads[new].priority if new else 0,
            counters=[place.cycles, place.instructions], ideal=place.cpu,
            stack=[0xFFFF_F800_0000_1000 + new] if self._chance(0.2) else [],
        )  # fmt: skip
        if new and set(place.queue) - {old} and self._chance(self.replanned):
            self.lines[-1]["planned"] = self._random.choice([t for t in place.queue if t != old])
        if old:
            self._leaves(place, leaves)
        place.token += 1
        place.running, place.slice_, place.last_switch = new, None, self._now
        if new:
            self._enters(place, self.threads[new])
        else:
            self._line(place.cpu, "idle", state=1 + self._below(3))

    def _count(self, place: Cpu) -> None:
        dur = self._now - place.last_switch
        cycles, instructions = dur * 3 + self._below(50), dur + self._below(500)
        if place.token:
            self.counted.append(
                (place.cpu, place.running, place.last_switch, dur, cycles, instructions)
            )
        place.cycles += cycles
        place.instructions += instructions

    def _leaves(self, place: Cpu, leaves: str) -> None:
        thread, slice_ = self.threads[place.running], place.slice_
        assert slice_ is not None
        slice_.dur, slice_.end_reason = self._now - slice_.ts, leaves
        self.slices.append(slice_)
        thread.last_cpu, thread.since, thread.early_waker = place.cpu, self._now, None
        thread.state = {"blocked": "waiting", "exit": "gone"}.get(leaves, "ready")
        if thread.state == "ready":
            thread.ready_at, thread.by_waking = self._now, False
            thread.wait_ns, thread.waker = 0, None

    def _enters(self, place: Cpu, thread: Thread) -> None:
        assert thread.ready_at is not None
        place.slice_ = Slice(
            thread.tid, place.cpu, self._now, priority=thread.priority,
            ready_ns=self._now - thread.ready_at, wait_ns=thread.wait_ns, waker=thread.waker,
            prev_cpu=thread.last_cpu,
        )  # fmt: skip
        thread.state = "running"
        self._plan_leaving(place)

    def _end(self) -> None:
        self._now = self.length_ns
        for place in self._cpus.values():
            if place.slice_ is not None:
                place.slice_.dur, place.slice_.right_censored = self._now - place.slice_.ts, True
                self.slices.append(place.slice_)
        self._mark_edge()
        for thread in self.threads.values():
            if thread.state != "gone":
                self._line(0, "thread", phase="rundown_end", pid=thread.pid, tid=thread.tid,
                           name=thread.name, base_priority=thread.priority)  # fmt: skip
