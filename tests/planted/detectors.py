"""Which finding matches which truth, and how strongly a run shows it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from planted.background import Setup
from planted.frame_truth import short_share, worst_frame
from planted.order_truth import by_priority, pools
from planted.perturb import Spoilt
from planted.sibling_truth import tax
from planted.truth import Facts
from schedlens.ask.findings import Finding
from schedlens.simulate.scheduler import Simulation

Subject = int | str | tuple[str, int, str] | None
Strengths = dict[Subject, float]
"""How often a subject (a CPU, a thread, the machine) reaches its analyzer's threshold."""

# At or above SURE a subject must be found; a finding about a subject below CLEAN is false.
SURE = 1.3
CLEAN = 0.7
REFUSED: Subject = "refused"
"""The subject of a finding that reports it as undecided because of loss."""


@dataclass(frozen=True)
class Case:
    """A run to be judged: its setup, its truth, and the damage to its recording."""

    setup: Setup
    facts: Facts
    spoilt: Spoilt

    @property
    def simulation(self) -> Simulation:
        """What ran."""
        return self.facts.simulation


@dataclass(frozen=True)
class Detector:
    """A kind of finding of an analyzer; `truth` measures it from what happened."""

    name: str
    analyzer: str
    truth: Callable[[Case], Strengths]
    kind: str = ""
    """The kind of its findings; empty for all kinds of the analyzer."""
    detail: str = ""
    """A pattern that their details match, if not all of the kind count."""
    subject: Callable[[Finding, Simulation], Subject] = lambda finding, simulation: None
    """The subject of a finding, in the words of `truth`."""
    severities: tuple[str, ...] = ("critical", "warning")
    doubt: Callable[[Case], Strengths] = lambda case: {}
    """How much higher the strengths would be if everything undecided were true."""

    refusal: str = "$^"
    """A pattern for details of undecided findings."""

    def refuses(self, finding: Finding) -> bool:
        """Whether a finding of this kind reports that it cannot decide."""
        return re.search(self.refusal, finding.detail) is not None

    def finds(self, finding: Finding) -> bool:
        """Whether it is a finding of this kind."""
        return (
            finding.analyzer == self.analyzer
            and finding.severity in self.severities
            and self.kind in ("", finding.kind)
            and re.search(self.detail, finding.detail) is not None
        )


_ALL = ("critical", "warning", "info")


# The subject of a finding.

# How a stutter finding names where the time went: words and advice by part.
_PARTS: dict[str, tuple[str, str]] = vars(import_module("schedlens.analyzers.frame_time"))["_PARTS"]


def _cpu(finding: Finding, simulation: Simulation) -> Subject:
    return finding.cpu


def _core(finding: Finding, simulation: Simulation) -> Subject:
    return None if finding.cpu is None else simulation.machine.cpus[finding.cpu].core


def _thread(finding: Finding, simulation: Simulation) -> Subject:
    if finding.utid is None:
        return None
    number = finding.utid - (1 << 32) - len(simulation.machine.cpus)
    return simulation.threads[number].tid


def _said(pattern: str) -> Callable[[Finding, Simulation], Subject]:
    def subject(finding: Finding, simulation: Simulation) -> Subject:
        found = re.search(pattern, finding.detail)
        return found[1] if found else None

    return subject


def _number(pattern: str) -> Callable[[Finding, Simulation], Subject]:
    def subject(finding: Finding, simulation: Simulation) -> Subject:
        found = re.search(pattern, finding.detail)
        return int(found[1]) if found else None

    return subject


_frames_of = _said(r"[Ff]rames? of ([^\s;]+)")


def _attributed_to(finding: Finding, simulation: Simulation) -> Subject:
    """The process, the thread that is named, and the part of its time."""
    process, tid = _frames_of(finding, simulation), _thread(finding, simulation)
    said = (part for part, (words, _) in _PARTS.items() if f" {words}." in finding.detail)
    part = next(said, "")
    return (process, tid, part) if isinstance(process, str) and isinstance(tid, int) else None


