"""A simulated schedule as a script for the recording writer (`tests/writer/README.md`), and its
frames as a PresentMon file."""

from __future__ import annotations

from typing import Any

from schedlens.simulate import codes, emitted
from schedlens.simulate.scheduler import Simulation

Line = dict[str, Any]

_LEAVES = {
    codes.WR_QUANTUM_END: "quantum_end",
    codes.WR_PREEMPTED: "preempted",
    codes.WR_YIELD_EXECUTION: "yield",
}


def head(simulation: Simulation, **layouts: Line) -> Line:
    """The first line: the machine; `etl` and `perf` are the layouts of the files."""
    cores = sorted({cpu.core for cpu in simulation.machine.cpus})
    cpus = [
        {
            "cpu": cpu.cpu,
            "core": cores.index(cpu.core),
            "efficiency_class": cpu.efficiency_class,
            "pmu": "cpu_atom" if cpu.core_type == "E" else "cpu_core",
            "l2": cpu.l2,
            "l3": 0,
        }
        for cpu in simulation.machine.cpus
    ]
    name = f"simulated {simulation.machine.name}"
    return {"machine": {"cpus": cpus, "cpu_model": name}, **layouts}


def lines(simulation: Simulation) -> list[Line]:
    """All events by time, for a simulation that has run."""
    events = _Events(simulation)
    for record in simulation.records:
        events.add(record)
    events.end()
    return sorted(events.lines, key=lambda line: int(line["ts"]))


def presentmon(simulation: Simulation, start_clock: int, tick_ns: int = 100) -> str:
    """The frames as PresentMon 2 writes them with raw QPC; times in ms with four digits."""
    owners = {thread.tid: thread.process for thread in simulation.threads}
    names = (
        "Application,ProcessID,SwapChainAddress,CPUStartQPC,FrameTime,CPUBusy,GPUBusy,"
        "DisplayLatency,DisplayedTime"
    )
    lines = [names]
    for frame in simulation.truth.frames:
        owner = owners[frame.tid]
        lengths = (
            frame.end - frame.start,
            frame.present - frame.start,
            frame.gpu_end - frame.gpu_start,
            frame.displayed - frame.start,
            simulation.rules.vsync_ns,
        )
        qpc = start_clock + frame.start // tick_ns
        in_ms = ",".join(f"{length / 1e6:.4f}" for length in lengths)
        lines.append(f"{owner.name},{owner.pid},0x{owner.pid:X},{qpc},{in_ms}")
    return "\n".join(lines) + "\n"


class _Events:
    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.threads = {thread.tid: thread for thread in simulation.threads}
        self.lines: list[Line] = []
        self.fresh: set[int] = set()
        self.last_cpu: dict[int, int] = {}
        for process in simulation.processes:
            self._line(
                0, 0, "process", phase="rundown_start", pid=process.pid, parent=4,
                name=process.name, command_line=process.name,
            )  # fmt: skip
        self._line(0, 0, "counters", names=["TotalCycles", "InstructionRetired"])
        for thread in simulation.threads:
            if thread.start_ns == 0:
                self._thread(0, 0, thread.tid, "rundown_start")
        for cpu in simulation.machine.cpus:
            self._line(
                0, 0, "power_rundown", about=cpu.cpu, parked=False, soft=False,
                efficiency_class=cpu.efficiency_class, mhz=cpu.khz // 1000,
            )  # fmt: skip

    def _line(self, ts: int, cpu: int, event: str, **fields: Any) -> None:
        self.lines.append({"ts": ts, "cpu": cpu, "event": event, **fields})

    def _thread(self, ts: int, cpu: int, tid: int, phase: str) -> None:
        thread = self.threads[tid]
        self._line(
            ts, cpu, "thread", phase=phase, pid=thread.process.pid, tid=tid, name=thread.name,
            base_priority=thread.base_priority,
            affinity=sum(1 << allowed for allowed in thread.affinity),
        )  # fmt: skip

    def add(self, record: emitted.Record) -> None:
        """Writes one record of the simulation."""
        ts, cpu = record.ts, record.cpu
        if isinstance(record, emitted.Switch):
            self._switch(record)
        elif isinstance(record, emitted.Ready):
            new = record.tid in self.fresh
            self.fresh.discard(record.tid)
            self._line(
                ts, cpu, "ready", tid=record.tid, new=new, in_dpc=record.in_interrupt,
                target=self.last_cpu.get(record.tid, cpu),
            )  # fmt: skip
        elif isinstance(record, emitted.ThreadStart):
            if self.threads[record.tid].start_ns:
                self._thread(ts, cpu, record.tid, "start")
                self.fresh.add(record.tid)
        elif isinstance(record, emitted.ThreadEnd):
            self._thread(ts, cpu, record.tid, "end")
        elif isinstance(record, emitted.Park):
            extra = {"soft": record.soft} if record.parked else {}
            self._line(ts, 0, "park" if record.parked else "unpark", about=cpu, **extra)
        elif isinstance(record, emitted.Interrupt):
            if ts + record.dur <= self.simulation.now:
                self._line(ts + record.dur, cpu, "interrupt", start=ts, kind=record.kind)
        elif isinstance(record, emitted.PriorityChange):
            self._line(ts, cpu, "priority", tid=record.tid, old=record.old, new=record.new)
        else:
            pid = self.threads[record.tid].process.pid
            self._line(ts, cpu, "present", pid=pid, tid=record.tid, swap_chain=pid)

    def _switch(self, record: emitted.Switch) -> None:
        if record.prev_state == codes.TERMINATED:
            leaves = "exit"
        elif record.prev_state == codes.WAITING or record.prev == emitted.IDLE:
            leaves = "blocked"
        else:
            leaves = _LEAVES.get(record.wait_reason, "runnable_other")
        extra = {} if record.planned == record.entered else {"planned": record.planned}
        if record.prev != emitted.IDLE:
            self.last_cpu[record.prev] = record.cpu
            if record.prev_state != codes.READY:
                extra["reason"] = record.wait_reason
        self._line(
            record.ts, record.cpu, "switch", old=record.prev, new=record.entered, leaves=leaves,
            old_priority=record.prev_priority, new_priority=record.next_priority,
            ideal=record.prev_ideal or 0, counters=[record.cycles, record.instructions], **extra,
        )  # fmt: skip

    def end(self) -> None:
        """A last record that changes nothing, so that the recording ends with the simulation."""
        self._line(self.simulation.now, 0, "frequency", about=0,
                   mhz=self.simulation.machine.cpus[0].khz // 1000)  # fmt: skip
