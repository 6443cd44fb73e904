"""Show what a recording contains without analyzing it: records, loss, what it can answer."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from schedlens.agents.access import Access
from schedlens.agents.bounded_answer import Part
from schedlens.errors import NotATraceError

_CODE = "from schedlens.commands.cli import main; main()"
_SECONDS = 120
_LISTS = {
    "can_answer": "questions with answerable=false name what is missing",
    "problems": "what could not be read, or was repaired",
    "processes": "processes by the order of the file",
    "cpus": "logical CPUs",
}


class Arguments(BaseModel):
    """Which recording."""

    model_config = ConfigDict(extra="forbid")
    path: str = Field(description="A recording of list_sessions.")


def answer(access: Access, given: Arguments) -> list[Part]:
    """Facts, then a part for each list. A process of its own reads the file."""
    path = access.folders.recording(given.path)
    arguments = ["inspect", "--json", str(path)]
    try:
        done = subprocess.run(
            [sys.executable, "-c", _CODE, *arguments], capture_output=True, timeout=_SECONDS,
            check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise NotATraceError(f"{given.path} takes longer than {_SECONDS} s to read") from None
    try:
        facts: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["it cannot be read"]
        raise NotATraceError(lines[-1]) from None
    source = shlex.join(["schedlens", "inspect", "--json", access.folders.name(path)])
    return _parts(facts, source)


def _parts(facts: dict[str, Any], source: str) -> list[Part]:
    header = facts.get("header") or {}
    single = [
        [name, value]
        for name, value in [*facts.items(), *header.items()]
        if not isinstance(value, (dict, list))
    ]
    single += [[name, value] for name, value in header.items() if isinstance(value, list)]
    loss = facts.get("loss") or {}
    single += [[f"loss {name}", value] for name, value in loss.items() if name != "gaps"]
    parts = [Part("facts", ("name", "value"), single, "one row for each fact", source=source)]
    counts = sorted((facts.get("records_by_event") or {}).items(), key=lambda item: -item[1])
    if counts:
        rows = [list(item) for item in counts]
        parts.append(
            Part("records", ("record", "count"), rows, "most frequent first", source=source)
        )
    for name, narrow in [*_LISTS.items(), ("gaps", "lost records by time and CPU")]:
        listed = loss.get("gaps") if name == "gaps" else facts.get(name)
        if isinstance(listed, list) and listed and isinstance(listed[0], dict):
            columns = tuple(listed[0])
            rows = [[row.get(column) for column in columns] for row in listed]
            parts.append(Part(name, columns, rows, narrow, source=source))
    return parts