# The truth.


def _of_window(sum_ns: Callable[[Facts], int], pct: float) -> Callable[[Case], Strengths]:
    def truth(case: Case) -> Strengths:
        return {None: 100 * sum_ns(case.facts) / case.facts.window_ns / pct}

    return truth


def _doubtful(pct: float) -> Callable[[Case], Strengths]:
    """Time in which a lost switch hides whether a thread ran or was ready."""

    def doubt(case: Case) -> Strengths:
        return {None: 100 * sum(case.spoilt.doubtful.values()) / case.facts.window_ns / pct}

    return doubt


def _doubtful_ready(case: Case) -> Strengths:
    first = (1 << 32) + len(case.simulation.machine.cpus)
    return {
        case.simulation.threads[utid - first].tid: ns / 4e6
        for utid, ns in case.spoilt.doubtful.items()
        if utid >= first
    }


def _chain(case: Case) -> Strengths:
    return {cpu: ns / 1e6 for cpu, ns in case.facts.chain_ns.items()}


def _slow(case: Case) -> Strengths:
    facts = case.facts
    return {
        tid: min(100 * facts.slow_ns[tid] / max(run, 1) / 20, 100 * run / facts.window_ns / 25)
        for tid, run in facts.run_ns.items()
    }


# The thresholds of thread_summary.
WAITED_NS, UNFAIR_PCT, OF_WINDOW_PCT = 4e6, 25.0, 1.0


def _long_ready(case: Case) -> Strengths:
    """4 ms at a time, and beyond its fair share 25 % of its own time and 1 % of the window."""
    facts = case.facts
    strengths: Strengths = {}
    for tid, longest in facts.longest_ready_ns.items():
        excess = facts.ready_ns[tid] - facts.fair_ready_ns[tid]
        active = max(facts.ready_ns[tid] + facts.run_ns[tid], 1)
        strengths[tid] = max(
            0.0,
            min(
                longest / WAITED_NS,
                100 * excess / active / UNFAIR_PCT,
                100 * excess / facts.window_ns / OF_WINDOW_PCT,
            ),
        )
    return strengths


def _visited(case: Case) -> Strengths:
    return {cpu: ns / 1e6 for cpu, ns in case.facts.visited_ns.items()}


def _overlap(case: Case) -> Strengths:
    return {None: 100 * case.facts.both_ns / max(case.facts.core_busy_ns, 1) / 10}


def _stutter(case: Case) -> Strengths:
    return {process: worst_frame(frames) for process, frames in case.facts.frames.of.items()}


def _cause(case: Case) -> Strengths:
    """2 for the thread with most of the part that grew most, less in proportion for others."""
    strengths: Strengths = {}
    for process, frames in case.facts.frames.of.items():
        worst = worst_frame(frames)
        grown = case.facts.frames.growth(process) if worst >= 1 else {}
        of_part: dict[str, list[float]] = defaultdict(list)
        for (_, part), ns in grown.items():
            of_part[part].append(ns)
        most = max((sum(shares) for shares in of_part.values()), default=0.0)
        if most <= 0:
            continue
        for (tid, part), ns in grown.items():
            own = max(0.0, ns) / max(*of_part[part], 1.0)
            strength = 2 * own * max(0.0, sum(of_part[part])) / most
            sure = worst >= SURE
            strengths[process, tid, part] = strength if sure else min(1.0, max(strength, CLEAN))
    return strengths


def _lost(case: Case) -> Strengths:
    # A switch lost without a signal looks like one that differed from the plan and is reported
    # so: it is neither required nor wrong.
    return {None: 2.0 if case.spoilt.lost_ns else float(case.spoilt.dropped > 0)}


