"""A change as an instruction: which setting of which thread gets which value, by which API."""

from __future__ import annotations

from schedlens.machine import cpu_list, interrupt_thread
from schedlens.output.wording import count, thread_name
from schedlens.replay.alterations import Change, fitting, parse
from schedlens.replay.recorded_programs import Recorded


def instruction(recorded: Recorded, texts: list[str]) -> str:
    """A sentence for changes that `advised` yields, in the terms of the recorded system."""
    parts = [_one(recorded, parse(text)) for text in texts]
    return f"In this recording: {'; '.join(parts)}."


def _one(recorded: Recorded, change: Change) -> str:
    is_linux = recorded.linux is not None
    match change.kind:
        case "parking":
            return "powercfg /setacvalueindex SCHEME_CURRENT SUB_PROCESSOR CPMINCORES 100"
        case "smt" if is_linux:
            return "write off to /sys/devices/system/cpu/smt/control to try it without siblings"
        case "smt":
            return "switch SMT off in the firmware to try it without siblings"
        case "quota":
            return f"write max to cpu.max of the cgroup {change.pattern}"
        case "qos":
            process = change.pattern.removesuffix("/*")
            return f"EcoQoS for {process} (SetProcessInformation, ProcessPowerThrottling)"
        case _:
            return _for_threads(recorded, change)


def _for_threads(recorded: Recorded, change: Change) -> str:
    (thread, *others) = fitting(recorded, change)
    who = thread_name(thread.name, thread.tid, thread.process)
    if others:
        who += f" and {count(len(others), 'thread')} of that name"
    if change.kind == "affinity":
        cpus = cpu_list.text(recorded.machine.numbers)
        if recorded.linux is not None:
            file = interrupt_thread.affinity_file(thread.name)
            if file is not None:
                return f"write {cpus} to {file}, for {who}"
            return f"taskset -p -c {cpus} {thread.tid}, for {who}"
        return f"SetThreadAffinityMask for {who}: CPUs {cpus}"
    if change.kind == "nice":
        return f"renice -n {change.value} -p {thread.tid}, for {who}"
    return f"SetThreadPriority for {who}: base priority {change.value} instead of {thread.priority}"
