"""The session folder while it is written: its plan, its steps, and which are finished."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import replace
from pathlib import Path

from schedlens.errors import SessionError
from schedlens.load import session_file, step_file
from schedlens.load.session_file import SavedChange, SessionFile, Step
from schedlens.output.whole_file import PART, cannot_write, write_json
from schedlens.record import plan


class Session:
    """A folder with session.json; `file` is its content, but `steps` are the current steps."""

    def __init__(self, folder: Path, file: SessionFile) -> None:
        self.folder = folder
        self.file = file
        self.steps = list(file.steps)

    @classmethod
    def create(cls, folder: Path, file: SessionFile) -> Session:
        """Creates the folder. Raises `SessionError` if it is not empty."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _remove_parts(folder)
            occupied = any(folder.iterdir())
        except OSError as error:
            raise cannot_write(folder, error) from None
        if occupied:
            is_session = (folder / session_file.NAME).exists()
            again = f", or `collect --resume {folder}`" if is_session else ""
            raise SessionError(f"{folder} is not empty: choose another folder{again}")
        session = cls(folder, file)
        session.save()
        return session

    @classmethod
    def resume(cls, folder: Path) -> Session:
        """Opens an existing session; removes what its last run left unfinished.

        Raises `SessionError` if session.json is missing or malformed.
        """
        if not (folder / session_file.NAME).exists():
            raise SessionError(f"{folder} contains no session.json: nothing to resume")
        _remove_parts(folder)
        session = cls(folder, session_file.read(folder / session_file.NAME))
        for number, step in enumerate(session.steps):
            if step.workload is not None and step.cell is None and step.threads is None:
                raise SessionError(
                    f"{folder / session_file.NAME}: steps[{number}].threads is null, although it "
                    "has a workload"
                )
            done = (session.path(step) / step_file.NAME).exists()
            session.steps[number] = replace(step, state="done" if done else "planned", why=None)
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

    def set_changes(self, changes: tuple[SavedChange, ...]) -> None:
        """Replaces the list of changes to the machine; `save` writes it."""
        self.file = replace(self.file, changed=changes)

    def save(self) -> None:
        """Writes session.json again."""
        content = replace(self.file, steps=tuple(self.steps))
        write_json(self.folder / session_file.NAME, content.to_json())


def _remove_parts(folder: Path) -> None:
    """Removes what a run left that was killed while it wrote session.json."""
    for path in folder.glob(f"{session_file.NAME}.*{PART}"):
        with contextlib.suppress(OSError):
            path.unlink()