def _serial(case: Case) -> Strengths:
    # A CPU that idles on after a gap has no further record: that nothing ran there is unknown.
    strength = 100 * case.facts.serial_ns / case.facts.window_ns / 50
    return {None: min(strength, 1.0) if case.spoilt.lost_ns or case.spoilt.dropped else strength}


def _parted(case: Case) -> Strengths:
    return {process: case.facts.frames.parting(process) for process in case.facts.frames.of}


def _chosen(case: Case) -> Strengths:
    facts, window = case.facts, case.facts.window_ns
    frames = facts.frames
    shares: dict[int, float] = {}
    for process, shown in frames.of.items():
        shares.update(frames.path_share(process))
        shares.update(dict.fromkeys({frame.tid for frame in shown}, float("inf")))
    return {
        tid: min(
            100 * ns / window,
            (shares.get(tid, 0.0) if frames.of else 100 * facts.run_ns[tid] / window) / 25,
        )
        for tid, ns in facts.order.e_beside_p_ns.items()
    }


def _paired(case: Case) -> Strengths:
    return {
        core: 100 * max(pairs.values()) / case.facts.window_ns
        for core, pairs in case.facts.order.paired_ns.items()
    }


def _inverted(case: Case) -> Strengths:
    ns = case.facts.order.inverted_ns
    return {None: min(100 * ns / case.facts.window_ns, ns / 1e6)}


def _starving(case: Case) -> Strengths:
    window = case.facts.window_ns
    return {
        priority: min(100 * run / window / 25, 100 * ready / max(run + ready, 1) / 40)
        for priority, (run, ready) in by_priority(case.simulation).items()
    }


def _carries(case: Case) -> Strengths:
    frames = case.facts.frames
    strengths: Strengths = {}
    for process, shown in frames.of.items():
        presenting = {frame.tid for frame in shown}
        for tid, share in frames.path_share(process).items():
            if tid not in presenting and share > 25 * CLEAN:
                strengths[tid] = min(share / 25, short_share(case.simulation, tid) / 50)
    return strengths


def _wide(case: Case) -> Strengths:
    least = max(3, len(case.simulation.machine.cpus) - 2)
    strengths: Strengths = {}
    for process, threads, share in pools(case.simulation):
        if threads >= least:
            strengths[process] = max(strengths.get(process, 0.0), share / 10)
    return strengths


def _taxed(case: Case) -> Strengths:
    # With this many intervals it must be computed, with fewer it must be refused.
    least = 30
    taxes = tax(case.simulation).values()
    window = case.facts.window_ns
    sure = sum(ns for ns, *counts in taxes if min(counts) >= SURE * least)
    possible = sum(ns for ns, *counts in taxes if min(counts) >= CLEAN * least)
    if 100 * sure / window >= SURE:
        return {None: 100 * sure / window}
    return {None: min(100 * possible / window, 1.0)}


def _held(case: Case) -> Strengths:
    window = case.facts.window_ns
    return {quota.cgroup: 100 * quota.held_ns / window for quota in case.setup.host.quotas}


def _stolen(case: Case) -> Strengths:
    return {cpu: pct / 0.1 for cpu, pct in case.setup.host.stolen().items()}


def _filled(case: Case) -> Strengths:
    """Frames with more CPUs busy than cores; near the line a frame counts half."""
    cores = len({cpu.core for cpu in case.simulation.machine.cpus})
    return _by_frames(case, 25, lambda busy, own: busy / cores)


def _one_by_one(case: Case) -> Strengths:
    # For frames that fill the cores too, that is reported instead.
    filled = _filled(case)
    return {
        process: min(1.0, strength) if filled[process] >= CLEAN else strength
        for process, strength in _by_frames(case, 50, lambda busy, own: 2 / max(own, 1e-9)).items()
    }


