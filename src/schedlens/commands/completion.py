"""Shell completion: the script for a shell, and the words that complete arguments."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem

SHELLS = ("bash", "zsh", "fish")
_PROGRAMS = ("schedlens", "analyze", "collect")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> int:
    """Print the completion script for SHELL.

    \b
      bash: eval "$(schedlens completion bash)"            in ~/.bashrc
      zsh:  eval "$(schedlens completion zsh)"             in ~/.zshrc
      fish: schedlens completion fish | source             in ~/.config/fish/config.fish

    It completes commands and options, and names of sessions, queries and their arguments,
    analyzers and kernels.
    """
    from click.shell_completion import get_completion_class

    for program in _PROGRAMS:
        made = get_completion_class(shell)
        assert made is not None
        # The command itself is not needed to write the script.
        script = made(click.Command(program), {}, program, f"_{program.upper()}_COMPLETE")
        # The check of bash's version starts a bash, and is for an interactive user.
        click.echo(script.source_template % script.source_vars())
    return 0


def _matching(words: Iterable[str], begun: str) -> list[CompletionItem]:
    return [CompletionItem(word) for word in sorted(words) if word.startswith(begun)]


def sessions(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Folders with an analysis, databases, and folders on the way to them."""
    begun = Path(incomplete)
    folder = begun if incomplete.endswith("/") else begun.parent
    found = []
    try:
        for path in sorted(folder.iterdir()):
            name = str(path)
            if not name.startswith(incomplete.removeprefix("./")) or path.name.startswith("."):
                continue
            if path.is_dir():
                is_session = (path / "analysis.duckdb").exists()
                found.append(CompletionItem(name if is_session else f"{name}/"))
            elif path.suffix == ".duckdb":
                found.append(CompletionItem(name))
    except OSError:
        return []
    analyzed = [item for item in found if not item.value.endswith("/")]
    return analyzed or found


def queries(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names of queries and tables; after the name of a query, its arguments."""
    from schedlens.ask import catalog
    from schedlens.load import schema

    every = catalog.load_all() + catalog.load_fleet()
    given = context.params.get("query") or ()
    if isinstance(given, tuple) and given:
        names = [found for found in every if found.full_name == given[0]]
        known = [each.name.removeprefix("p_") for found in names for each in found.parameters]
        return _matching((f"{name}=" for name in known), incomplete)
    helps = {found.full_name: found.text.split(". ")[0] for found in every}
    if context.command.name != "queries":
        helps |= dict.fromkeys(schema.table_names(), "A table.")
    return [
        CompletionItem(name, help=text)
        for name, text in sorted(helps.items())
        if name.startswith(incomplete)
    ]


def analyzers(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names of analyzers."""
    from schedlens.ask import judging

    return _matching(judging.analyzers(), incomplete)


def kernels(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names of the kernels of `collect --workload`."""
    from schedlens.errors import WorkloadError
    from schedlens.record import workload_program

    try:
        return _matching((row.kernel for row in workload_program.catalogue()), incomplete)
    except WorkloadError:
        return []
