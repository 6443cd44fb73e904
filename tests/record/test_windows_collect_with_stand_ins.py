"""`collect` as on Windows, with stand-ins for wpr, PresentMon and the commands of Windows.

There is no Windows here: the tests check the commands, their order, and how `collect` handles
their output and errors.
"""

from __future__ import annotations

import json
import lzma
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
import shared_files
import windows_texts
from record.test_windows_settings import ANSWERS
from windows_stand_ins import StandIns, header_only_etl

from schedlens.commands import cli
from schedlens.machine import operating_system
from schedlens.record.windows import elevation

if TYPE_CHECKING:
    from collectors import etw_file
else:
    from schedlens.collectors import etw_file

pytestmark = pytest.mark.slow

CORPUS = shared_files.folder() / "etw" / "corpus"
# Start of the header-only recording in ns, by its own clock of 10 MHz.
BEGIN_NS = 500_000_000_000
EDGES_NS = (BEGIN_NS + 10_000_000, BEGIN_NS + 1_010_000_000)

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIns:
    """A machine that reports itself as Windows, with stand-ins first on its path."""
    return stand_ins(tmp_path, monkeypatch, header_only_etl(), EDGES_NS)


def stand_ins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, etl: bytes, edges_ns: tuple[int, int]
) -> StandIns:
    """Stand-ins with this recording."""
    made = StandIns(tmp_path / "stand-ins", etl, edges_ns)
    made.texts([(list(words), text) for words, text in ANSWERS.items()])
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(operating_system, "name", lambda: "windows")
    monkeypatch.chdir(tmp_path)
    return made


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs `collect`; its exit code and output."""

    def run(*words: str) -> tuple[int, str]:
        code = cli.run(cli.group, ["collect", *words], name="schedlens")
        said = capfd.readouterr()
        return code, said.out + said.err

    return run


def load(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return value


def test_machine_is_recorded_with_all_session_files(windows: StandIns, run: Run) -> None:
    code, said = run("--seconds", "0.2", "--presents", "-o", "session")
    assert (code, said.count("warning")) == (0, 0), said
    session = load(Path("session/session.json"))
    assert session["topology"]["source"] == "GetLogicalProcessorInformationEx"
    types = [cpu["core_type"] for cpu in session["topology"]["cpus"]]
    assert types == ["P"] * 16 + ["E"] * 8
    assert Path("session/topology.bin").read_bytes() == (windows.home / "buffer").read_bytes()
    assert session["settings"]["power_plan.CPMINCORES.ac"] == "100"
    assert session["settings"]["vbs"] == "running"
    assert session["settings"]["windows_build"] == "10.0.22631.3479 (23H2)"
    assert (session["capture"]["mode"], session["capture"]["presents"]) == ("wpr", True)
    step = load(Path("session/machine-r1/step.json"))
    assert (step["begin_mono_ns"], step["end_mono_ns"]) == EDGES_NS
    assert step["stopped_by"] == "time"
    assert [cpu["processor_utility_pct"] for cpu in step["reported"]["cpus"]] == [140.0, 0.0]
    assert [(row["check"], row["ok"]) for row in step["checks"]] == [
        ("lost_events", True), ("clock", True), ("covers_begin", True),
    ]  # fmt: skip
    assert "reported" not in load(Path("session/machine-r1/end.json"))
    assert Path("session/machine-r1/trace.etl").read_bytes() == header_only_etl()
    profile = str(Path("session/schedlens.wprp"))
    trace = str(Path("session/machine-r1/trace.etl"))
    assert windows.calls_of("wpr") == [
        [
            "-start",
            f"{profile}!SchedLensPresents",
            "-filemode",
            "-recordtempto",
            str(Path("session/machine-r1")),
            "-instancename",
            "schedlens",
        ],
        ["-stop", trace, "-skipPdbGen", "-instancename", "schedlens"],
    ]


def test_workload_runs_without_and_with_the_recorder(windows: StandIns, run: Run) -> None:
    code, said = run(
        "--workload", "imul1", "--threads", "1", "--placement", "default", "--seconds", "0.1",
        "-o", "session",
    )  # fmt: skip
    assert code == 0, said
    step = load(Path("session/imul1-default-t01-r1/step.json"))
    assert step["overhead"]["unit"] == "iterations"
    assert step["throughput"]["unit"] == "iterations"
    for folder in ("baseline", "."):
        workload = load(Path("session/imul1-default-t01-r1") / folder / "workload.json")
        assert workload["status"] == "ok"
    assert [words[0] for words in windows.calls_of("wpr")] == ["-start", "-stop"]


def test_sweep_is_planned_on_the_windows_topology(windows: StandIns, run: Run) -> None:
    # CPU 23 exists on the machine in the buffer but perhaps not on this one: the test looks at the
    # plan, and the worker may not be bound.
    code, said = run(
        "--workload", "imul1", "--threads", "9", "--placement", "physical", "--seconds", "0.05",
        "-o", "session",
    )  # fmt: skip
    planned = load(Path("session/session.json"))["steps"][0]["planned_cpus"]
    assert planned == [0, 2, 4, 6, 8, 10, 12, 14, 16]
    assert code in (0, 2), said


def test_command_is_run_and_its_exit_code_recorded(windows: StandIns, run: Run) -> None:
    program = "import sys; sys.exit(3)"
    code, said = run("-o", "session", "--", sys.executable, "-c", program)
    assert code == 0, said
    step = load(next(Path("session").glob("*/step.json")))
    assert step["warnings"] == ["the command exited with code 3"]
    assert step["stopped_by"] == "process_end"
    assert step["pid"] is not None


def has_game(windows: StandIns) -> None:
    """Lets tasklist find game.exe."""
    texts = [(list(words), text) for words, text in ANSWERS.items()]
    find = ["tasklist", "/fo", "csv", "/nh", "/fi", "imagename eq game.exe"]
    windows.texts([*texts, (find, windows_texts.TASKS)])


def test_process_is_found_by_name_and_recorded(windows: StandIns, run: Run) -> None:
    has_game(windows)
    code, said = run("--process", "game", "--seconds", "5", "-o", "session")
    assert code == 0, said
    step = load(Path("session/game-r1/step.json"))
    # Neither the system nor the stand-in for tasklist knows a process with that number.
    assert (step["pid"], step["stopped_by"]) == (8388608, "process_end")
    assert step["warnings"] == ["process 8388608 ended before the requested time"]
    code, said = run("--process", "other", "-o", "none")
    assert (code, said) == (2, "schedlens: --process: no process named 'other.exe' is running\n")


@pytest.mark.parametrize(
    ("word", "number", "text", "message"),
    [
        ("-start", 0xC5585011, "Failed to enable the policy to profile system performance.",
         "recording needs an elevated prompt. Right-click Terminal, choose 'Run as administrator'"),
        ("-start", 0xC5583001, "The profiles are already running.",
         "Stop it with `wpr -cancel -instancename schedlens` and run this again"),
        ("-start", 0x800705AA, "Insufficient system resources exist.",
         "Stop one of those that `logman query -ets` lists"),
        ("-start", 0x80070008, "Not enough memory resources are available.",
         "Close programs or use a shorter --ring"),
        ("-start", 0xC5580612, "Something else.", "refuses the profile (Something else. Error"),
        ("-start", 0xC5580701, "Invalid value.", "this version may be older than the profile"),
        ("-start", 0xC5583014, "In use.", "End it, or stop its session: `logman query -ets`"),
        ("-start", 0xC558300C, "Failed.", "Use a WPR of the same version as Windows"),
        ("-start", 0x80010106, "Cannot change thread mode.", "Restart Windows, or install the "),
        ("-start", 0x800700B7, "Already exists.",
         "WPR also reports this for a profile that is named twice"),
        ("-stop", 0x80071069, "Unknown.", "the disk of its temporary files may be full"),
        ("-stop", 0xC5583000, "There are no trace profiles running.",
         "another program stopped the recording"),
        ("-stop", 0x80070070, "There is not enough space on the disk.",
         "no space left on the disk for the recording"),
    ],
)  # fmt: skip
def test_each_refusal_says_what_to_do(
    windows: StandIns, run: Run, word: str, number: int, text: str, message: str
) -> None:
    windows.refuse(word, number, text)
    code, said = run("--seconds", "0.1", "-o", "session")
    assert code == 2
    assert message in said
    # No started recording is left behind.
    assert not (windows.home / "wpr.running").exists()
    assert not Path("session/machine-r1").exists()


def test_without_rights_nothing_is_started(
    windows: StandIns, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedlens.record.windows.platform.elevated", lambda: False)
    code, said = run("-o", "session")
    assert code == 2
    assert said.startswith("schedlens: recording needs an elevated prompt")
    assert said.count("\n") == 1
    assert windows.calls_of("wpr") == []
    assert not Path("session").exists()
    assert elevation.elevated() is None or sys.platform == "win32"


def test_only_offered_counters_are_accepted(windows: StandIns, run: Run) -> None:
    names = "InstructionRetired,TotalCycles"
    code, said = run("--counters", names, "--seconds", "0.1", "-o", "session")
    assert code == 0, said
    profile = Path("session/schedlens.wprp").read_text(encoding="utf-8")
    assert '<Counter Value="InstructionRetired" />' in profile
    assert load(Path("session/session.json"))["capture"]["counters"] == names.split(",")
    for wanted, message in (
        ("LLCMisses", "this machine has no counter 'LLCMisses'. `wpr -pmcsources` lists Timer"),
        ("A,B,C,D,E", "5 counters requested, but a core can count only 4 at once"),
    ):
        code, said = run("--counters", wanted, "-o", "other")
        assert (code, message in said, said.count("\n")) == (2, True, 1)
    (windows.home / "wpr.pmcsources").write_text(windows_texts.ONLY_TIMER)
    code, said = run("--counters", names, "-o", "other")
    assert code == 2
    assert "(Hyper-V, virtualization-based security, or a virtual machine) hides" in said
    assert "or record without --counters" in said


def test_doctor_lists_what_this_machine_permits(
    windows: StandIns, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def doctor(*words: str) -> tuple[int, str]:
        code = cli.run(cli.group, ["doctor", *words], name="schedlens")
        return code, capfd.readouterr().out

    code, said = doctor()
    assert code == 0, said
    rows = [line.split(maxsplit=2) for line in said.splitlines()]
    assert [(row[0], row[1]) for row in rows] == [
        ("ok", name) for name in ("CPUs", "settings", "recorder", "rights", "counters", "workloads")
    ]
    assert "24 online, 24 allowed, 16 cores, siblings, 8 of type E, 16 of type P" in said
    assert "windows_build 10.0.22631.3479 (23H2)" in said
    assert "TotalIssues, CacheMisses, TotalCycles, UnhaltedCoreCycles, InstructionRetired" in said

    (windows.home / "wpr.pmcsources").write_text(windows_texts.ONLY_TIMER)
    code, said = doctor()
    assert code == 1
    assert "-> the only available counter is the timer" in said
    monkeypatch.setattr("schedlens.record.windows.examination.elevated", lambda: False)
    code, said = doctor()
    assert code == 1
    assert "-> recording needs an elevated prompt" in said

    (windows.home / "wpr.running").touch()
    assert doctor("--restore") == (0, "undone: a recording by wpr: none again\n")
    assert not (windows.home / "wpr.running").exists()


def test_lost_events_and_other_clock_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    stand_ins(tmp_path, monkeypatch, header_only_etl(lost=(7, 2), clock=2), EDGES_NS)
    code, said = run("--seconds", "0.1", "-o", "session")
    assert code == 0
    assert "7 events and 2 buffers were lost: increase the buffers" in said
    assert "the recording's clock is system_time" in said


def test_invalid_recording_fails_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    stand_ins(tmp_path, monkeypatch, b"no recording", EDGES_NS)
    code, said = run("--seconds", "0.1", "-o", "session")
    assert code == 2
    assert "trace.etl contains no recording: record the step again" in said


FRAMES = """\
warning: a line before the head
Application,ProcessID,SwapChainAddress,{column}
game.exe,8388608,0x1,16.6
game.exe,8388608,0x1,NA
game.exe,8388608,0x1,{slow}
game.exe,8388608,0x1,90.0
"""


@pytest.mark.parametrize("column", ["msBetweenPresents", "FrameTime", "MsBetweenPresents"])
def test_ring_stops_at_a_slow_frame(windows: StandIns, run: Run, column: str) -> None:
    (windows.home / "frames.csv").write_text(FRAMES.format(column=column, slow="55.5"))
    has_game(windows)
    code, said = run(
        "--ring", "30", "--presentmon", str(windows.bin / "PresentMon"), "--stop-on-frame", "50",
        "--process", "game", "-o", "session",
    )  # fmt: skip
    assert code == 0, said
    assert "keeping the last 30 s in 726 MB until you press Enter or a slow frame" in said
    assert "ended by a frame of 55.5 ms" in said
    step = load(Path("session/game-r1/step.json"))
    assert (step["stopped_by"], step["slow_frame_ms"]) == ("frame", 55.5)
    # PresentMon ended by itself, so its last lines are there.
    text = Path("session/game-r1/presentmon.csv").read_text()
    assert text.splitlines()[-1] == "last.exe,9,0x1,16.0"
    assert "-filemode" not in windows.calls_of("wpr")[0]
    assert windows.calls_of("PresentMon") == [
        ["-output_stdout", "-qpc_time", "-session_name", "schedlens-presentmon",
         "-stop_existing_session", "-process_id", "8388608"],
    ]  # fmt: skip
    # 24 CPUs: 30 s of 4 MB, and 0.75 MB for each of them.
    assert '<Buffers Value="660" />' in Path("session/schedlens.wprp").read_text(encoding="utf-8")


def test_ring_stops_at_enter(windows: StandIns, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    read = iter(["\n"])
    monkeypatch.setattr(sys, "stdin", type("Keys", (), {"readline": lambda self: next(read)})())
    code, said = run("--ring", "30", "-o", "session")
    assert code == 0, said
    assert load(Path("session/machine-r1/step.json"))["stopped_by"] == "enter"


# Version 2.x writes its messages to a file as UTF-16 with a mark.
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_presentmon_without_rights_fails_the_step(
    windows: StandIns, run: Run, encoding: str
) -> None:
    (windows.home / "presentmon.refusal").write_bytes(
        "error: failed to start trace session: access denied.\n".encode(encoding)
    )
    program = str(windows.bin / "PresentMon")
    code, said = run("--presentmon", program, "--seconds", "0.1", "-o", "session")
    assert code == 2
    assert "PresentMon is not permitted to trace. Use an elevated prompt" in said
    assert not (windows.home / "wpr.running").exists()
    code, said = run("--presentmon", "none.exe", "-o", "other")
    assert (code, said) == (2, "schedlens: --presentmon: there is no program none.exe\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--ring", "0.5"], "--ring: 0.5 is not between 1 and 600 seconds"),
        (["--ring", "30", "--seconds", "5"], "--seconds has no effect with it"),
        (["--ring", "30", "--repeat", "2"], "--repeat has no effect with it"),
        (["--ring", "30", "--workload", "imul1"], "start the program yourself"),
        (["--stop-on-frame", "50"], "--stop-on-frame ends a --ring"),
        (["--ring", "30", "--stop-on-frame", "50"], "--stop-on-frame requires --presentmon PATH"),
        (["--ring", "30", "--stop-on-frame", "0", "--presentmon", "p"], "0 ms is no frame time"),
        (
            ["--ring", "30", "--stop-on-frame", "50", "--presentmon", "p"],
            "--stop-on-frame requires --process or --pid",
        ),
        (["--light"], "--light works only on Linux"),
        (["--stacks", "dwarf"], "--stacks dwarf works only on Linux"),
        (["--samples", "99"], "--samples 99: WPR samples 1000 times a second"),
        (["--recorder", "xperf", "--samples", "9000"], "Windows samples at most 8190 times"),
        (["--recorder", "xperf"], "xperf is not on the path. Install the Windows Perf"),
        (["--os", "linux"], "--os linux: this is windows"),
    ],
)
def test_contradictory_options_are_refused(
    windows: StandIns, run: Run, words: list[str], message: str
) -> None:
    code, said = run(*words, "-o", "session")
    assert (code, said.count("\n")) == (2, 1)
    assert message in said
    assert not Path("session").exists()


def test_interrupted_session_resumes(windows: StandIns, run: Run) -> None:
    code, _ = run("--seconds", "0.1", "--repeat", "2", "-o", "session")
    assert code == 0
    # As after a run killed in its second step.
    shutil.rmtree("session/machine-r2")
    before = Path("session/machine-r1/step.json").read_bytes()
    code, said = run("--resume", "session")
    assert (code, "recorded 2 steps in session" in said) == (0, True), said
    assert Path("session/machine-r1/step.json").read_bytes() == before
    assert len(windows.calls_of("wpr")) == 6
    (windows.home / "buffer").write_bytes(Path("session/topology.bin").read_bytes()[:48])
    code, said = run("--resume", "session")
    assert code == 2
    assert "was recorded on other CPUs" in said


@shared_files.needs("etw/corpus/pv_diaghub_kernel.etl.xz")
@shared_files.needs("etw/truth/pv_diaghub_kernel.etl.json")
def test_real_recording_from_a_stand_in_is_collected_and_analyzed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    etl = lzma.decompress((CORPUS / "pv_diaghub_kernel.etl.xz").read_bytes())
    (tmp_path / "real.etl").write_bytes(etl)
    header = etw_file.read(tmp_path / "real.etl")
    assert header is not None
    assert header.begin_ns is not None
    edges_ns = (header.begin_ns + 1_000_000, header.begin_ns + 5_001_000_000)
    stand_ins(tmp_path, monkeypatch, etl, edges_ns)
    code, said = run("--seconds", "0.1", "-o", "session")
    assert code == 0, said
    assert Path("session/machine-r1/trace.etl").stat().st_size == len(etl)
    assert f"Next: analyze {Path('session')}" in said

    assert cli.run(cli.group, ["analyze", "session"], name="schedlens") == 0
    with duckdb.connect("session/analysis.duckdb", read_only=True) as con:

        def one(sql: str) -> tuple[Any, ...] | None:
            found: tuple[Any, ...] | None = con.execute(sql).fetchone()
            return found

        assert one("SELECT source, clock_name, label FROM trace") == ("etw", "qpc", "machine-r1")
        # The step is where the observer saw it: 1 ms after the start, for 5 s.
        assert one("SELECT start_ns, end_ns FROM run") == (1_000_000, 5_001_000_000)
        assert one("SELECT min(ts), max(ts) FROM snapshot_cpu") == (1_000_000, 5_001_000_000)
        assert one("SELECT start_ns, end_ns FROM analysis_window") == (1_000_000, 5_001_000_000)
        assert one("SELECT count(*) FROM problem WHERE place = 'clock'") == (0,)
        types = (
            "SELECT count(*) FILTER (core_type = 'P'), count(*) FILTER (core_type = 'E') FROM cpu"
        )
        assert one(types) == (16, 8)
        power = "SELECT value FROM machine_setting WHERE key = 'power_plan.CPMINCORES.ac'"
        assert one(power) == ("100",)
        truth = load(CORPUS.parent / "truth" / "pv_diaghub_kernel.etl.json")
        pids = con.execute("SELECT DISTINCT pid FROM process ORDER BY pid").fetchall()
        assert [pid for (pid,) in pids] == sorted({row["pid"] for row in truth["processes"]})
    assert Path("session/report.html").exists()


@shared_files.needs("etw/corpus/MANIFEST.json")
def test_headers_of_real_recordings_match_independent_reader(tmp_path: Path) -> None:
    rows = json.loads((CORPUS / "MANIFEST.json").read_text(encoding="utf-8"))
    found, expected = {}, {}
    for row in rows:
        path = tmp_path / row["etl"]
        path.write_bytes(lzma.decompress((CORPUS / row["file"]).read_bytes()))
        header = etw_file.read(path)
        path.unlink()
        assert header is not None, row["etl"]
        measured = row["measured"]
        found[row["etl"]] = (header.cpus, header.clock, header.events_lost)
        expected[row["etl"]] = (measured["cpus"], measured["clock"], measured["events_lost"])
    assert len(found) == len(rows)
    assert found == expected


def test_header_check_survives_truncated_files(tmp_path: Path) -> None:
    path = tmp_path / "cut.etl"
    whole = header_only_etl(pointer=4)
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        assert etw_file.read(path) is None
    path.write_bytes(whole)
    header = etw_file.read(path)
    assert header is not None
    assert (header.begin_ns, header.cpus, header.build) == (BEGIN_NS, 24, 22631)
    assert etw_file.read(tmp_path / "none.etl") is None