def _by_frames(case: Case, pct: float, level: Callable[[float, float], float]) -> Strengths:
    strengths: Strengths = {}
    for process in case.facts.frames.of:
        levels = [level(*pair) for pair in zip(*case.facts.frames.crowding(process), strict=True)]
        surely = 100 * sum(value >= 1.05 for value in levels) / len(levels) / pct
        perhaps = 100 * sum(value >= 0.95 for value in levels) / len(levels) / pct
        strengths[process] = surely if surely >= SURE else min(perhaps, 1.0)
    return strengths


DETECTORS = (
    Detector("quantum_end_chain", "quantum_end_chain", _chain, subject=_cpu),
    Detector(
        "ready_while_idle", "ready_obstacle", _of_window(lambda f: f.ready_idle_ns, 1.0),
        kind="ready_while_idle", doubt=_doubtful(1.0),
    ),
    Detector(
        "ready_while_parked", "ready_obstacle", _of_window(lambda f: f.ready_parked_ns, 1.0),
        kind="ready_while_parked", doubt=_doubtful(1.0),
    ),
    Detector(
        "avoidable_sharing", "avoidable_sharing", _of_window(lambda f: f.sharing_ns, 1.0),
        kind="shared_core",
    ),
    Detector(
        "sharing_by_affinity", "avoidable_sharing",
        _of_window(lambda f: f.bound_sharing_ns, 1.0), kind="shared_by_affinity",
    ),
    Detector("pinned_sibling", "pinned_sibling", _paired, subject=_core),
    Detector("on_e_cores", "core_type_residency", _slow, subject=_thread),
    Detector("core_choice", "core_choice", _chosen, subject=_thread),
    Detector(
        "all_busy", "concurrency", _of_window(lambda f: f.crowded_ns, 10.0),
        kind="all_cpus_busy",
    ),
    Detector(
        "one_busy", "concurrency", _serial,
        kind="one_cpu_busy", severities=("info",),
    ),
    Detector("wide_pool", "oversubscription", _wide, subject=_said(r"# of (\S+) ran ")),
    Detector(
        "long_ready", "thread_summary", _long_ready, subject=_thread, doubt=_doubtful_ready,
    ),
    Detector(
        "priority_inverted", "priority_order", _inverted, kind="higher_ready",
        doubt=_doubtful(1.0),
    ),
    Detector(
        "priority_on_e", "priority_order", _of_window(lambda f: f.order.above_on_e_ns, 10.0),
        kind="higher_on_e_cores", severities=_ALL,
    ),
    Detector(
        "priority_starved", "priority_order", _starving, kind="starved",
        subject=_number(r"at priority (\d+) ran"), severities=("info",),
    ),
    Detector("pinned_visitor", "pinned_cpu_visitor", _visited, subject=_cpu),
    Detector("sibling_overlap", "sibling_overlap", _overlap, severities=("info",)),
    Detector("smt_tax", "smt_tax", _taxed, severities=_ALL),
    Detector("stutter", "frame_time", _stutter, subject=_frames_of),
    Detector(
        "stutter_cause", "frame_time", _cause, detail=r"% of it ", subject=_attributed_to,
        refusal=r"(ready for an unknown reason|unknown state)\.",
    ),
    Detector("parking_frames", "parking", _parted, subject=_frames_of),
    Detector("short_run", "short_run", _carries, subject=_thread, severities=_ALL),
    Detector(
        "frames_fill_cores", "frame_concurrency", _filled, kind="more_cpus_than_cores",
        subject=_frames_of, severities=("info",),
    ),
    Detector(
        "frames_one_by_one", "frame_concurrency", _one_by_one, kind="one_thread_at_a_time",
        subject=_frames_of, severities=("info",),
    ),
    Detector(
        "throttled_cgroup", "throttled_cgroup", _held, subject=_said(r"cgroup (\S+) throttled"),
    ),
    Detector(
        "stolen_cpu", "steal", _stolen, subject=_number(r"took CPU (\d+) for"), severities=_ALL,
    ),
    Detector(
        "loss", "trace_quality", _lost, kind="loss",
        severities=_ALL,
    ),
)  # fmt: skip
