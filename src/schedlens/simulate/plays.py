"""What `schedlens demo` can show: the recordings of each case, and what to ask about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from schedlens.simulate import cases, services
from schedlens.simulate.scheduler import Simulation

S = 1_000_000_000


@dataclass(frozen=True)
class Demo:
    """Recordings by name, each with what simulates it from a seed.

    `process` is the program that the analysis is about, `texts` say what differs between the
    recordings, and `asks` are queries that show it.
    """

    process: str
    plays: tuple[tuple[str, Callable[[int], Simulation]], ...]
    texts: tuple[str, ...]
    asks: tuple[str, ...] = ()


def _ran(build: Callable[[int], Simulation], seconds: float) -> Callable[[int], Simulation]:
    def play(seed: int) -> Simulation:
        simulation = build(seed)
        simulation.run(int(seconds * S))
        return simulation

    return play


def _case(case: cases.Case, fixed: bool) -> tuple[str, Callable[[int], Simulation]]:
    name = f"{case.name}-fixed" if fixed else case.name
    return name, _ran(lambda seed: case.build(fixed, seed), case.seconds)


def _state(smt: bool, boost: bool) -> tuple[str, Callable[[int], Simulation]]:
    name = f"smt-{'on' if smt else 'off'}-boost-{'on' if boost else 'off'}"
    return name, _ran(lambda seed: services.service(seed, smt=smt, boost=boost), 0.5)


GAME = Demo(
    "game.exe",
    tuple(_case(case, fixed) for case in cases.CASES for fixed in (False, True)),
    tuple(f"{case.name}: {case.fault}; fixed: {case.fixed}" for case in cases.CASES),
)
SYMMETRIC = ("priority-symmetric", cases.symmetric_priority)
SERVICES = {
    "pinning": Demo(
        "cache",
        (
            ("pinning", _ran(lambda seed: services.pinning(False, seed), 0.3)),
            ("pinning-fixed", _ran(lambda seed: services.pinning(True, seed), 0.3)),
        ),
        ("pinning: request loops pinned by CPU number share cores; fixed: one on each core",),
        ("mark_summary", "pinned_sibling", "thread_comparison"),
    ),
    "smt-boost": Demo(
        "server",
        tuple(_state(smt, boost) for smt in (False, True) for boost in (False, True)),
        ("smt-boost: the same requests with SMT and boost off and on",),
        ("mark_summary", "sibling_overlap_total"),
    ),
    "queues": Demo(
        "pipeline",
        (
            ("queues", _ran(lambda seed: services.queues(False, seed), 0.05)),
            ("queues-fixed", _ran(lambda seed: services.queues(True, seed), 0.05)),
        ),
        ("queues: workers take jobs one by one behind a lock; fixed: 16 at once",),
        ("mark_summary", "waker_pair", "thread_comparison"),
    ),
}
