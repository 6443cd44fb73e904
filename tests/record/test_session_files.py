"""The models of session.json and step.json: unchanged content, and errors that name the field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from shared_files import ROOT

from schedlens.errors import NothingToReadError, SessionError
from schedlens.load import recording, session_context, session_file, step_file
from schedlens.load.measured_cell import Cell, Facts, Load
from schedlens.load.recording import Recording
from schedlens.load.session_file import SavedOptions
from schedlens.load.step_file import Check, StepFile

QEMU = ROOT / "fixtures/qemu"

# The keys in the order of the files that existing sessions contain.
PLAN = [
    "schema", "name", "workload", "placement", "placements", "threads", "repeat", "oversubscribed",
    "planned_cpus", "cell", "command", "seconds", "missing", "recorded",
]  # fmt: skip
LINUX = [
    "begin_mono_ns", "end_mono_ns", "perf_command", "counters_commands", "overhead", "interrupted",
]  # fmt: skip
WINDOWS = [
    "perf_command", "counters_commands", "begin_mono_ns", "end_mono_ns", "pid", "stopped_by",
    "slow_frame_ms", "recorder_commands", "presentmon_command", "reported", "overhead",
    "throughput",
]  # fmt: skip
LAST = ["checks", "warnings"]

SESSION: dict[str, Any] = {
    "schema": 1, "tool_version": "0.1.0", "created_utc": "2026-01-01T00:00:00Z", "host": "h",
    "command": ["collect"],
    "request": {
        "workload": "serve", "variant": None, "threads": None, "placements": ["default"],
        "cpus": None, "seconds": 0.5, "repeats": 6, "pid": None, "process": None, "light": False,
        "counters": [], "command": [], "depth": None, "how": None, "experiment": "smt-boost",
        "full": False, "pairs": [], "seed": 7, "buffer_size": None,
        "warm_up": 0.0, "stacks": None, "samples_hz": None,
    },
    "topology": {
        "source": "GetLogicalProcessorInformationEx",
        "cpus": [{
            "cpu": 0, "online": True, "core": 0, "smt_index": 0, "core_type": "P",
            "efficiency_class": 1, "capacity": None, "l2": 0, "llc": 0, "package": 0,
            "numa_node": 0, "base_khz": None, "max_khz": None, "group_no": 0, "number_in_group": 0,
        }],
        "allowed": [0],
    },
    "os": "Windows", "kernel": "10.0",
    "windows": {
        "recorder": None, "presents": False, "presentmon": None, "ring_s": None,
        "stop_on_frame_ms": None,
    },
    "settings": {"vbs": None, "cpu_model": "x"},
    "capture": {
        "mode": "wpr", "missing": [], "allow": None, "perf_version": None, "counters": [],
        "presents": False, "ring_s": None,
    },
    "changed": [{"what": "a", "before": "b", "after": "c", "restored": True}],
    "experiment": {"name": "smt-boost", "missing": ["energy"], "other_users": None},
    "steps": [
        {
            "name": "open-boost-off-r1", "workload": "serve", "placements": ["pinned"],
            "placement": "pinned", "threads": 1, "repeat": 1, "oversubscribed": False,
            "planned_cpus": [0], "state": "failed", "why": "disk",
            "cell": {
                "experiment": "smt-boost", "name": "open-boost-off", "place": "boost-off",
                "cpus": [0], "loads": [{"kernel": "serve", "variant": "open"}], "threads": 1,
                "options": ["--rate", "10"],
                "predicted": [None, {"slowdown": 1.5, "basis": "ports"}],
                "facts": {"boost": "off", "load": "open", "how": "park", "offered_per_s": 10.0},
                "placements": [], "position": 3,
                "topology": {"source": "sysfs", "cpus": [], "allowed": [0]},
            },
        },
        {
            "name": "b-r1", "workload": None, "placements": [], "placement": None,
            "threads": None, "repeat": 1, "oversubscribed": False, "planned_cpus": None,
            "state": "planned",
        },
    ],
}  # fmt: skip


def planned(cell: Cell | None = None, **more: Any) -> StepFile:
    """A finished step with these fields."""
    plan: dict[str, Any] = {
        "name": "a-r1", "workload": None, "placement": None, "placements": (), "threads": None,
        "repeat": 1, "oversubscribed": False, "planned_cpus": None, "recorded": True,
        "begin_mono_ns": 5, "end_mono_ns": 9,
    }  # fmt: skip
    return StepFile(**(plan | {"cell": cell} | more))


def test_session_is_written_as_it_was_read() -> None:
    text = json.dumps(SESSION, indent=1)
    read = session_file.from_json(json.loads(text), Path("session.json"))
    assert json.dumps(read.to_json(), indent=1) == text
    assert read.windows == SavedOptions()
    on_linux = {key: value for key, value in SESSION.items() if key != "windows"}
    on_linux["capture"] = {
        "mode": "full", "missing": ["x"], "allow": "do", "perf_version": "6.1", "counters": ["a"],
    }  # fmt: skip
    again = session_file.from_json(on_linux, Path("session.json")).to_json()
    assert json.dumps(again) == json.dumps(on_linux)


@pytest.mark.parametrize(
    ("step", "keys"),
    [
        (planned(workload="sha256"), [*PLAN, *LINUX, "throughput", "machine", *LAST]),
        (planned(command=("a",)), [*PLAN, *LINUX, "pid", "machine", "command_ns", *LAST]),
        (
            planned(Cell("pairs", "a", "b", (1,), facts=Facts(command_cpu=0)), workload="imul3"),
            [*PLAN, *LINUX, "throughput", "machine", "command_ns", *LAST],
        ),
        (planned(stopped_by="time", workload="sha256"), [*PLAN, *WINDOWS, *LAST]),
        (planned(stopped_by="time"), [*PLAN, *WINDOWS, *LAST]),
        (planned(stopped_by="enter", command=("a",)), [*PLAN, *WINDOWS, "command_ns", *LAST]),
    ],
)
def test_step_has_the_keys_of_its_system_and_kind(step: StepFile, keys: list[str]) -> None:
    row = step.to_json()
    assert list(row) == keys
    assert step_file.from_json(json.loads(json.dumps(row)), Path("step.json")) == step


def test_only_the_check_of_switch_records_has_their_number() -> None:
    checks = (Check("lost", True, "none", None), Check("switch_records", True, "3", None, 3))
    rows = planned(checks=checks).to_json()["checks"]
    assert ["from_switch_records" in row for row in rows] == [False, True]


def test_fixture_sessions_of_an_older_version_are_read() -> None:
    session = session_file.read(QEMU / "session.json")
    assert (session.request, session.capture.mode) == (None, None)
    steps = [step_file.read(QEMU / step.name / "step.json") for step in session.steps]
    assert [step.name for step in steps] == [step.name for step in session.steps]
    assert {step.cell for step in steps} == {None}


def changed(path: str, value: object) -> dict[str, Any]:
    """SESSION with another value at a path such as `steps.0.cell.loads`; ... removes the key."""
    made: dict[str, Any] = json.loads(json.dumps(SESSION))
    *folders, last = path.split(".")
    place: Any = made
    for name in folders:
        place = place[int(name)] if name.isdigit() else place[name]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return made


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("schema", ..., "schema is missing"),
        ("schema", 2, "written by a newer schedlens; its schema is 2, this version reads 1: update "
                      "schedlens"),
        ("topology", None, "topology is null, not an object"),
        ("topology.cpus.0.cpu", "0", 'topology.cpus[0].cpu is "0", not a whole number'),
        ("topology.cpus.0.online", ..., "topology.cpus[0].online is missing"),
        ("settings", [], "settings is a list, not an object"),
        ("settings.vbs", {}, "settings.vbs is an object, not a text or null"),
        ("windows.recorder", "etw", 'windows.recorder is "etw", not one of wpr, xperf or null'),
        ("steps", {}, "steps is an object, not a list"),
        ("steps.1.name", ..., "steps[1].name is missing"),
        ("steps.0.state", "begun", 'steps[0].state is "begun", not one of planned, done, failed'),
        ("steps.0.threads", "two", 'steps[0].threads is "two", not a whole number or null'),
        ("steps.0.cell.loads", [{}], "steps[0].cell.loads[0].kernel is missing"),
        ("steps.0.cell.facts.handoffs", 1.5, "steps[0].cell.facts.handoffs is 1.5, not a whole "
                                             "number or null"),
        ("request.seconds", float("inf"), "request.seconds is Infinity, not a number or null"),
    ],
)  # fmt: skip
def test_malformed_session_names_file_and_field(path: str, value: object, message: str) -> None:
    with pytest.raises(SessionError) as caught:
        session_file.from_json(changed(path, value), Path("s/session.json"))
    assert str(caught.value) == f"{Path('s/session.json')}: {message}"


def test_unknown_keys_are_ignored() -> None:
    for path in ("later", "topology.later", "steps.0.later", "steps.0.cell.facts.later"):
        made = session_file.from_json(changed(path, {"x": [None]}), Path("session.json"))
        assert made.to_json() == SESSION


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A session with one finished step, without a recording."""
    (tmp_path / "session.json").write_text(json.dumps(changed("steps.1.name", "a-r1")))
    (tmp_path / "a-r1").mkdir()
    content = planned(Cell("pairs", "a", "b", (1,), (Load("imul1"),)), workload="imul1", threads=1)
    (tmp_path / "a-r1/step.json").write_text(json.dumps(content.to_json()))
    return tmp_path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"schema": 1, "na', "cannot read "),
        ("[" * 100_000, "cannot read "),
        ("3", "does not contain a JSON object"),
        ('{"schema": 1}', "step.json: name is missing"),
        ('{"schema": 9}', "step.json: written by a newer schedlens; its schema is 9"),
    ],
)
@pytest.mark.parametrize("whole", [True, False])
def test_malformed_step_stops_the_analysis_in_one_line(
    text: str, message: str, whole: bool, folder: Path
) -> None:
    (folder / "a-r1/step.json").write_text(text)
    with pytest.raises(NothingToReadError) as caught:
        recording.gather([folder if whole else folder / "a-r1"])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("whole", [True, False])
