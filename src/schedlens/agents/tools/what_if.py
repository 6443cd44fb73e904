"""Predict what changes if threads ran differently, by replaying the recorded threads.

The unit of gains is frames, or without them throughput or responses (p95) of a process.

Without changes, tries those that the findings advise, and the best of them together. A recording
whose unchanged replay does not match it predicts nothing: cannot_tell has the reason.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from schedlens.agents.access import Access
from schedlens.agents.bounded_answer import Part
from schedlens.errors import NothingToReadError
from schedlens.replay import alterations, prediction

_CODE = "from schedlens.commands.cli import main; main()"
_SECONDS = 120
_NARROW = "pass recording; name one change in changes"
_ERRORS = ("running_error", "ready_error")


class Arguments(BaseModel):
    """Which recordings, and what would be different."""

    model_config = ConfigDict(extra="forbid")
    session: str = Field(description="A session of list_sessions.")
    changes: list[str] = Field(
        [], max_length=16,
        description="Changes to make together, THREAD and PROCESS with * and ?: "
        f"{'; '.join(alterations.FORMS)}. Without any: what the findings advise.",
    )  # fmt: skip
    recording: str | None = Field(None, description="The label of a recording; all by default.")
    process: str | None = Field(
        None, description="The process whose frames or work counts; the one with most by default."
    )


def answer(access: Access, given: Arguments) -> list[Part]:
    """Predictions, and how well the unchanged replay matches. A process of its own replays."""
    for text in given.changes:
        alterations.parse(text)
    options = [f"--do={text}" for text in given.changes]
    if given.recording is not None:
        options.append(f"--step={given.recording}")
    if given.process is not None:
        options.append(f"--process={given.process}")
    path = access.folders.database(given.session)
    words = ["what-if", "--json", *options, "--"]
    try:
        done = subprocess.run(
            [sys.executable, "-c", _CODE, *words, str(path)], capture_output=True,
            timeout=_SECONDS, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise NothingToReadError(
            f"the replays take longer than {_SECONDS} s: pass recording, and fewer changes"
        ) from None
    try:
        found: list[dict[str, Any]] = json.loads(done.stdout)["recordings"]
    except (ValueError, KeyError):
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no replay"]
        raise NothingToReadError(lines[-1].removeprefix("schedlens: ")) from None
    return _parts(found, shlex.join(["schedlens", *words, given.session]))


def _parts(found: list[dict[str, Any]], source: str) -> list[Part]:
    figures = prediction.FIGURES
    columns = (
        "recording", "changes", "gain_pct",
        *(f"{name}{end}_ns" for name in figures for end in ("", "_low", "_high")),
        "stutters", "throughput", "throughput_low", "throughput_high", "cannot_tell",
    )  # fmt: skip
    rows = [
        [one["recording"], " + ".join(made["changes"]), made["gain_pct"],
         *(
             ((made["frames"] or made["work"] or {}).get(name) or {}).get(key)
             for name in figures
             for key in ("value", "low", "high")
         ),
         made["stutters"],
         *(((made["work"] or {}).get("throughput") or {}).get(key)
           for key in ("value", "low", "high")),
         made["why"]]
        for one in found
        for made in one["predictions"]
    ]  # fmt: skip
    known = ("recording", "unit", "frames", *(f"{name}_ns" for name in figures), "stutters",
             "throughput",
             *(f"{name}_error" for name in figures), *_ERRORS, "assumed_speeds",
             "cannot_tell")  # fmt: skip
    return [
        Part("predictions", columns, rows, _NARROW, source=source),
        Part("recorded", known, [_recorded(one) for one in found], _NARROW, source=source),
    ]


def _recorded(one: dict[str, Any]) -> list[Any]:
    """What is recorded, by how much the unchanged replay misses it, and speeds not recorded."""
    recorded, fidelity = one["recorded"] or {}, one["fidelity"] or {}
    errors = fidelity.get("frames") or fidelity.get("work") or {}
    assumed = [
        name for name, speed in (one.get("speeds") or {}).items() if speed["source"] == "assumed"
    ]
    return [
        one["recording"], one.get("unit"),
        recorded.get("count") if one.get("unit") == "frames" else None,
        *(recorded.get(name) for name in prediction.FIGURES), recorded.get("stutters"),
        recorded.get("throughput"), *(errors.get(name) for name in prediction.FIGURES),
        *(fidelity.get(name) for name in _ERRORS), ", ".join(assumed) or None, one["cannot_tell"],
    ]  # fmt: skip
