"""Stand-ins for the programs that a recording on Windows calls: they check their arguments.

A stand-in never passes for the real one: it logs each call, refuses what the real program would
refuse, and prints texts written after Microsoft's documentation.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from pathlib import Path

import windows_buffers
import windows_texts

from schedlens.record import workload_program

PIECES = Path(__file__).parent

_WPR = r"""
import json, os, re, shutil, subprocess, sys
from pathlib import Path
from xml.etree import ElementTree

home = Path(os.environ["STAND_IN_HOME"])
state, refusal = home / "wpr.running", home / "wpr.refusal"
words = sys.argv[1:]
with (home / "calls").open("a") as calls:
    calls.write(json.dumps(["wpr", *words]) + "\n")


def refuse(code, text):
    print(f"\t{text}\r\n\r\n\tError code: {code:#010x}\r\n", file=sys.stderr)
    sys.exit(1)


if refusal.exists() and words[0] == json.loads(refusal.read_text())[0]:
    refuse(*json.loads(refusal.read_text())[1:])
if words == ["-pmcsources"]:
    print((home / "wpr.pmcsources").read_text())
elif words[0] == "-start":
    match = re.fullmatch(r"(.+)!(SchedLens|SchedLensPresents)", words[1])
    rest = words[2:]
    if rest[:1] == ["-filemode"]:
        rest = rest[1:]
        mode = "File"
        if rest[:1] != ["-recordtempto"] or not Path(rest[1]).is_dir():
            refuse(0xc5586004, f"wrong words: {words}")
        rest = rest[2:]
    else:
        mode = "Memory"
    if not match or rest != ["-instancename", "schedlens"]:
        refuse(0xc5586004, f"wrong words: {words}")
    root = ElementTree.parse(match[1]).getroot()
    if root.find(f"Profiles/Profile[@Id='{match[2]}.Verbose.{mode}']") is None:
        refuse(0xc5583006, f"no such profile: {match[2]} {mode}")
    unknown = home / "wpr.unknown_keywords"
    if unknown.exists():
        for keyword in root.iter("Keyword"):
            if keyword.get("Value") in json.loads(unknown.read_text()):
                refuse(0xc5580701, f"Invalid value: {keyword.get('Value')}")
    if state.exists():
        refuse(0xc5583001, "The profiles are already running.")
    state.touch()
elif words[0] == "-stop":
    older = (home / "wpr.older").exists()
    option = [] if older else ["-skipPdbGen"]
    if older and words[2:3] == ["-skipPdbGen"]:
        print("\tInvalid command syntax.", file=sys.stderr)
        sys.exit(1)
    if words[2:] != [*option, "-instancename", "schedlens"]:
        refuse(0xc5586004, f"wrong words: {words}")
    if not state.exists():
        refuse(0xc5583000, "There are no trace profiles running.")
    state.unlink()
    made = home / "wpr.made"
    if made.exists():
        program, without = json.loads(made.read_text())
        step = str(Path(words[1]).parent)
        subprocess.run([sys.executable, program, step, words[1], without], check=True)
    else:
        shutil.copyfile(home / "stand_in.etl", words[1])
elif words == ["-cancel", "-instancename", "schedlens"]:
    state.unlink(missing_ok=True)
else:
    refuse(0xc5586004, f"wrong words: {words}")
"""

_TEXTS = r"""
import json, os, sys
from pathlib import Path

home = Path(os.environ["STAND_IN_HOME"])
words = [Path(sys.argv[0]).name, *sys.argv[1:]]
with (home / "calls").open("a") as calls:
    calls.write(json.dumps(words) + "\n")
answers = [(row, text) for row, text in json.loads((home / "texts").read_text()) if row == words]
if not answers:
    sys.exit(1)
print(answers[0][1], end="")
"""

# Keeps the boost mode of one plan; answers any other query with the processor settings.
_POWERCFG = r"""
import json, os, sys
from pathlib import Path

home = Path(os.environ["STAND_IN_HOME"])
words = sys.argv[1:]
with (home / "calls").open("a") as calls:
    calls.write(json.dumps(["powercfg", *words]) + "\n")
