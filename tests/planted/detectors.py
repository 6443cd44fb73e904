"""Which finding stands for which truth, and how strongly a run shows it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from planted.perturb import Spoilt
from planted.truth import Facts
from schedlens.findings import Finding

Subject = int | str | None
Strengths = dict[Subject, float]
"""How often a subject (a CPU, a thread, the machine) reaches what its analyzer asks for."""


@dataclass(frozen=True)
class Detector:
    """A kind of finding of an analyzer; `truth` measures it from what happened."""

    name: str
    analyzer: str
    truth: Callable[[Facts, Spoilt], Strengths]
    title: str = ""
    """A pattern that its titles match."""
    subject: Callable[[Finding], Subject] = lambda finding: None
    """A CPU, a process, or the `utid` of a thread (its `tid` in `truth`)."""
    of_thread: bool = False
    severities: tuple[str, ...] = ("critical", "warning")

    def finds(self, finding: Finding) -> bool:
        """Whether it is a finding of this kind."""
        return (
            finding.analyzer == self.analyzer
            and finding.severity in self.severities
            and re.search(self.title, finding.title) is not None
        )


def _of_window(sum_ns: Callable[[Facts], int], pct: float) -> Callable[[Facts, Spoilt], Strengths]:
    def truth(facts: Facts, spoilt: Spoilt) -> Strengths:
        return {None: 100 * sum_ns(facts) / facts.window_ns / pct}

    return truth


def _chain(facts: Facts, spoilt: Spoilt) -> Strengths:
    return {cpu: ns / 1e6 for cpu, ns in facts.chain_ns.items()}


def _slow(facts: Facts, spoilt: Spoilt) -> Strengths:
    return {
        tid: min(100 * facts.slow_ns[tid] / max(run, 1) / 20, 100 * run / facts.window_ns / 25)
        for tid, run in facts.run_ns.items()
    }


def _long_ready(facts: Facts, spoilt: Spoilt) -> Strengths:
    return {tid: ns / 4e6 for tid, ns in facts.longest_ready_ns.items()}


def _visited(facts: Facts, spoilt: Spoilt) -> Strengths:
    return {cpu: ns / 1e6 for cpu, ns in facts.visited_ns.items()}


def _overlap(facts: Facts, spoilt: Spoilt) -> Strengths:
    return {None: 100 * facts.both_ns / max(facts.core_busy_ns, 1) / 10}


def _stutter(facts: Facts, spoilt: Spoilt) -> Strengths:
    return dict(facts.stutter.items())


def _lost(facts: Facts, spoilt: Spoilt) -> Strengths:
    # A switch that is lost unsignalled looks as one that came otherwise than planned, and is told
    # as such: it is neither asked for nor wrong.
    return {None: 2.0 if spoilt.lost_ns else float(spoilt.dropped > 0)}


def _process(finding: Finding) -> Subject:
    found = re.search(r"frames? of (\S+)", finding.title)
    return found[1] if found else None


def _serial(facts: Facts, spoilt: Spoilt) -> Strengths:
    # A CPU that idles on after a gap has no further record: that nothing ran there is not known.
    strength = 100 * facts.serial_ns / facts.window_ns / 50
    return {None: min(strength, 1.0) if spoilt.lost_ns or spoilt.dropped else strength}


DETECTORS = (
    Detector("quantum_end_chain", "quantum_end_chain", _chain, subject=lambda f: f.cpu),
    Detector(
        "ready_while_idle", "ready_obstacle", _of_window(lambda f: f.ready_idle_ns, 1.0),
        title="they may use was idle",
    ),
    Detector(
        "ready_while_parked", "ready_obstacle", _of_window(lambda f: f.ready_parked_ns, 1.0),
        title="they may use was parked",
    ),
    Detector(
        "avoidable_sharing", "avoidable_sharing", _of_window(lambda f: f.sharing_ns, 1.0),
        title="^Threads shared",
    ),
    Detector(
        "sharing_by_affinity", "avoidable_sharing",
        _of_window(lambda f: f.bound_sharing_ns, 1.0), title="^The affinity kept",
    ),
    Detector("on_e_cores", "core_type_residency", _slow, subject=lambda f: f.utid, of_thread=True),
    Detector("all_busy", "concurrency", _of_window(lambda f: f.crowded_ns, 10.0)),
    Detector(
        "one_busy", "concurrency", _serial,
        title="^Exactly one", severities=("info",),
    ),
    Detector("long_ready", "thread_summary", _long_ready, subject=lambda f: f.utid, of_thread=True),
    Detector("pinned_visitor", "pinned_cpu_visitor", _visited, subject=lambda f: f.cpu),
    Detector("sibling_overlap", "sibling_overlap", _overlap, severities=("info",)),
    Detector("stutter", "frame_time", _stutter, subject=_process),
    Detector(
        "loss", "trace_quality", _lost, title="gaps? in the window| lost|CPU time unknown",
        severities=("critical", "warning", "info"),
    ),
)  # fmt: skip
