"""Planted faults: what each requires of the machine, and what it combines with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from planted import frame_faults, order_faults, placement_faults
from planted.background import Setup


@dataclass(frozen=True)
class Fault:
    """A planted fault and its requirements."""

    name: str
    plant: Callable[[Setup], None]
    hybrid: bool | None = None
    rules: Mapping[str, Any] = field(default_factory=dict)
    """Rules of a scheduler that has this fault."""
    speeds: tuple[float, float] | None = None
    """Of an E core, and of each sibling while both are busy."""
    light: bool = False
    """Leaves most of the machine alone: another light one may be planted alongside."""
    combines: bool = False
    """May be planted alongside any other."""


FAULTS = (
    Fault("spin_chain", placement_faults.spin_chain, light=True),
    Fault("parked", placement_faults.parked),
    Fault("parked_tight", placement_faults.parked_tight),
    Fault("siblings_pinned", placement_faults.siblings_pinned, light=True),
    Fault("keeps_sharing", placement_faults.keeps_sharing, rules={"moves_running": False}),
    Fault("on_e_cores", placement_faults.on_e_cores, hybrid=True, light=True),
    Fault("crowd", placement_faults.crowd),
    Fault("alone", placement_faults.alone),
    Fault("starved", placement_faults.starved, light=True),
    Fault("visitor", placement_faults.visitor, light=True),
    Fault("stranded", placement_faults.stranded, rules={"stranded_share": 0.6}),
    Fault("inverted", order_faults.inverted),
    Fault("background_on_p", order_faults.background_on_p, hybrid=True),
    Fault("starved_level", order_faults.starved_level, light=True),
    Fault("wide_pool", order_faults.wide_pool),
    Fault("taxed", order_faults.taxed, light=True),
    Fault("throttled", order_faults.throttled, combines=True),
    Fault("stolen", order_faults.stolen, combines=True),
    Fault("slow_presenter", frame_faults.slow_presenter, hybrid=True, light=True),
    Fault("carrier", frame_faults.carrier, light=True),
    Fault("parked_frames", frame_faults.parked_frames),
    Fault("stutter_run", frame_faults.stutter_run, light=True),
    Fault("stutter_wait", frame_faults.stutter_wait, light=True),
    Fault("stutter_worker", frame_faults.stutter_worker, light=True),
    Fault("stutter_ready", frame_faults.stutter_ready),
    Fault("stutter_parked", frame_faults.stutter_parked),
    Fault("stutter_stranded", frame_faults.stutter_stranded, rules={"stranded_share": 1.0}),
    Fault("stutter_e", frame_faults.stutter_e, hybrid=True, speeds=(0.35, 0.6)),
    Fault("stutter_shared", frame_faults.stutter_shared, speeds=(0.5, 0.4)),
)