state = json.loads((home / "power").read_text())
plan, known = state["plan"], ("scheme_current", state["plan"])
shown = (*known, *state["overlays"])
setting = ["sub_processor", "perfboostmode"]
if words == ["/getactivescheme"]:
    print(f"Power Scheme GUID: {plan}  (Balanced)")
elif words[:1] == ["/qh"] and words[1] in shown and words[2:] == ["sub_processor"]:
    text = (home / "processor_power").read_text()
    head, found, tail = text.partition("GUID Alias: PERFBOOSTMODE")
    for kind in ("AC", "DC"):
        tail = tail.replace(
            f"Current {kind} Power Setting Index: 0x00000002",
            f"Current {kind} Power Setting Index: {state[kind.lower()]:#010x}",
        )
    print(head + found + tail)
elif words[0] in ("/setacvalueindex", "/setdcvalueindex") and words[2:4] == setting:
    if state.get("refuses") or words[1] not in known:
        print("Unable to perform operation. The policy of this computer forbids it.")
        sys.exit(1)
    state[words[0][4:6]] = int(words[4])
    (home / "power").write_text(json.dumps(state))
elif words != ["/setactive", "scheme_current"]:
    print("Invalid Parameters -- try \"/?\" for help")
    sys.exit(1)
"""

# The observer's times are those of the stand-in recording, so that the two join; a workload that
# runs has the clock of this system.
_WORKLOADS = r"""
import json, os, subprocess, sys, time
from pathlib import Path

home = Path(os.environ["STAND_IN_HOME"])
program = os.environ["STAND_IN_PROGRAM"]
words = sys.argv[1:]
if words[0] == "topology" and words[1] == "--raw":
    Path(words[2]).write_bytes((home / "buffer").read_bytes())
    done = subprocess.run([program, "topology", "--buffer", words[2]])
    sys.exit(done.returncode)
if words[0] == "observe":
    print("ready", flush=True)
    for edge, line in zip(("begin", "end"), sys.stdin):
        if line.strip() != edge:
            sys.exit(2)
        answer = json.loads((home / f"{edge}.json").read_text())
        if (home / "wpr.made").exists():
            answer["mono_ns"] = time.monotonic_ns()
        print(json.dumps(answer), flush=True)
    sys.exit(0)
os.execv(program, [program, *words])
"""

_PRESENTMON = r"""
import json, os, signal, sys, time
from pathlib import Path

home = Path(os.environ["STAND_IN_HOME"])
with (home / "calls").open("a") as calls:
    calls.write(json.dumps(["PresentMon", *sys.argv[1:]]) + "\n")
ended = []
signal.signal(signal.SIGINT, lambda *_: ended.append(1))
if (home / "presentmon.refusal").exists():
    sys.stderr.buffer.write((home / "presentmon.refusal").read_bytes())
    sys.exit(6)
for line in (home / "frames.csv").read_text().splitlines():
    print(line, flush=True)
while not ended:
    time.sleep(0.02)
