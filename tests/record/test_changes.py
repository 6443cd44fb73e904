"""Changes to the machine are written to a journal first and undone afterwards."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from schedlens.record import changes

pytestmark = pytest.mark.records

# A mount in a namespace of its own affects nobody else; `%s` is what runs in it.
ALONE = """
while umount /sys/kernel/tracing 2>/dev/null; do :; done
umount /sys/kernel/debug/tracing 2>/dev/null
mounted() { grep -c ' - tracefs ' /proc/self/mountinfo; }
echo "before $(mounted)"
%s
echo "after $(mounted)"
"""


def alone(script: str, state: Path) -> list[str]:
    """The lines that a shell script prints in a mount namespace of its own."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("only root can mount")
    if not changes.TRACEFS.is_dir():
        pytest.skip("this kernel has no tracefs")
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", ALONE % script],
        env={**os.environ, "SCHEDLENS_STATE_DIR": str(state), "PY": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    if "unshare failed" in done.stderr:
        pytest.skip(f"no namespaces here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


MOUNT = (
    "from schedlens.record.changes import Changes; c = Changes(); "
    "print('there', c.mount_tracefs(), flush=True)"
)


def test_mount_is_made_and_undone(tmp_path: Path) -> None:
    lines = alone(
        f'"$PY" -c "{MOUNT}; print(c.made[0]); print(c.undo()); print(c.made[0].restored)"',
        tmp_path,
    )
    assert lines == [
        "before 0",
        "there True",
        "Change(what='mount /sys/kernel/tracing', before='not mounted', after='mounted', "
        "restored=False)",
        "[]",
        "True",
        "after 0",
    ]
    assert not (tmp_path / "changes.json").exists()


def test_existing_mount_is_kept(tmp_path: Path) -> None:
    lines = alone(
        "mount -t tracefs nodev /sys/kernel/tracing\n"
        f'"$PY" -c "{MOUNT}; print(c.made); print(c.undo())"',
        tmp_path,
    )
    assert lines == ["before 0", "there True", "[]", "[]", "after 1"]


def test_killed_program_leaves_a_journal_that_restore_undoes(tmp_path: Path) -> None:
    lines = alone(
        f'"$PY" -c "{MOUNT}; import os; os.kill(os.getpid(), 9)" >/dev/null 2>&1\n'
        'echo "killed $(mounted)"\n'
        '"$PY" -c "from schedlens.record import changes as c; '
        'print(len(c.left_behind())); print(c.restore())"\n',
        tmp_path,
    )
    assert lines == [
        "before 0",
        "killed 1",
        "1",
        "([Change(what='mount /sys/kernel/tracing', before='not mounted', after='mounted', "
        "restored=False)], [])",
        "after 0",
    ]
    assert not (tmp_path / "changes.json").exists()


def test_next_program_undoes_changes_of_a_killed_one(tmp_path: Path) -> None:
    lines = alone(
        f'"$PY" -c "{MOUNT}; import os; os.kill(os.getpid(), 9)" >/dev/null 2>&1\n'
        f'"$PY" -c "{MOUNT}; print(len(c.made), c.undo())"\n',
        tmp_path,
    )
    assert lines == ["before 0", "there True", "1 []", "after 0"]


def test_the_last_of_two_programs_undoes(tmp_path: Path) -> None:
    lines = alone(
        # The second starts while the first runs, and ends after it.
        f'"$PY" -c "{MOUNT}; input(); c.undo(); print(c.made[0].restored)" <"$FIFO" & first=$!\n'
        'exec 3>"$FIFO"\n'
        'until [ -s "$SCHEDLENS_STATE_DIR/changes.json" ]; do sleep 0.05; done\n'
        'until [ "$(mounted)" = 1 ]; do sleep 0.05; done\n'
        f'"$PY" -c "{MOUNT}; import os; os.write(3, b\'go\\\\n\'); os.close(3); '
        "os.waitpid; import time; open('$SCHEDLENS_STATE_DIR/second','w'); "
        "[time.sleep(0.05) for _ in range(200) "
        "if not os.path.exists('$SCHEDLENS_STATE_DIR/first')]; "
        'print(c.undo())" & second=$!\n'
        'exec 3>&-\nwait $first\necho "one ended $(mounted)"\n'
        'touch "$SCHEDLENS_STATE_DIR/first"\nwait $second\n',
        fifo(tmp_path),
    )
    assert lines == [
        "before 0",
        "there True",
        "there True",
        "False",
        "one ended 1",
        "[]",
        "after 0",
    ]


def fifo(folder: Path) -> Path:
    path = folder / "fifo"
    os.mkfifo(path)
    os.environ["FIFO"] = str(path)
    return folder


def test_without_journal_nothing_is_changed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    lines = alone(
        f'SCHEDLENS_STATE_DIR=/proc/none "$PY" -c "{MOUNT}" 2>&1 | tail -n 1 | cut -c -60',
        tmp_path,
    )
    assert lines[0] == "before 0"
    assert "cannot write" in lines[1]
    assert lines[2] == "after 0"


def test_reused_process_id_is_not_the_program(tmp_path: Path) -> None:
    row = {"what": "mount /nowhere", "before": "not mounted", "after": "mounted", "restored": False}
    state = {"users": [[os.getpid(), "1"]], "pending": [row]}
    (tmp_path / "changes.json").write_text(json.dumps(state))
    assert [change.what for change in changes.left_behind(tmp_path)] == ["mount /nowhere"]


def test_damaged_journal_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "changes.json").write_text("{")
    assert changes.left_behind(tmp_path) == []
    assert changes.restore(tmp_path) == ([], [])


def test_collect_alongside_another_run_leaves_the_mount_to_it(tmp_path: Path) -> None:
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed: nothing can be recorded here")
    holder = f"{MOUNT}; print('holds', flush=True); import time; time.sleep(30)"
    lines = alone(
        f'"$PY" -c "{holder}" > {tmp_path}/holder & HOLDER=$!\n'
        f"while ! grep -q holds {tmp_path}/holder; do sleep 0.1; done\n"
        f'"$(dirname "$PY")/collect" --seconds 0.1 -o {tmp_path}/session 2>&1 '
        '| grep "changed on this machine"\n'
        "kill -9 $HOLDER",
        tmp_path,
    )
    assert lines == [
        "before 0",
        "changed on this machine: mount /sys/kernel/tracing (another run still uses it and will "
        "undo it)",
        "after 1",
    ]
