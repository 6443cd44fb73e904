"""Who set the affinity of a thread, in the words of a finding."""

from __future__ import annotations

from typing import Any

from schedlens.ask.findings import Scope
from schedlens.output.wording import duration, thread_name


def set_by(scope: Scope, row: dict[str, Any]) -> str:
    """Which program set the last affinity of a thread in a window, as far as it is recorded.

    `row` has `trace_id`, `utid`, and the window as `start_ns` and `end_ns`. Without a recorded
    change: since when the affinity is known, or that it is older than the window.
    """
    trace_id, utid = row["trace_id"], row["utid"]
    start_ns, end_ns = row["start_ns"], row["end_ns"]
    changes = scope.rows(
        "SELECT ts, setter_utid, setter_process, setter_thread, setter_tid "
        f"FROM affinity_setter(p_trace_id := {trace_id}, p_from_ns := 0, p_to_ns := {end_ns}) "
        f"WHERE utid = {utid} ORDER BY ts DESC LIMIT 1"
    )
    if not changes:
        spells = scope.rows(
            f"SELECT from_ns FROM affinity_spell WHERE utid = {utid} AND from_ns < {end_ns} "
            f"AND to_ns > {start_ns} ORDER BY from_ns LIMIT 1"
        )
        since = spells[0]["from_ns"] if spells else None
        if since is None or since < start_ns:
            return "set before the recording"
        return f"since {duration(since)}; who set it is not recorded"
    change = changes[0]
    if change["setter_utid"] is None:
        return f"since {duration(change['ts'])}; who set it is not recorded"
    # The process has the name that it had last, perhaps that of another program.
    own = change["setter_utid"] == utid
    process = None if own else change["setter_process"]
    setter = thread_name(change["setter_thread"], change["setter_tid"], process)
    return f"set by {setter}{' itself' if own else ''} at {duration(change['ts'])}"
