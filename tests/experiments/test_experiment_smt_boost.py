"""The experiment `smt-boost` on an injected sysfs: switches, states, guard; a small real run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import experiment_session
import pytest
import sysfs_machine as fake
from conftest import command
from judged import plain

from schedlens.errors import KnobError
from schedlens.experiments import smt_boost
from schedlens.machine import knobs, topology
from schedlens.record import cells, changes, former_settings, host

CPU = "sys/devices/system/cpu"


def machine_with(
    root: Path, *, smt: str | None = "on", boost: str | None = None, no_turbo: str | None = None
) -> Path:
    """10C/20T with the given switches; without those that are None."""
    fake.ten_cores_twenty_threads().write(root)
    for name, text in (
        ("smt/control", smt), ("cpufreq/boost", boost), ("intel_pstate/no_turbo", no_turbo),
    ):  # fmt: skip
        if text is not None:
            path = root / CPU / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")
    return root


def text(root: Path, name: str) -> str:
    return (root / CPU / name).read_text().strip()


def wait_for(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def test_amd_and_intel_switches_are_found(tmp_path: Path) -> None:
    amd, missing = knobs.find(machine_with(tmp_path / "amd", boost="1"))
    assert {name: knob.state() for name, knob in amd.items()} == {"smt": "on", "boost": "on"}
    assert missing == []
    amd["boost"].set("off")
    amd["smt"].set("off")
    assert text(tmp_path / "amd", "cpufreq/boost") == "0"
    assert text(tmp_path / "amd", "smt/control") == "off"
    intel, _ = knobs.find(machine_with(tmp_path / "intel", no_turbo="0"))
    assert intel["boost"].state() == "on"
    intel["boost"].set("off")
    assert text(tmp_path / "intel", "intel_pstate/no_turbo") == "1"


def test_boost_file_per_policy_is_found(tmp_path: Path) -> None:
    root = machine_with(tmp_path)
    for policy in (0, 1):
        (root / CPU / f"cpufreq/policy{policy}").mkdir(parents=True)
        (root / CPU / f"cpufreq/policy{policy}/boost").write_text("1\n")
    found, _ = knobs.find(root)
    found["boost"].set("off")
    assert [text(root, f"cpufreq/policy{n}/boost") for n in (0, 1)] == ["0", "0"]
    (root / CPU / "cpufreq/policy1/boost").write_text("1\n")
    assert found["boost"].state() is None


@pytest.mark.parametrize(
    ("smt", "why"),
    [
        ("notsupported", "smt: this CPU has no SMT, or the hypervisor hides it"),
        ("forceoff", "smt: SMT is switched off (nosmt=force) until the next restart"),
        ("notimplemented", "smt: the kernel cannot switch SMT"),
        (None, "smt: the system does not report SMT (smt/control)"),
    ],
)
def test_missing_switch_is_named(tmp_path: Path, smt: str | None, why: str) -> None:
    found, missing = knobs.find(machine_with(tmp_path, smt=smt, boost="0"))
    assert list(found) == ["boost"]
    assert missing == [why]
    made = smt_boost.plan(found, (), 1000.0)
    assert [cell.name for cell in made] == [
        "closed-boost-off", "open-boost-off", "closed-boost-on", "open-boost-on",
    ]  # fmt: skip


def test_state_that_cannot_be_restored_is_not_changed(tmp_path: Path) -> None:
    found, missing = knobs.find(machine_with(tmp_path, boost="7"))
    assert list(found) == ["smt"]
    [why] = missing
    assert why.endswith("cpufreq/boost is in a state that cannot be restored")


def test_plan_is_two_by_two_under_two_loads(tmp_path: Path) -> None:
    found, _ = knobs.find(machine_with(tmp_path, boost="1"))
    made = smt_boost.plan(found, (), 20_000.0)
    assert sorted(cell.name for cell in made) == sorted(
        f"{load}-boost-{boost}-smt-{smt}"
        for load in ("closed", "open") for boost in ("off", "on") for smt in ("off", "on")
    )  # fmt: skip
    alone = smt_boost.plan(found, ("make", "-j8"), 0.0)
    assert [(cell.workload, cell.facts.load) for cell in alone] == [(None, "command")] * 4
    assert [cell.name for cell in smt_boost.plan({}, (), 1.0)] == [
        "closed-as-found", "open-as-found",
    ]  # fmt: skip


def test_cell_sets_its_state_and_uses_all_online_cpus(tmp_path: Path) -> None:
    root = machine_with(tmp_path, boost="1")
    found, _ = knobs.find(root)
    states = smt_boost.States(found, host.linux(root))
    by_name = {cell.name: cell for cell in smt_boost.plan(found, (), 20_000.0)}
    try:
        step = cells.step(by_name["open-boost-off-smt-off"], 1, 1)
        # The kernel's reaction to the switch: the second siblings go offline.
        (root / CPU / "online").write_text("0-9\n")
        step = states.enter(step)
        assert (text(root, "smt/control"), text(root, "cpufreq/boost")) == ("off", "0")
        assert cells.words(step) == [
            "serve", "--threads", "10", "--variant", "open", "--cpus", "0,1,2,3,4,5,6,7,8,9",
            "--rate", "2000", "--how", "park",
        ]  # fmt: skip
        (root / CPU / "online").write_text("0-19\n")
        step = cells.step(by_name["open-boost-on-smt-on"], 1, 2)
        step = states.enter(step)
        assert (text(root, "smt/control"), text(root, "cpufreq/boost")) == ("on", "1")
        assert (step.threads, step.cell and step.cell.options[1]) == (20, "1000")
        # The same load in every state.
        assert step.cell is not None
        assert step.cell.facts.offered_per_s == 20_000.0
    finally:
        states.close()


def test_states_are_restored_at_the_end_and_after_an_error(tmp_path: Path) -> None:
    root = machine_with(tmp_path, smt="off", no_turbo="1")
    found, _ = knobs.find(root)
    states = smt_boost.States(found, host.linux(root))
    for cell in smt_boost.plan(found, (), 1000.0):
        states.enter(cells.step(cell, 1, 1))
    assert (text(root, "smt/control"), text(root, "intel_pstate/no_turbo")) == ("on", "0")
    states.close()
    assert (text(root, "smt/control"), text(root, "intel_pstate/no_turbo")) == ("off", "1")
    (root / CPU / "smt/control").unlink()
    states.begin()
    (root / CPU / "smt/control").mkdir()
    with pytest.raises(KnobError, match="not all settings were restored"):
        states.close()


_PARENT = """
import sys, time
from pathlib import Path
from schedlens.experiments import smt_boost
from schedlens.machine import knobs
from schedlens.record import host
root = Path(sys.argv[1])
found, _ = knobs.find(root)
states = smt_boost.States(found, host.linux(root))
states.begin()
for knob in found.values():
    knob.set("off")
