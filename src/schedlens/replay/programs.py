"""Each recorded thread as a program: work, wakeups at points of it, and what ends each wait."""

from __future__ import annotations

import itertools
import statistics
import sys
from bisect import bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from schedlens.replay import (
    core_speeds,
    cpu_limits,
    frequencies,
    joins,
    linux_rules,
    pacing,
    pools,
    recorded_threads,
    sharing,
    spins,
    starving,
    stranding,
    windows_rules,
    work,
)
from schedlens.replay.ops import Op, Program
from schedlens.replay.recorded_programs import Recorded
from schedlens.replay.work import Watched

if TYPE_CHECKING:
    import duckdb

# The scheduler charges this much work for a signal and for a Present; the recorded work has it.
CHARGED_NS = 500
# A wait that ends this soon after its Present returned is the wait of the Present.
LATE_NS = 100_000
# Times are on a grid if they differ from it by so much less than the delays differ.
CLEARLY = 0.5
# Periods and delays that differ by less than this share are equal.
STEADY = 0.005
DISPLAY_RATES = (30, 60, 72, 75, 90, 100, 120, 144, 165, 240, 360)
# A replay ends after this many times the length of the recording.
LONGEST = 3
ROWS_AT_ONCE = 20_000
# Steps that are added to the loops of a process, so that they go on.
MOST_ADDED = 300_000
# Of the time before another thread ends a spin: how much is work, by the end of the range.
HEADS = {"low": 0.0, "high": 1.0}


def read(
    con: duckdb.DuckDBPyConnection,
    trace_id: int,
    *,
    end: str = "middle",
    watched: Watched | None = None,
) -> Recorded:
    """The programs of a recording; `end`: of the speeds that are assumed, see `core_speeds.ENDS`.

    `watched`: the process whose work and responses count. Its threads, and all others, that can
    still run at the end of the recording then have more to do.
    """
    return _Reader(con, trace_id, end, watched).recorded


