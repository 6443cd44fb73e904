"""What a virtual machine says of itself, and is only its host's word."""

from __future__ import annotations

from schedlens.ask.findings import Scope

_CLAIM = (
    "This is a virtual machine: which CPUs share a core or a cache, and which are fast, is what "
    "its host claims; pairs that slow each other down show it (`collect --experiment pairs`)."
)


def claim(scope: Scope, trace_id: int | None, before: str = "") -> str:
    """`before`, and behind it that the topology of this recording is a claim of the host.

    `before` alone for a recording that is not known to be of a virtual machine; None asks for any
    recording. On Windows a hypervisor also runs where the system is no guest: nothing is said.
    """
    of_one = "" if trace_id is None else f"AND trace_id = {trace_id}"
    told = scope.rows(
        "SELECT 1 FROM machine_setting JOIN trace USING (trace_id) WHERE key = 'hypervisor' "
        f"AND value <> 'none' AND source <> 'etw' {of_one} LIMIT 1"
    )
    return f"{before} {_CLAIM}".strip() if told else before