print("last.exe,9,0x1,16.0", flush=True)
"""


def header_only_etl(
    *,
    hz: int = 10_000_000,
    begin_ticks: int = 5_000_000_000,
    lost: tuple[int, int] = (0, 0),
    clock: int = 1,
    pointer: int = 8,
) -> bytes:
    """Simulated: an .etl of one buffer with nothing but its TRACE_LOGFILE_HEADER."""
    shift = 0 if pointer == 8 else -8
    body = bytearray(280 + shift)
    struct.pack_into("<IBBBBII", body, 0, 65536, 10, 0, 1, 5, 22631, 24)
    struct.pack_into("<III", body, 44, pointer, lost[0], 3187)
    struct.pack_into("<q", body, 256 + shift, hz)
    struct.pack_into("<II", body, 272 + shift, clock, lost[1])
    record = struct.pack("<HBBHHIIqq", 2, 2, 0xC0, 32 + len(body), 0, 4, 4, begin_ticks, 0)
    return bytes(72) + record + bytes(body)


class StandIns:
    """A folder of stand-ins, and the calls they received."""

    def __init__(self, home: Path, etl: bytes, edges_ns: tuple[int, int]) -> None:
        self.home = home
        self.bin = home / "bin"
        self.bin.mkdir(parents=True)
        for name, source in {
            "wpr": _WPR,
            "PresentMon": _PRESENTMON,
            "schedlens-workloads": _WORKLOADS,
            **dict.fromkeys(("reg", "powercfg", "powershell", "tasklist", "logman"), _TEXTS),
        }.items():
            self._program(name, source)
        (home / "stand_in.etl").write_bytes(etl)
        (home / "buffer").write_bytes(windows_buffers.hybrid_8p8e())
        (home / "wpr.pmcsources").write_text(windows_texts.COUNTERS)
        for edge, mono_ns in zip(("begin", "end"), edges_ns, strict=True):
            (home / f"{edge}.json").write_text(json.dumps(snapshot(mono_ns, edge)))
        self.texts([])

    def _program(self, name: str, source: str) -> None:
        path = self.bin / name
        path.write_text(f"#!{sys.executable}\n{source}")
        path.chmod(0o755)

    def power(
        self, ac: int, dc: int, *, refuses: bool = False, overlays: tuple[str, ...] = ()
    ) -> None:
        """A powercfg that keeps the boost mode of the active plan; `overlays` have one too."""
        self._program("powercfg", _POWERCFG)
        state = {
            "plan": windows_texts.PLAN,
            "ac": ac,
            "dc": dc,
            "refuses": refuses,
            "overlays": overlays,
        }
        (self.home / "power").write_text(json.dumps(state))
        (self.home / "processor_power").write_text(windows_texts.PROCESSOR_POWER)

    @property
    def boost_modes(self) -> tuple[int, int]:
        """The boost mode on mains and on battery now."""
        state = json.loads((self.home / "power").read_text())
        return int(state["ac"]), int(state["dc"])

    def texts(self, answers: list[tuple[list[str], str]]) -> None:
        """Answers of reg, powercfg, powershell, and tasklist by arguments."""
        (self.home / "texts").write_text(json.dumps(answers))

    def refuse(self, word: str, code: int, text: str) -> None:
        """Makes `wpr WORD ...` fail with an error of WPR."""
        (self.home / "wpr.refusal").write_text(json.dumps([word, code, text]))

    def lacks_keywords(self, *names: str) -> None:
        """Makes `wpr -start` refuse profiles with these keywords, as older versions do."""
        (self.home / "wpr.unknown_keywords").write_text(json.dumps(names))

    def older_wpr(self) -> None:
        """Makes `wpr -stop` refuse what WPR before 10.0.18955 does not know."""
        (self.home / "wpr.older").touch()

    def record_the_run(self, *without: str) -> None:
        """Makes `wpr -stop` write what Windows would have recorded of the workload that ran.

        `without`: what is missing in it, by the names of `etl_of_run`.
        """
        made = [str(PIECES / "etl_of_run.py"), ",".join(without)]
        (self.home / "wpr.made").write_text(json.dumps(made))

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which the stand-ins are found first."""
        return {
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "STAND_IN_HOME": str(self.home),
            "STAND_IN_PROGRAM": workload_program.program(),
            "SCHEDLENS_WORKLOADS": str(self.bin / "schedlens-workloads"),
        }

    @property
    def calls(self) -> list[list[str]]:
        """All calls so far, program first."""
        path = self.home / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]

    def calls_of(self, name: str) -> list[list[str]]:
        """The arguments of each call of one program."""
        return [words[1:] for words in self.calls if words[0] == name]


def snapshot(mono_ns: int, edge: str) -> dict[str, object]:
    """The observer's answer: two CPUs, one of them busy in between."""
    busy_ns = 0 if edge == "begin" else 1_000_000_000
    times = {"system_ns": 0, "irq_ns": 0, "softirq_ns": 0, "steal_ns": None}
    cpus = [
        {"cpu": 0, "user_ns": busy_ns, "idle_ns": 0, **times},
        {"cpu": 1, "user_ns": 0, "idle_ns": busy_ns, **times},
    ]
    value: dict[str, object] = {"mono_ns": mono_ns, "cpus": cpus, "threads": [], "cgroups": []}
    if edge == "end":
        rows = [
            {"cpu": 0, "processor_time_pct": 100.0, "processor_utility_pct": 140.0},
            {"cpu": 1, "processor_time_pct": 0.0, "processor_utility_pct": 0.0},
        ]
        value["reported"] = {"cpus": rows, "missing": []}
    return value