def test_malformed_session_stops_the_analysis_in_one_line(whole: bool, folder: Path) -> None:
    (folder / "session.json").write_text(json.dumps(changed("steps.0.repeat", None)))
    with pytest.raises(SessionError, match=r"session\.json: steps\[0\]\.repeat is null, not a who"):
        recording.gather([folder if whole else folder / "a-r1"])


def test_step_without_a_session_is_read(folder: Path) -> None:
    (folder / "session.json").unlink()
    (found,) = recording.gather([folder / "a-r1"])
    assert (found.session, found.topology) == (None, None)
    assert found.step is not None
    assert found.step.workload == "imul1"


@pytest.mark.parametrize(
    "step",
    [planned(planned_cpus=(1 << 40,)), planned(repeat=1 << 40), planned(name="\ud800")],
)
def test_value_that_no_column_can_store_is_an_error_of_its_recording(step: StepFile) -> None:
    from schedlens import _decoders

    with pytest.raises(NothingToReadError, match=r"^r: a file of the step is malformed"):
        session_context.tables(Recording("r", None, step=step), 1, _decoders.schemas())


def test_command_that_is_not_utf8_is_stored_with_question_marks() -> None:
    from schedlens import _decoders

    step = planned(command=("tr\udcff", "a b"))
    made = session_context.tables(Recording("r", None, step=step), 1, _decoders.schemas())
    assert made["run"].column("command").to_pylist() == ["'tr?' 'a b'"]
