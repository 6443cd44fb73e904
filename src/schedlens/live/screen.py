"""The picture of the machine as tables for a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from schedlens.live.picture import CpuNow, Picture, ThreadNow, WaitNow
from schedlens.output.terminal import visible

_BAR = 16


def screen(now: Picture, interval_s: float) -> RenderableType:
    """All tables, with what they are about in the first line."""
    cost = (
        ""
        if now.cost is None
        else (
            f", cost {now.cost.own_pct:.0f} % of a CPU and {now.cost.recorder_pct:.0f} % for perf"
        )
    )
    lost = f", {now.lost_pct:.2g} % of CPU time unknown" if now.lost_pct >= 0.01 else ""
    head = f"last {now.seconds:.1f} s, every {interval_s:g} s{cost}{lost}"
    parts: list[RenderableType] = [Text(head), _cpus(now.cpus)]
    if now.waits:
        parts += [Text(""), Text("longest waits for a CPU", style="bold"), _waits(now.waits)]
    parts += [Text(""), Text("busiest threads by core type", style="bold"), _threads(now.threads)]
    return Group(*parts)


def _table(*columns: tuple[str, str]) -> Table:
    made = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name, side in columns:
        made.add_column(name, justify="right" if side == "r" else "left", no_wrap=True)
    return made


def _cpus(cpus: tuple[CpuNow, ...]) -> Table:
    made = _table(
        ("CPU", "r"), ("core", "r"), ("type", "l"), ("sibling", "l"), ("busy", "l"), ("%", "r"),
        ("irq %", "r"), ("queue", "r"), ("mostly", "l"),
    )  # fmt: skip
    by_cpu = {cpu.cpu: cpu for cpu in cpus}
    # Siblings in lines below each other.
    for cpu in sorted(cpus, key=lambda one: (one.core is None, one.core or 0, one.cpu)):
        busy = cpu.busy_pct
        near = [f"{other}: {_whole(by_cpu[other].busy_pct)} %" for other in cpu.siblings]
        made.add_row(
            str(cpu.cpu),
            _text(cpu.core),
            cpu.core_type or "",
            ", ".join(near),
            _bar(busy),
            cpu.state or _whole(busy),
            _whole(cpu.interrupt_pct),
            "" if cpu.queue is None else f"{cpu.queue:.2f}",
            ""
            if cpu.thread is None
            else Text(f"{visible(cpu.thread)} ({cpu.tid}) {_whole(cpu.thread_pct)} %"),
        )
    return made


def _waits(waits: tuple[WaitNow, ...]) -> Table:
    made = _table(("ms", "r"), ("thread", "l"), ("CPU", "r"), ("ran instead", "l"), ("why", "l"))
    for wait in waits:
        instead = f"{visible(wait.instead)} ({wait.instead_tid})" if wait.instead else ""
        made.add_row(
            f"{wait.ready_ms:.2f}", Text(_named(wait)), _text(wait.cpu), Text(instead), wait.why
        )
    return made


def _threads(threads: tuple[ThreadNow, ...]) -> Table:
    made = _table(("type", "l"), ("% of a CPU", "r"), ("thread", "l"))
    for thread in threads:
        made.add_row(thread.core_type or "", f"{thread.run_pct:.1f}", Text(_named(thread)))
    return made


def _named(one: WaitNow | ThreadNow) -> str:
    name = f"{visible(one.thread or '?')} ({one.tid})"
    apart = one.process is not None and one.process != one.thread
    return f"{name} of {visible(one.process or '')}" if apart else name


def _bar(share: float | None) -> Text:
    if share is None:
        return Text("")
    full = round(share / 100 * _BAR)
    style = "red" if share >= 90 else "yellow" if share >= 60 else "green"
    return Text("#" * full + "." * (_BAR - full), style=style)


def _whole(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"


def _text(value: int | None) -> str:
    return "" if value is None else str(value)
