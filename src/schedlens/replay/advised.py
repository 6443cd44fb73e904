"""The changes that findings advise, as far as a replay can try them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlens.replay.alterations import FAIR, NICE_0, Change, parse
from schedlens.replay.ops import Program
from schedlens.replay.prediction import Baseline
from schedlens.replay.recorded_programs import Recorded

if TYPE_CHECKING:
    import duckdb

_AFFINITY = {
    "serialized", "ready_while_parked", "ready_while_idle", "stutter", "long_ready",
    "not_allowed_on_p_cores",
}  # fmt: skip
_PARKING = {"ready_while_parked", "longer_frames"}
_PRIORITY = {
    "worker_on_path", "stutter", "long_ready", "on_e_core_while_p_idle", "on_e_cores",
}  # fmt: skip
_BACKGROUND = {"higher_on_e_cores", "higher_ready", "all_cpus_busy", "more_cpus_than_cores"}
QUOTA = {"quota"}
_SIBLINGS = {"busy_siblings", "shared_core", "more_cpus_than_cores"}

KINDS = _AFFINITY | _PARKING | _PRIORITY | _BACKGROUND | QUOTA | _SIBLINGS


def changes(con: duckdb.DuckDBPyConnection, base: Baseline) -> list[Change]:
    """One change for each kind of advice, in the order of the findings. A change that would do
    nothing in this recording is left out."""
    texts: list[str] = []
    recorded = base.recorded[0]
    for kind, utid in con.execute(
        "SELECT kind, utid FROM finding WHERE trace_id = ? ORDER BY finding_id",
        [recorded.trace_id],
    ).fetchall():
        texts += texts_of(recorded, base.presenter, kind, utid)
    return [parse(text) for text in dict.fromkeys(texts)]


def texts_of(recorded: Recorded, main: int, kind: str, utid: int | None) -> list[str]:
    """The changes that a finding of this kind advises, about this thread. `main`: the thread that
    presents, or that ran longest of the process whose work counts."""
    presenter = recorded.programs[main]
    every = len(recorded.machine.numbers)
    texts: list[str] = []
    thread = recorded.programs.get(utid) if utid is not None else None
    if thread is not None and _nameable(thread):
        narrow = thread.affinity_known and len(thread.affinity) < every and not thread.bound
        if kind in _AFFINITY and narrow:
            texts.append(f"affinity {_named(thread)}=any")
        if recorded.linux is not None:
            if kind in _PRIORITY and thread.priority > presenter.priority >= FAIR:
                texts.append(f"nice {_named(thread)}={presenter.priority - NICE_0}")
        elif kind in _PRIORITY and thread.priority < presenter.priority:
            texts.append(f"priority {_named(thread)}={presenter.priority}")
    if kind in _PARKING and any(parked for _, _, parked, _ in recorded.parking):
        texts.append("parking=off")
    if kind in _BACKGROUND and recorded.linux is None:
        texts += _background(recorded, presenter)
    if kind in QUOTA:
        texts += _quotas(recorded)
    if kind in _SIBLINGS and recorded.machine.shared is not None:
        texts.append("smt=off")
    return texts


def _quotas(recorded: Recorded) -> list[str]:
    """Without the quota of each cgroup that has one."""
    groups = recorded.linux.groups if recorded.linux else []
    names = [group.name for group in groups if group.quota_ns is not None]
    names += [limit.name for limit in recorded.limits]
    return [f"quota {name}=none" for name in names if not set("*?[]=") & set(name)]


def _background(recorded: Recorded, presenter: Program) -> list[str]:
    """EcoQoS for the other process that runs longest, on a machine with E cores."""
    if "E" not in recorded.machine.types:
        return []
    own = presenter.process
    spent: dict[str, int] = {}
    for program in recorded.programs.values():
        if program.process and program.process != own and not program.eco:
            ran = sum(program.running_ns.values())
            spent[program.process] = spent.get(program.process, 0) + ran
    if not spent:
        return []
    name = max(spent, key=lambda each: spent[each])
    return [] if set("*?[]=") & set(name) else [f"qos {name}/*=eco"]


def _nameable(thread: Program) -> bool:
    return not set("*?[]=") & set(thread.name + thread.process)


def _named(thread: Program) -> str:
    return f"{thread.process}/{thread.name}" if thread.process else thread.name