class _Reader:
    def __init__(
        self, con: duckdb.DuckDBPyConnection, trace_id: int, end: str, watched: Watched | None
    ) -> None:
        self.con, self.trace_id, self.watched = con, trace_id, watched
        self.machine = core_speeds.read(con, trace_id, end=end)
        self.place = {number: index for index, number in enumerate(self.machine.numbers)}
        self.waits: dict[str, int] = defaultdict(int)
        self.needed: dict[int, int] = {}
        label, duration, is_windows = self._rows(
            "SELECT label, duration_ns, is_windows_source(source) FROM trace"
        )[0]
        self.duration_ns, self.is_windows = duration, is_windows
        self.done: list[tuple[int, int, float, int]] = []
        self.programs = recorded_threads.read(con, trace_id, self.machine, self.is_windows)
        self.states = self._states()
        # When each Present returned, by thread and time of the call.
        self.returns: dict[tuple[int, int], int] = {}
        self.frames, self.presents, self.has_gpu = self._frames()
        # What each thread does at points of its own work: (time, kind, value).
        self.acts: dict[int, list[tuple[int, str, float]]] = defaultdict(list)
        self._wakeups()
        for utid, found in self.presents.items():
            self.acts[utid] += found
        self._limits()
        self._spins(HEADS.get(end, 0.5))
        parking = windows_rules.parking(con, trace_id, self.place)
        cpus = stranding.Cpus(self.machine, parking)
        for program in self.programs.values():
            self._program(program)
            if self.is_windows:
                states = self.states.get(program.utid, ())
                recorded_threads.infer_eco(program, states, self.machine, cpus)
        starved = self._starving(end)
        quantum_ns = windows_rules.quantum_ns(con, trace_id)
        self.recorded = Recorded(
            trace_id,
            label,
            duration,
            self.machine,
            {utid: found for utid, found in self.programs.items() if found.ops},
            self.frames,
            parking,
            quantum_ns or windows_rules.DEFAULT_QUANTUM_NS,
            windows_rules.wake_boost(con, trace_id, self.programs),
            self.has_gpu,
            self.needed,
            pools.shared_out(self.programs, self.needed, self.tails),
            self._rows("SELECT count(*) FROM context_switch")[0][0],
            dict(self.waits),
            None if is_windows else linux_rules.read(con, trace_id, len(self.place)),
            watched and Watched(watched.process, watched.utids | starved),
            self._goal(),
            self.limits,
            sharing.moves_running(
                con,
                trace_id,
                self.machine,
                self.programs,
                {cpu for _, cpu, parked, _ in parking if parked},
                quantum_ns,
            ),
            starved,
            stranding.share(self.programs, self.states, self.place, cpus)
            if self.is_windows
            else 0.0,
            frequencies.while_busy(con, trace_id, self.machine),
        )

    def _goal(self) -> work.Goal | None:
        if self.watched is None:
            return None
        answered = {
            utid: work.responses(
                (state[:3] for state in self.states.get(utid, ())), self.duration_ns
            )
            for utid in sorted(self.watched.utids)
        }
        return work.goal(self.done, answered)

    def _rows(self, select: str, order: str = "", where: str = "") -> list[Any]:
        text = f"{select} WHERE trace_id = ?{where}" + (f" ORDER BY {order}" if order else "")
        return self.con.execute(text, [self.trace_id]).fetchall()

    def _states(self) -> dict[int, list[Any]]:
        """Start, end, state, CPU and reason of each state of each thread, in order."""
        found: dict[int, list[Any]] = defaultdict(list)
        cursor = self.con.execute(
            "SELECT utid, ts, ts + dur, state, cpu, reason FROM thread_state WHERE trace_id = ? "
            "ORDER BY utid, ts",
            [self.trace_id],
        )
        # A few thousand rows at a time, and each word once: a recording has millions.
        while rows := cursor.fetchmany(ROWS_AT_ONCE):
            for utid, start, end, state, cpu, reason in rows:
                if utid in self.programs:
                    word = reason and sys.intern(reason)
                    found[utid].append((start, end, sys.intern(state), cpu, word))
        return found

    def _frames(
        self,
    ) -> tuple[dict[int, list[int]], dict[int, list[tuple[int, str, float]]], bool]:
        lengths: dict[int, list[int]] = defaultdict(list)
        presents: dict[int, list[tuple[int, str, float]]] = defaultdict(list)
        found = self._rows(
            "SELECT utid, start_ns, dur_ns, cpu_busy_ns, gpu_busy_ns FROM frame",
            "utid, start_ns",
            " AND utid IS NOT NULL AND dur_ns IS NOT NULL",
        )
        has_gpu = bool(found) and all(row[3] is not None and row[4] is not None for row in found)
        for utid, start, dur, cpu_ns, gpu_ns in found:
            if utid not in self.programs:
                continue
            lengths[utid].append(dur)
            if has_gpu:
                presents[utid].append((start + cpu_ns, "present", float(gpu_ns)))
                self.returns[utid, start + cpu_ns] = start + dur
            else:
                presents[utid].append((start + dur, "mark", 0.0))
        return dict(lengths), presents, has_gpu

    # What ends each wait.

    def _wakeups(self) -> None:
        by_end: dict[tuple[int, int], tuple[int | None, bool]] = {}
        for utid, ts, waker, in_interrupt in self._rows(
            "SELECT utid, ts, waker_utid, in_interrupt FROM wakeup",
            "ts, cpu, seq",
            " AND effective AND utid IS NOT NULL",
        ):
            by_end[utid, ts] = (waker, bool(in_interrupt))
        self.by_end = by_end
        # The waits of each thread.
        self.blocked = {
            utid: [(start, end) for start, end, state, *_ in states if state in {"waiting", "new"}]
            for utid, states in self.states.items()
        }
        self.pools = joins.Pools(self.programs, self.blocked, by_end)
        # How long before the end of a section each worker but the last ran out of jobs.
        self.tails: list[int] = []
        self.gate_of: dict[tuple[int, int], int] = {}
        self.closing: dict[tuple[int, int], list[int]] = defaultdict(list)
        gate = 0
        for utid, found in sorted(self.blocked.items()):
            before = -1
            for _, end in found:
                waker, in_interrupt = by_end.get((utid, end), (None, True))
                if waker in self.programs and not in_interrupt and self._runs(waker, end):
                    gate += 1
                    self.gate_of[utid, end] = gate
                    self.acts[waker].append((end, "open", gate))
                    self.needed[gate] = 1 + self._join(utid, waker, before, end, gate)
                before = end

    def _limits(self) -> None:
        """Quotas, and the waits in which one stopped a thread: a replay stops it by itself."""
        self.limits: list[cpu_limits.CpuLimit] = []
        # Thread and end of each of these waits.
        self.stops: set[tuple[int, int]] = set()
        if not self.is_windows:
            return
        for limit in cpu_limits.read(self.con, self.trace_id):
            seen = {
                utid: cpu_limits.seen(
                    self.states[utid],
                    {end for _, end in self.blocked.get(utid, ()) if (utid, end) in self.gate_of},
                )
                for utid in limit.members
                if utid in self.states
            }
            enforced, caused = cpu_limits.stopped(limit, seen, self.duration_ns)
            self.limits.append(enforced)
            self.stops |= caused

    def _runs(self, utid: int, ts: int) -> bool:
        states = self.states[utid]
        place = bisect_right(states, ts, key=lambda state: int(state[0])) - 1
        while place >= 0 and states[place][1] >= ts:
            if states[place][2] == "running":
                return True
            place -= 1
        return False

    def _join(self, utid: int, waker: int, before: int, end: int, gate: int) -> int:
        """Number of the waker's mates that the thread waited for as well."""
        joined = self.pools.joined(utid, waker, before, end)
        for mate, start in joined:
            self.closing[mate, start].append(gate)
            self.tails.append(end - start)
        return len(joined)

    def _spins(self, head: float) -> None:
        """What each spin waits for opens a gate just before it happens."""
        gate = max(self.needed, default=0)
        known = spins.found(
            self.programs, self.acts, self.blocked, self.pools.of, self.duration_ns, head
        )
        for spin in known:
            gate += 1
            self.needed[gate] = 1
            self.acts[spin.by].append((spin.end_ns - spins.BEFORE_NS, "open", gate))
            self.acts[spin.utid] += [
                (round(spin.start_ns), "spin_begins", 0.0),
                (spin.end_ns, "spin", gate),
            ]

    # Programs.

    def _program(self, program: Program) -> None:
        acts = sorted(self.acts.get(program.utid, ()), key=lambda act: act[0])
        ops, pending, charged, place = program.ops, 0.0, 0.0, 0
        is_watched = self.watched is not None and program.utid in self.watched.utids
        kinds = self.machine.machine.cpus
        presented: int | None = None
        spins_now = False
        absolute = self._is_absolute(program.utid)

        def flush() -> None:
            nonlocal pending, charged
            paid = min(pending, charged)
            pending, charged = pending - paid, charged - paid
            if pending >= 100:
                ops.append(Op("run", pending))
                pending = 0.0

        def act(until: int) -> None:
            nonlocal place, charged, presented, spins_now
            while place < len(acts) and acts[place][0] <= until:
                ts, kind, value = acts[place]
                flush()
                if kind == "open":
                    gates = [int(value)]
                    while place + 1 < len(acts) and acts[place + 1][:2] == (ts, "open"):
                        place += 1
                        gates.append(int(acts[place][2]))
                    ops.append(Op("open", 0.0, tuple(gates)))
                    charged += CHARGED_NS
                elif kind in {"spin_begins", "spin"}:
                    spins_now = kind == "spin_begins"
                    if not spins_now:
                        ops.append(Op("spin", 0.0, (int(value),)))
                else:
                    ops.append(Op(kind, value))
                    if kind == "present":
                        charged, presented = charged + CHARGED_NS, ts
                place += 1

        states = self.states.get(program.utid, ())
        if states and states[0][0] > 0 and (program.utid, states[0][1]) not in self.gate_of:
            # It began later.
            ops.append(Op("until", states[0][0]))
        for start, end, state, cpu, reason in states:
            if state == "running" and cpu in self.place:
                index = self.place[cpu]
                program.running_ns[kinds[index].core_type] += end - start
                at, done = start, 0.0
                while at < end:
                    ts = min(max(acts[place][0], at), end) if place < len(acts) else end
                    ns = 0.0 if spins_now else self.machine.work_ns(index, at, ts)
                    pending, done = pending + ns, done + ns
                    if ts < end:
                        act(ts)
                    at = ts
                if is_watched:
                    self.done.append((start, end, done, program.utid))
            elif state == "ready":
                program.ready_ns += end - start
            elif state in {"waiting", "new"}:
                program.waiting_ns += end - start
                act(start)
                flush()
                closing = self.closing.get((program.utid, start))
                if closing:
                    ops.append(Op("open", 0.0, tuple(closing)))
                    charged += CHARGED_NS
                if (
                    presented is not None
                    and start - presented <= CHARGED_NS
                    and end <= self.returns[program.utid, presented] + LATE_NS
                ):
                    # The simulated Present waits by itself.
                    presented = None
                    self.waits["frame"] += 1
                    continue
                presented = None
                self._wait(program, start, end, reason, absolute)
            elif state == "unknown":
                program.unknown_ns += end - start
                act(end)
                flush()
                ops.append(Op("gap", end - start))
        act(1 << 62)
        goes_on = self.watched is not None and self._goes_on(program.utid)
        is_loop = is_watched and pacing.is_loop(ops) and self._lives_on(program.utid)
        if goes_on and not is_loop:
            pending += LONGEST * self.duration_ns
        flush()
        if absolute:
            program.ops = pacing.completed(ops)
        if is_loop:
            most = MOST_ADDED // len(self.watched.utids if self.watched else ())
            program.ops = pacing.continued(program.ops, self.duration_ns, LONGEST, most)

    def _starving(self, end: str) -> frozenset[int]:
        """Watched threads that starve; they do nothing at the low end of the range."""
        if self.watched is None:
            return frozenset()
        upids = {self.programs[utid].upid for utid in self.watched.utids if utid in self.programs}
        members = {utid for utid, program in self.programs.items() if program.upid in upids}
        starved = starving.found(self.con, self.trace_id, members, self.duration_ns)
        starving.fed(self.programs, starved, idle=end == "low")
        return starved

    def _goes_on(self, utid: int) -> bool:
        """Whether a thread can still run at the end of the recording."""
        return self._lives_on(utid) and self.states[utid][-1][2] in {"running", "ready"}

    def _lives_on(self, utid: int) -> bool:
        """Whether a thread has not ended before the recording does."""
        states = self.states.get(utid)
        return bool(states and states[-1][1] >= self.duration_ns - LATE_NS)

    def _is_timer(self, utid: int, end: int, reason: str | None) -> bool:
        """Whether a wait may have ended with a time. Linux does not record which interrupts are the
        timer's."""
        if self.is_windows:
            return reason == "DelayExecution"
        return reason == "S" and self.by_end.get((utid, end), (None, False))[1]

    def _wait(
        self, program: Program, start: int, end: int, reason: str | None, absolute: bool
    ) -> None:
        ops = program.ops
        if (program.utid, end) in self.stops:
            self.waits["quota"] += 1
            return
        gate = self.gate_of.get((program.utid, end))
        if gate is not None:
            self.waits["pool" if self.needed[gate] > 1 else "thread"] += 1
            ops.append(Op("wait", 0.0, (gate,)))
            return
        known = (program.utid, end) in self.by_end
        timer = self._is_timer(program.utid, end, reason)
        self.waits["timer" if timer else "device" if known else "unknown"] += 1
        ops.append(Op("until", end) if timer and absolute else Op("sleep", end - start))

    def _is_absolute(self, utid: int) -> bool:
        """Whether the timer of a thread has a grid of its own rather than a fixed delay."""
        found = [
            (start, end)
            for start, end, state, _, reason in self.states.get(utid, ())
            if state == "waiting"
            and self._is_timer(utid, end, reason)
            and (utid, end) not in self.stops
        ]
        if len(found) < 4:
            # Few waits show no grid; that of a thread which presents is likely.
            return utid in self.frames
        delays = [end - start for start, end in found]
        gaps = [after - before for (_, before), (_, after) in itertools.pairwise(found)]
        period = statistics.median(gaps)
        off = statistics.median(min(gap % period, period - gap % period) for gap in gaps)
        middle = statistics.median(delays)
        spread = statistics.median(abs(delay - middle) for delay in delays)
        if utid in self.frames and max(off, spread) < STEADY * period:
            # Work and delay are the same in each frame: at the rate of a display it is a grid.
            return any(abs(period * rate / 1e9 - 1) < STEADY for rate in DISPLAY_RATES)
        return bool(off < CLEARLY * spread)
