"""The session folder while it is written: its plan, its steps, and which are finished."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from schedlens.errors import SessionError
from schedlens.output.whole_file import cannot_write, read_json, write_json
from schedlens.record import plan
from schedlens.record.plan import Step

SCHEMA = 1


class Session:
    """A folder with session.json; `head` is all of it except the steps."""

    def __init__(self, folder: Path, head: dict[str, Any], steps: list[Step]) -> None:
        self.folder = folder
        self.head = head
        self.steps = steps

    @classmethod
    def create(cls, folder: Path, head: dict[str, Any], steps: list[Step]) -> Session:
        """Creates the folder. Raises `SessionError` if it is not empty."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            occupied = any(folder.iterdir())
        except OSError as error:
            raise cannot_write(folder, error) from None
        if occupied:
            begun = (folder / "session.json").exists()
            again = f", or `collect --resume {folder}`" if begun else ""
            raise SessionError(f"{folder} is not empty: choose another folder{again}")
        session = cls(folder, head, steps)
        session.save()
        return session

    @classmethod
    def resume(cls, folder: Path) -> Session:
        """Opens an existing session; removes what its last run left unfinished."""
        if not (folder / "session.json").exists():
            raise SessionError(f"{folder} contains no session.json: nothing to resume")
        head = read_json(folder / "session.json")
        if head.get("schema") != SCHEMA:
            raise SessionError(
                f"{folder} was written by a version with schema {head.get('schema')}; "
                f"this version supports only {SCHEMA}"
            )
        steps = [plan.from_json(row) for row in head.pop("steps", [])]
        session = cls(folder, head, steps)
        for step in steps:
            done = (session.path(step) / "step.json").exists()
            step.state, step.why = ("done" if done else "planned"), None
            if not done:
                session.discard(step)
        return session

    def path(self, step: Step) -> Path:
        """The folder of a step. Raises `SessionError` for a name that points elsewhere."""
        if not step.name or plan.folder_name(step.name) != step.name[:40] or "/" in step.name:
            raise SessionError(f"session.json: step name '{step.name}' is not a folder name")
        return self.folder / step.name

    def begin(self, step: Step) -> Path:
        """An empty folder for a step."""
        self.discard(step)
        try:
            self.path(step).mkdir()
        except OSError as error:
            raise cannot_write(self.path(step), error) from None
        return self.path(step)

    def discard(self, step: Step) -> None:
        """Removes what an unfinished step left."""
        shutil.rmtree(self.path(step), ignore_errors=True)

    def save(self) -> None:
        """Writes session.json again."""
        rows = [step.as_json() for step in self.steps]
        write_json(self.folder / "session.json", {"schema": SCHEMA, **self.head, "steps": rows})
