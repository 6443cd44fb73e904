"""The command `doctor`: checks what this machine permits, and undoes leftover changes."""

from __future__ import annotations

import json
from dataclasses import asdict

import click


@click.command("doctor")
@click.option("--restore", is_flag=True, help="Undo what a killed `collect` left behind.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def doctor(restore: bool, as_json: bool) -> int:
    """Check what this machine permits by making short recordings.

    Exit code 0: nothing limits recording. 1: something does.
    """
    from schedlens.machine import operating_system
    from schedlens.record import changes, examination
    from schedlens.record.windows import examination as on_windows

    windows = operating_system.name() == "windows"
    if restore:
        done, left = (on_windows if windows else changes).restore()
        if as_json:
            lists = {"undone": done, "left": left}
            listed = {key: [asdict(row) for row in value] for key, value in lists.items()}
            click.echo(json.dumps(listed, indent=1))
            return 1 if left else 0
        for change in done:
            click.echo(f"undone: {change.what}: {change.before} again")
        for change in left:
            click.echo(f"not undone: {change.what}: it is in use, or root is required", err=True)
        if not done and not left:
            click.echo("nothing was left behind")
        return 1 if left else 0
    rows = (on_windows if windows else examination).examine()
    if as_json:
        click.echo(json.dumps({"rows": [asdict(row) for row in rows]}, indent=1))
    else:
        width = max(len(row.what) for row in rows)
        for row in rows:
            click.echo(f"{'ok  ' if row.ok else 'look'}  {row.what:<{width}}  {row.found}")
            if row.advice:
                click.echo(f"{'':{width + 8}}-> {row.advice}")
    return 0 if all(row.ok for row in rows) else 1
