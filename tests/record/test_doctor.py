"""`schedlens doctor` and `schedlens workloads`, as users run them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import command, needs_tracing

from schedlens.errors import WorkloadError
from schedlens.record import changes, workload_program

pytestmark = pytest.mark.records


def doctor(*arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
    return command("schedlens", "doctor", *arguments, check=False, **more)


def rows(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, object]]:
    return {row["what"]: row for row in json.loads(done.stdout)["rows"]}


def test_doctor_lists_what_can_be_recorded(tmp_path: Path) -> None:
    needs_tracing()
    done = doctor("--json", env={**os.environ, "SCHEDLENS_STATE_DIR": str(tmp_path)})
    found = rows(done)
    online = os.sysconf("SC_NPROCESSORS_ONLN")
    assert str(found["CPUs"]["found"]).startswith(f"{online} online, ")
    assert f"{len(os.sched_getaffinity(0))} allowed" in str(found["CPUs"]["found"])
    version = subprocess.run(["perf", "version"], capture_output=True, text=True, check=True)
    assert version.stdout.split()[2] in str(found["perf"]["found"])
    assert str(found["recording"]["found"]).startswith("mode 'full', buffers of ")
    for check in ("whole", "samples", "lost", "events"):
        assert found[check]["ok"] is True
    assert done.returncode == (0 if all(row["ok"] for row in found.values()) else 1)
    assert not (tmp_path / "changes.json").exists()


def test_without_perf_install_command_is_named() -> None:
    done = doctor("--json", env={**os.environ, "SCHEDLENS_PERF": "/nonexistent/perf"})
    found = rows(done)
    assert done.returncode == 1
    assert (found["perf"]["ok"], found["perf"]["found"]) == (False, "not installed")


def test_doctor_leaves_nothing_behind(tmp_path: Path) -> None:
    done = doctor("--restore", env={**os.environ, "SCHEDLENS_STATE_DIR": str(tmp_path)})
    assert (done.returncode, done.stdout) == (0, "nothing was left behind\n")


def test_doctor_restores_the_machine_after_a_killed_collect(tmp_path: Path) -> None:
    needs_tracing()
    if shutil.which("unshare") is None or not changes.TRACEFS.is_dir():
        pytest.skip("no namespace or no tracefs here")
    folder = Path(sys.executable).parent
    # In a mount namespace of its own; the recorder ends by itself when collect is killed.
    script = f"""
    while umount /sys/kernel/tracing 2>/dev/null; do :; done
    mounted() {{ grep -c ' - tracefs ' /proc/self/mountinfo; }}
    "{folder}/collect" --seconds 30 -o "{tmp_path}/s" >/dev/null 2>&1 & victim=$!
    until [ -s "{tmp_path}/s/machine-r1/perf.data" ]; do sleep 0.05; done
    echo "recording $(mounted)"
    kill -9 $victim; wait $victim; sleep 2
    echo "killed $(mounted)"
    "{folder}/schedlens" doctor | grep 'left behind' | tr -s ' '
    "{folder}/schedlens" doctor --restore
    echo "restored $(mounted)"
    """
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script],
        env={**os.environ, "SCHEDLENS_STATE_DIR": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if "unshare failed" in done.stderr:
        pytest.skip(f"no namespaces here: {done.stderr.strip()}")
    assert [line.rstrip() for line in done.stdout.splitlines()] == [
        "recording 1",
        "killed 1",
        "look left behind mount /sys/kernel/tracing by a killed run",
        "undone: mount /sys/kernel/tracing: not mounted again",
        "restored 0",
    ]


def test_collect_reports_its_mount_and_undoes_it(tmp_path: Path) -> None:
    needs_tracing()
    if shutil.which("unshare") is None or not changes.TRACEFS.is_dir():
        pytest.skip("no namespace or no tracefs here")
    folder = Path(sys.executable).parent
    script = f"""
    while umount /sys/kernel/tracing 2>/dev/null; do :; done
    "{folder}/collect" --seconds 0.1 -o "{tmp_path}/s"
    grep -c ' - tracefs ' /proc/self/mountinfo
    """
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script],
        env={**os.environ, "SCHEDLENS_STATE_DIR": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if "unshare failed" in done.stderr:
        pytest.skip(f"no namespaces here: {done.stderr.strip()}")
    assert done.stdout.splitlines()[-1] == "0", done.stderr
    assert "changed on this machine: mount /sys/kernel/tracing (undone)" in done.stderr
    session = json.loads((tmp_path / "s/session.json").read_text())
    assert session["changed"] == [
        {
            "what": "mount /sys/kernel/tracing",
            "before": "not mounted",
            "after": "mounted",
            "restored": True,
        }
    ]
    assert session["capture"]["mode"] == "full"


def needs_workloads() -> None:
    try:
        workload_program.program()
    except WorkloadError as error:
        pytest.skip(str(error))


def test_kernels_are_listed() -> None:
    needs_workloads()
    done = command("schedlens", "workloads", "list", "--json")
    names = [row["kernel"] for row in json.loads(done.stdout)["kernels"]]
    assert names[:10] == [f"imul{count}" for count in range(1, 11)]
    assert {"sha256", "spin_handoff", "queue", "mem_seq", "pointer_chase"} <= set(names)
    text = command("schedlens", "workloads", "list").stdout
    assert all(name in text for name in names)


def test_kernel_passes_its_verification() -> None:
    needs_workloads()
    done = command("schedlens", "workloads", "verify", "sha256", "--json")
    assert done.returncode == 0
    report = json.loads(done.stdout)
    assert report["ok"] is True
    states = {verdict["variant"]: verdict["status"] for verdict in report["verdicts"]}
    assert states["scalar"] == "ok"
    assert set(states.values()) <= {"ok", "unsupported"}


def test_unknown_kernel_suggests_similar_names() -> None:
    needs_workloads()
    done = command("schedlens", "workloads", "verify", "imul11", check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("schedlens: no workload named 'imul11': did you mean imul1")
    assert len(done.stderr.splitlines()) == 1


def test_missing_program_prints_one_line(tmp_path: Path) -> None:
    missing = {**os.environ, "SCHEDLENS_WORKLOADS": str(tmp_path / "none")}
    done = command("schedlens", "workloads", "list", check=False, env=missing)
    assert (done.returncode, done.stderr) == (
        2,
        f"schedlens: SCHEDLENS_WORKLOADS: there is no program {tmp_path}/none\n",
    )