print(states._guard.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_guard_restores_state_after_parent_is_killed(tmp_path: Path, sign: signal.Signals) -> None:
    root = machine_with(tmp_path, boost="1")
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, str(root)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert (text(root, "smt/control"), text(root, "cpufreq/boost")) == ("off", "0")
        # A signal that a terminal sends to the session does not reach the guard.
        assert os.getsid(pid) == pid
        for harmless in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(pid, harmless)
        parent.send_signal(sign)
        assert parent.wait(60) == -sign
        assert wait_for(lambda: text(root, "smt/control") == "on")
        assert wait_for(lambda: text(root, "cpufreq/boost") == "1")
    finally:
        parent.kill()
        parent.wait()
        if parent.stdout is not None:
            parent.stdout.close()


def test_only_changed_states_are_written(tmp_path: Path) -> None:
    same, other = tmp_path / "same", tmp_path / "other"
    same.write_text("on\n")
    other.write_text("off\n")
    same.chmod(0o400)
    before = same.stat().st_mtime_ns
    contents = [(str(same), "on"), (str(other), "on"), (str(tmp_path / "gone"), "on")]
    assert former_settings.put_back(contents) == [str(tmp_path / "gone")]
    assert other.read_text() == "on\n"
    assert same.stat().st_mtime_ns == before


def test_journal_survives_a_killed_guard(tmp_path: Path) -> None:
    file, folder = tmp_path / "control", tmp_path / "state"
    file.write_text("on\n")
    contents = [(str(file), "on")]
    changes.remember(contents, folder)
    file.write_text("off\n")
    [left] = changes.left_behind(folder)
    assert (left.what, left.before) == (f"set {file}", "on")
    undone, slices = changes.restore(folder)
    assert (undone, slices) == ([left], [])
    assert file.read_text() == "on\n"
    changes.remember(contents, folder)
    changes.forget(contents, folder)
    assert changes.left_behind(folder) == []


def test_cells_of_a_repeat_share_arrivals_and_repeats_differ(tmp_path: Path) -> None:
    machine = topology.read(machine_with(tmp_path, boost="1"))
    found, _ = knobs.find(tmp_path)
    made = smt_boost.plan(found, (), 20_000.0)

    def seeds(session: int) -> dict[int, set[str]]:
        by_repeat: dict[int, set[str]] = {}
        for step in cells.shuffled(made, 6, session):
            words = cells.words(smt_boost.filled(step, machine))
            assert ("--seed" in words) == ("open" in words)
            if "--seed" in words:
                by_repeat.setdefault(step.repeat, set()).add(words[words.index("--seed") + 1])
        return by_repeat

    first, again, other = seeds(1), seeds(1), seeds(2)
    assert [len(first[repeat]) for repeat in range(1, 7)] == [1] * 6
    assert len(set[str]().union(*first.values())) == 6
    assert again == first
    assert set[str]().union(*other.values()).isdisjoint(set[str]().union(*first.values()))


@pytest.mark.parametrize("work_pct", [25, 50, 75])
def test_spinning_server_is_normalised_by_its_work(tmp_path: Path, work_pct: int) -> None:
    """With boost a request takes 2/3 of the time; the system sees 90 % busy in both cells."""
    root = machine_with(tmp_path / "root", smt=None, boost="1")
    found, missing = knobs.find(root)
    machine = topology.read(root)
    made = [cell for cell in smt_boost.plan(found, (), 20_000.0) if cell.facts.load == "open"]
    steps = [smt_boost.filled(step, machine) for step in cells.shuffled(made, 6, 1)]
    workers = {}
    for step in steps:
        assert step.cell is not None
        faster = 2 / 3 if step.cell.facts.boost == "on" else 1.0
        counts = {
            **_counts(1000), "busy_ns": 90_000_000, "work_ns": round(work_pct * 10**6 * faster),
        }  # fmt: skip
        workers[step.name] = [{"counts": counts}] * 20
    folder = experiment_session.write(
        tmp_path / "session", machine, steps, {s.name: [1e4] * 20 for s in steps},
        workers=workers, experiment={"name": "smt-boost", "missing": missing},
    )  # fmt: skip
    with experiment_session.analyzed(folder) as con:
        rows = con.execute(
            "SELECT boost, round(work_pct, 6), round(gain_pct, 6), round(normalised_gain_pct, 4) "
            "FROM smt_boost ORDER BY boost"
        ).fetchall()
    assert rows == [
        ("off", float(work_pct), 0.0, 0.0), ("on", round(work_pct * 2 / 3, 6), 0.0, 50.0),
    ]  # fmt: skip


def _counts(per_s: int, late: int = 0) -> dict[str, int]:
    return {"requests": per_s // 10, "late_starts": late, "busy_ns": 0, "interval_ns": 10**8}


def test_session_has_expected_numbers(tmp_path: Path) -> None:
    """Boost +40 %, SMT +43 %, both +86 %; SMT gives the most per joule."""
    root = machine_with(tmp_path / "root", boost="1")
    found, missing = knobs.find(root)
    machine = topology.read(root)
    made = [cell for cell in smt_boost.plan(found, (), 0.0) if cell.facts.load == "closed"]
    gain = {"boost-off-smt-off": 100, "boost-on-smt-off": 140, "boost-off-smt-on": 143,
            "boost-on-smt-on": 186}  # fmt: skip
    watts = {"boost-off-smt-off": 100, "boost-on-smt-off": 135, "boost-off-smt-on": 107,
             "boost-on-smt-on": 158}  # fmt: skip
    steps = cells.shuffled(made, 6, 1)
    workers, power = {}, {}
    for number, step in enumerate(steps):
        cell = step.cell
        assert cell is not None
        smt = cell.facts.smt == "on"
        count = 20 if smt else 10
        cpus = tuple(range(count))
        cell = replace(cell, cpus=cpus, threads=count)
        if not smt:
            offline = tuple(replace(cpu, online=cpu.cpu < 10) for cpu in machine.cpus)
            cell = replace(cell, topology=replace(machine.saved, cpus=offline))
        steps[number] = replace(step, planned_cpus=cpus, threads=count, cell=cell)
        each = gain[cell.place] * 1000 // count
        workers[step.name] = [{"counts": _counts(each)}] * count
        power[step.name] = {
            "energy": {"package-0": watts[cell.place] / 10}, "energy_ns": 100_000_000,
        }  # fmt: skip
    folder = experiment_session.write(
        tmp_path / "session", machine, steps, {s.name: [1e4] * (s.threads or 0) for s in steps},
        workers=workers, machine=power, experiment={"name": "smt-boost", "missing": missing},
    )  # fmt: skip
    with experiment_session.analyzed(folder) as con:
        rows = con.execute(
            "SELECT smt, boost, cpus, per_s, round(gain_pct, 6), round(watts_gain_pct, 6), "
            "round(requests_per_joule), repeats FROM smt_boost"
        ).fetchall()
        assert rows == [
            ("off", "off", 10, 100_000, 0.0, 0.0, 1000.0, 6),
            ("off", "on", 10, 140_000, 40.0, 35.0, 1037.0, 6),
            ("on", "off", 20, 143_000, 43.0, 7.0, 1336.0, 6),
            ("on", "on", 20, 186_000, 86.0, 58.0, 1177.0, 6),
        ]
        shown = experiment_session.section(con, "smt_boost")
        assert shown["figures"][0]["caption"] == (
            "Requests per second in each cell. The highest: 186,000 in closed-boost-on-smt-on."
        )
        [detail] = con.execute("SELECT detail FROM finding WHERE analyzer = 'smt_boost'").fetchall()
    assert plain(detail[0]) == (
        "Load closed: 100,000 requests a second with SMT off and boost off; relative to "
        "that SMT off and boost on "
        "+40 % at +35 % power, SMT on and boost off +43 % at +7 % power, SMT on and boost on +86 % "
        "at +58 % power; most requests per joule with SMT on and boost off (1,340)."
    )


def test_program_is_timed_itself_and_gains_pair_by_repeat(tmp_path: Path) -> None:
    """Half the time with boost; one repeat of two was aborted and does not count as fast."""
    root = machine_with(tmp_path / "root", smt=None, boost="1")
    found, _ = knobs.find(root)
    steps = cells.shuffled(smt_boost.plan(found, ("make",), 0.0), 7, 1)
    folder = experiment_session.write(tmp_path / "session", topology.read(root), steps, {})
    for step in steps:
        file = folder / step.name / "step.json"
        row = json.loads(file.read_text())
        assert step.cell is not None
        boosted = step.cell.facts.boost == "on"
        # The whole machine slows from repeat to repeat, which cancels out.
        row["command_ns"] = step.repeat * (500_000_000 if boosted else 1_000_000_000)
        if step.repeat == 4 and boosted:
            row["command_ns"] = None
        file.write_text(json.dumps(row))
    with experiment_session.analyzed(folder) as con:
        rows = con.execute(
            "SELECT boost, repeats, round(per_s, 6), round(gain_pct, 6), round(gain_low_pct, 6), "
            "round(gain_high_pct, 6) FROM smt_boost"
        ).fetchall()
    assert rows == [
        ("off", 7, 0.25, 0.0, 0.0, 0.0),
        # The median of 2, 1, 2/3, 2/5, 1/3 and 2/7.
        ("on", 6, round((2 / 3 + 2 / 5) / 2, 6), 100.0, 100.0, 100.0),
    ]


def test_latency_and_requests_per_joule_are_compared_by_repeat(tmp_path: Path) -> None:
    """Boost: half the median, a p99 that is 0.5 to 0.75 of that without; +20 % per joule."""
    root = machine_with(tmp_path / "root", smt=None, boost="1")
    found, _ = knobs.find(root)
    made = [cell for cell in smt_boost.plan(found, (), 0.0) if cell.facts.load == "closed"]
    steps = cells.shuffled(made, 6, 1)
    workers, power = {}, {}
    for step in steps:
        assert step.cell is not None
        boosted = step.cell.facts.boost == "on"
        # The machine slows from repeat to repeat, which cancels out.
        usual = step.repeat * (10_000 if boosted else 20_000)
        tail = step.repeat * 80_000
        if boosted:
            tail = tail // 4 * 3 if step.repeat > 3 else tail // 2
        per_s = 120_000 if boosted else 100_000
        latency = [[usual, 9_800], [tail, 200]]
        workers[step.name] = [{"counts": _counts(per_s), "latency": latency}]
        power[step.name] = {"energy": {"package-0": 10.0}, "energy_ns": 100_000_000}
    folder = experiment_session.write(
        tmp_path / "session", topology.read(root), steps, {s.name: [1e4] for s in steps},
        workers=workers, machine=power, experiment={"name": "smt-boost", "missing": []},
    )  # fmt: skip
    with experiment_session.analyzed(folder) as con:
        rows = con.execute(
            "SELECT boost, percentile, latency_ns, latency_gain_pct, latency_gain_low_pct, "
            "latency_gain_high_pct, round(coverage_pct, 1) FROM smt_boost_latency "
            "WHERE percentile IN (50, 99)"
        ).fetchall()
        assert rows == [
            ("off", 50, 70_000, 0, 0, 0, 96.9),
            ("off", 99, 280_000, 0, 0, 0, 96.9),
            ("on", 50, 35_000, -50, -50, -50, 96.9),
            ("on", 99, 180_000, -37.5, -50, -25, 96.9),
        ]
        thrift = con.execute(
            "SELECT round(requests_per_joule_gain_pct, 6), "
            "round(requests_per_joule_gain_low_pct, 6), "
            "round(requests_per_joule_gain_high_pct, 6) FROM smt_boost"
        ).fetchall()
        assert thrift == [(0, 0, 0), (20, 20, 20)]
        [detail] = con.execute(
            "SELECT detail FROM finding WHERE analyzer = 'smt_boost' AND kind = 'gain'"
        ).fetchall()
        assert "boost on +20 % at +0 % power and -38 % p99 (-50 to -25)" in plain(detail[0])


@pytest.mark.alone
def test_small_run_on_this_machine_succeeds(tmp_path: Path) -> None:
    # Nothing is switched: others use the machine of a test too.
    if knobs.find()[0]:
        pytest.skip("this machine has the switches, and a test must not change them")
    folder = tmp_path / "session"
    done = command(
        "collect", "--experiment", "smt-boost", "--seconds", "0.2", "--repeat", "1",
        "-o", str(folder),
    )  # fmt: skip
    assert "not measured here: smt: " in done.stderr
    assert "not measured here: boost: " in done.stderr
    done = command("analyze", str(folder), "--json", "--no-report", check=False)
    assert done.returncode in (0, 1)
    answer = json.loads(done.stdout)["experiment"]
    assert [(row["load"], row["smt"], row["boost"]) for row in answer["smt-boost"]["cells"]] == [
        ("closed", None, None), ("open", None, None),
    ]  # fmt: skip
    assert [text.partition(":")[0] for text in answer["missing"]][:2] == ["smt", "boost"]
