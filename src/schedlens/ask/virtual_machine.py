"""The warning that a virtual machine's topology is only what its host claims."""

from __future__ import annotations

from schedlens.ask.findings import Scope

_CLAIM = (
    "The topology of this virtual machine is what its host claims: verify which CPUs share a core "
    "with `collect --experiment pairs`."
)


def claim(scope: Scope, trace_id: int | None, before: str = "") -> str:
    """`before`, followed by the warning that the host claims this recording's topology.

    Returns only `before` if the recording is not known to be of a virtual machine; None means any
    recording. On Windows a hypervisor also runs on the host itself, so there is no warning.
    """
    of_one = "" if trace_id is None else f"AND trace_id = {trace_id}"
    guests = scope.rows(
        "SELECT 1 FROM machine_setting JOIN trace USING (trace_id) WHERE key = 'hypervisor' "
        f"AND value <> 'none' AND NOT is_windows_source(source) {of_one} LIMIT 1"
    )
    return f"{before} {_CLAIM}".strip() if guests else before
