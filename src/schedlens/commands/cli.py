"""The commands: `collect` and `analyze`, and `schedlens`, which groups all of them."""

from __future__ import annotations

import difflib
import errno
import gc
import importlib
import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType
from typing import Any

import click

from schedlens.errors import SchedlensError
from schedlens.output import system_text

# Module and summary of each command; the module is imported when the command is used.
COMMANDS = {
    "collect": ("collect", "Run a workload or a program and record how it is scheduled."),
    "analyze": ("analyze", "Load recordings into a database; write findings and report."),
    "fleet": ("fleet", "Analyze many recordings in parallel and write them to a lake."),
    "fleet-report": ("fleet", "Write the report of a lake, or of one of its recordings."),
    "compare": ("compare", "Compare recordings: what differs, how surely, and why; gate for CI."),
    "what-if": ("what_if", "Predict what a change would gain, by replaying the schedule."),
    "events": ("events", "Print every event of a recording with its decoded fields."),
    "inspect": ("inspect", "Show what a trace contains and which questions it can answer."),
    "sql": ("sql", "Run SQL or a named query on an analyzed session."),
    "export": ("export", "Write traces for Perfetto, or tables as Parquet, Arrow or CSV."),
    "watch": ("watch", "Show what each CPU does now, and the longest waits of the last seconds."),
    "open": ("open", "Show a recording in ui.perfetto.dev, at the time of a finding."),
    "serve": (
        "serve",
        "Serve a session's report with every slice to the browser, on this machine.",
    ),
    "mcp": ("mcp", "Serve analyses to agents over the Model Context Protocol."),
    "queries": ("sql", "List the named queries with their documentation."),
    "doctor": ("doctor", "Check what this machine permits; undo leftover changes."),
    "demo": ("demo", "Simulate a game on a hybrid machine and explain it."),
    "compare-decoders": (
        "compare_decoders",
        "Compare a folder of tables with the trace it was made from.",
    ),
    "workloads": ("workloads", "List the kernels, or verify their results."),
    "completion": ("completion", "Print the script that completes words in bash, zsh or fish."),
}


class LazyGroup(click.Group):
    """A group that imports the module of a command when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"schedlens.commands.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command for the arguments; an unknown one names those that are spelled like it."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], COMMANDS, n=3)
            hint = f": did you mean {', '.join(near)}?" if near else ""
            ctx.fail(f"No such command '{args[0]}'{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup)
@click.version_option(package_name="schedlens", message="schedlens %(version)s")
def group() -> None:
    """Records and explains how an operating system schedules threads."""


# What click calls the types of numbers, and what people do.
_NUMBERS = {
    "float range": "a number", "float": "a number",
    "integer range": "a whole number", "integer": "a whole number",
}  # fmt: skip


def _said(error: click.UsageError) -> str:
    text = error.format_message()
    for kind, number in _NUMBERS.items():
        text = text.replace(f"is not a valid {kind}.", f"is not {number}.")
    return text


def run(command: click.Command, arguments: Sequence[str] | None = None, name: str = "") -> int:
    """Runs a command; a user error becomes one line on stderr and exit code 2."""
    interrupted = _interrupts()
    system_text.print_as_utf8((sys.stdout, sys.stderr))
    try:
        result: Any = command.main(
            args=None if arguments is None else list(arguments),
            prog_name=name or None,
            standalone_mode=False,
        )
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.UsageError as error:
        hint = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
        return _failed(f"{name}: {_said(error)}{hint}")
    except click.ClickException as error:
        return _failed(f"{name}: {error.format_message()}")
    except click.Abort:
        click.echo(f"{name}: interrupted", err=True)
        return 130
    except KeyboardInterrupt:
        click.echo(f"{name}: interrupted", err=True)
        return 130
    except SchedlensError as error:
        # A library may turn the interrupt into an error of its own.
        if interrupted:
            click.echo(f"{name}: interrupted", err=True)
            return 130
        return _failed(f"{name}: {error}")
    except SystemExit:
        # rich exits this way when the reader is gone; it has already closed the output.
        return 0
    except BrokenPipeError:
        # The reader, such as `head`, has stopped; without this, Python reports it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        place = f": {error.filename}" if error.filename else ""
        todo = ": free some, or write elsewhere" if error.errno == errno.ENOSPC else ""
        return _failed(f"{name}: {error.strerror or error}{place}{todo}")
    except MemoryError:
        return _failed(f"{name}: not enough memory: analyze fewer recordings at once")
    except Exception:
        # DuckDB turns an interrupt during a query into a RuntimeError.
        if not interrupted:
            raise
        click.echo(f"{name}: interrupted", err=True)
        return 130
    return result if isinstance(result, int) else 0


def _interrupts() -> list[int]:
    """The interrupts (Ctrl-C) from now on; each still raises `KeyboardInterrupt`."""
    seen: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        signal.default_int_handler(number, frame)

    main = threading.current_thread() is threading.main_thread()
    if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, note)
    return seen


def _failed(line: str) -> int:
    """Prints why the command failed; returns its exit code."""
    from schedlens.output import terminal

    # The name of a file may contain a newline, and a script reads one error per line.
    click.echo(terminal.visible(line), err=True)
    return 2


def _named(name: str) -> None:
    command = group.get_command(click.Context(group), name)
    if command is None:
        raise LookupError(name)
    _exit(run(command, name=name))


def main() -> None:
    """The command `schedlens`."""
    _exit(run(group, name="schedlens"))


def _exit(code: int) -> None:
    # At exit, Python looks for garbage among all objects that are left, several times: 4 % of the
    # time of a small analysis. The system takes back the memory anyway.
    gc.freeze()
    sys.exit(code)


def collect() -> None:
    """The command `collect`."""
    _named("collect")


def analyze() -> None:
    """The command `analyze`."""
    _named("analyze")
