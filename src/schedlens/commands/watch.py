"""The command `watch`: the machine now, in the terminal."""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import asdict

import click

SHORTEST_S, LONGEST_S = 0.5, 60.0


@click.command("watch")
@click.option(
    "--interval", "interval_s", type=click.FloatRange(SHORTEST_S, LONGEST_S), default=2.0,
    show_default=True, help="Seconds between two pictures, and that each of them shows.",
)  # fmt: skip
@click.option("--once", is_flag=True, help="Print one picture and end.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per picture and line.")
def watch(interval_s: float, once: bool, as_json: bool) -> int:
    """Show what each CPU of this machine does now, until Ctrl-C.

    Each CPU with its SMT siblings, its state, the threads that wait for it, and the thread that
    runs on it most; the longest waits of ready threads, with the thread that ran instead; the
    busiest threads by core type; and what looking costs. It reads a short ring of scheduling
    events with the decoder and the queries of `analyze`. Without a terminal, it prints the
    pictures one after another. Only on Linux.

    Exit code 0: ended by --once or by you. 2: the machine cannot be recorded.
    """
    from rich.console import Console
    from rich.live import Live

    from schedlens.errors import RecorderError
    from schedlens.live import rounds
    from schedlens.live.screen import screen
    from schedlens.machine import operating_system, stop_signals

    if operating_system.name() != "linux":
        raise RecorderError("watch works only on Linux: record with collect, then analyze")
    console = Console()
    shows = console.is_terminal and not once and not as_json
    # Without a terminal, lines are as long as they need to be.
    plain = Console(width=None if console.is_terminal else 160, no_color=not console.is_terminal)
    with contextlib.ExitStack() as stack:
        stack.enter_context(stop_signals.handled())
        stack.enter_context(contextlib.suppress(KeyboardInterrupt))
        live: Live | None = None
        if shows:
            live = stack.enter_context(
                Live("recording ...", console=console, screen=True, auto_refresh=False)
            )
        pictures = stack.enter_context(contextlib.closing(rounds.pictures(interval_s)))
        for picture in pictures:
            if as_json:
                click.echo(json.dumps(asdict(picture)))
                sys.stdout.flush()
            elif live is not None:
                live.update(screen(picture, interval_s), refresh=True)
            else:
                plain.print(screen(picture, interval_s))
                sys.stdout.flush()
            if once:
                break
    return 0
