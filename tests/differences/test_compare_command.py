"""`schedlens compare` as CI runs it: exit codes, files, and mistakes in one line."""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import compared_recordings
import pytest
from conftest import command

from schedlens.load.arrow_folder import simulated
from schedlens.simulate import cases

pytestmark = pytest.mark.slow

RULES = """
[gate]
same = ["cpu_model", "online_cpus"]

[[rule]]
metric = "frame_p50_ns"
subject = "game.exe"
max_increase_pct = 5

[[rule]]
metric = "shared_core_pct"
max_increase = 30
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The second case study of the demo: faulty, fixed, and another run; `raw` has recordings."""
    folder = tmp_path_factory.mktemp("compared")
    for name, fixed, seed in (
        ("fault", False, 1), ("fixed", True, 1), ("fixed_again", True, 2),
    ):  # fmt: skip
        raw = folder / "raw" / name
        compared_recordings.write(raw, fixed=fixed, seed=seed, seconds=3.0)
        command("analyze", str(raw), "-o", str(folder / name), "--no-report")
    (folder / "rules.toml").write_text(RULES)
    return folder


def test_regression_exits_with_1_and_is_in_every_file(folder: Path, tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("junit.xml", "out.sarif", "out.md")}
    done = command(
        "schedlens", "compare", "fixed", "fault", "--gate", "rules.toml",
        "--junit", str(files["junit.xml"]), "--sarif", str(files["out.sarif"]),
        "--markdown", str(files["out.md"]), cwd=folder, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")
    assert "gate: regression" in done.stdout
    assert re.search(
        r"^findings: [1-9]\d* new in B, \d+ gone, [1-9]\d* in both$", done.stdout, re.M
    )
    assert re.search(r"^  new  +(critical|warning) +\S", done.stdout, re.M)
    assert "### Findings: " in files["out.md"].read_text()

    suite = ET.parse(files["junit.xml"]).getroot().find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "2", "0")
    messages = [str(one.get("message")) for one in suite.iter("failure")]
    assert [text.partition(":")[0] for text in messages] == ["regression", "regression"]

    run = json.loads(files["out.sarif"].read_text())["runs"][0]
    assert [(one["ruleId"], one["kind"], one["level"]) for one in run["results"]] == [
        ("frame_p50_ns", "fail", "error"),
        ("shared_core_pct", "fail", "error"),
    ]
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == {
        "frame_p50_ns",
        "shared_core_pct",
    }

    text = files["out.md"].read_text()
    assert text.startswith("## schedlens: Regression\n")
    assert (
        "| frame\\_p50\\_ns (game.exe, all recordings) max\\_increase\\_pct 5 | regression |"
        in text
    )


def test_within_limits_exits_with_0(folder: Path) -> None:
    done = command(
        "schedlens", "compare", "fault", "fixed", "--gate", "rules.toml", "--json", cwd=folder,
        check=False,
    )  # fmt: skip
    facts = json.loads(done.stdout)
    assert (done.returncode, facts["gate"]["state"]) == (0, "within")
    assert {one["state"] for one in facts["gate"]["judged"]} == {"within"}


def test_little_data_exits_with_2(folder: Path, tmp_path: Path) -> None:
    # 1,000 frames are needed for a p99; a run of 3 s has about 300.
    (tmp_path / "rules.toml").write_text(
        '[[rule]]\nmetric = "frame_p99_ns"\nmax_increase_pct = 900\n'
    )
    junit = tmp_path / "junit.xml"
    done = command(
        "schedlens", "compare", str(folder / "fixed"), str(folder / "fixed_again"),
        "--gate", str(tmp_path / "rules.toml"), "--junit", str(junit), check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (2, "")
    assert "gate: cannot tell" in done.stdout
    error = ET.parse(junit).getroot().find("testsuite/testcase/error")
    assert error is not None
    assert "values on a side; 1000 are needed" in str(error.get("message"))


def test_other_machine_exits_with_2(folder: Path, tmp_path: Path) -> None:
    other = compared_recordings.write(
        tmp_path / "other", fixed=True, settings={"microcode": "0x2b"}
    )
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES.replace('"online_cpus"', '"microcode"'))
    done = command(
        "schedlens", "compare", str(folder / "fixed"), str(other), "--gate", str(rules),
        check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "machine: microcode: none in A, 0x2b in B" in done.stdout
    assert "microcode differs between the sides" in done.stdout


def test_analyzed_sessions_and_recordings_compare_alike(folder: Path) -> None:
    shown = []
    analyzed = folder / "fixed"
    for a, b in (
        (folder / "raw" / "fixed", folder / "raw" / "fault"),
        (analyzed, folder / "fault"),
        (analyzed / "analysis.duckdb", folder / "fault"),
    ):
        done = command("schedlens", "compare", str(a), str(b), "--json")
        shown.append(json.loads(done.stdout)["differences"])
    assert shown[0] == shown[1] == shown[2]


def test_kept_databases_answer_the_sql_of_a_difference(folder: Path, tmp_path: Path) -> None:
    raw = folder / "raw"
    done = command(
        "schedlens", "compare", str(raw / "fixed"), str(raw / "fault"), "--json",
        "--keep", str(tmp_path),
    )  # fmt: skip
    rows = json.loads(done.stdout)["differences"]
    row = next(row for row in rows if row["quantity"] == "avoidable_sharing_threads")
    # Both sides have 40 blocks of 3 of the 120, so that the mean over them is that of all.
    assert (row["number_a"], row["number_b"], row["block_length"]) == (40, 40, 3)
    for side in ("a", "b"):
        sql = f"SELECT sum(num) / sum(den) AS value FROM ({row['sql']})"
        answer = command("schedlens", "sql", str(tmp_path / f"{side}.duckdb"), sql, "--json")
        assert json.loads(answer.stdout)["value"] == pytest.approx(row[side], rel=1e-9)


def test_hybrid_machine_is_compared_with_a_symmetric_one(tmp_path: Path) -> None:
    symmetric, hybrid = tmp_path / "priority-symmetric", tmp_path / "priority"
    simulated.write_folder(
        cases.symmetric_priority(1, seconds=2.0), symmetric, label=symmetric.name
    )
    compared_recordings.write(hybrid, case="priority", seconds=2.0)
    report = tmp_path / "report.html"
    done = command("schedlens", "compare", str(symmetric), str(hybrid), "--report", str(report))
    rows = {
        (name.strip(), of.strip()): (a.strip(), verdict.strip())
        for name, of, a, _, _, verdict in (
            line.split("│") for line in done.stdout.splitlines() if line.count("│") == 5
        )
    }
    # Background work is ready half of the time on the symmetric machine; on the hybrid one it runs,
    # a third of it on E cores, and so does a third of the game.
    assert rows["wakeup_p50_ns", "services.exe"][1] == "better"
    assert rows["run_cpus", "services.exe"][1] == "higher"
    for process in ("game.exe", "services.exe"):
        assert rows["e_core_pct", process] == ("0 %", "higher")
    assert rows["shared_core_pct", ""][1] == "lower"
    assert "topology: cores_E: none in A, 8 in B" in done.stdout
    assert re.search("new +critical Lower priorities took P cores from higher ones", done.stdout)
    # One axis for both: each has its lanes in the report.
    page = report.read_text(encoding="utf-8")
    assert {"priority-symmetric", "priority"} <= set(re.findall(r"priority(?:-symmetric)?", page))
    unknown = [line for line in done.stdout.splitlines() if line.startswith("not compared")]
    assert unknown == [
        "not compared: frame_p95_ns of game.exe: only 107 values on a side; 200 are needed",
        "not compared: frame_p99_ns of game.exe: only 107 values on a side; 1000 are needed",
    ]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["fixed"], "schedlens: name two recordings, A and B, or the repeats of A with --baseline"),
        (["fixed", "fault", "fixed"], "with --baseline: 3 given"),
        (
            ["fixed", "absent"],
            "schedlens: absent does not exist: name a recording, a session folder",
        ),
        (["fixed", "rules.toml"], "schedlens: rules.toml: begins with"),
        (
            ["fixed", "fault", "--gate", "none.toml"],
            "schedlens: cannot read none.toml: No such file or directory",
        ),
        (["fixed", "fault", "--junit", "x"], "--junit and --sarif write the verdicts of --gate"),
        (
            ["fixed", "fault", "--process", "gane.exe"],
            "no process of side a named 'gane.exe': did you mean game.exe?",
        ),
        (
            ["fixed", "fault", "--quantity", "fps"],
            "no quantity named 'fps': choose from avoidable_sharing_threads",
        ),
    ],
)
def test_mistake_is_one_line(folder: Path, words: list[str], line: str) -> None:
    done = command("schedlens", "compare", *words, cwd=folder, check=False)
    assert done.returncode == 2
    assert line in done.stderr
    assert done.stderr.count("\n") == 1


def test_missing_package_is_one_line(folder: Path) -> None:
    code = (
        "import sys; sys.modules['scipy'] = None; sys.modules['scipy.stats'] = None\n"
        "from schedlens.commands import cli\n"
        "sys.argv = ['schedlens', 'compare', 'fixed', 'fault']\n"
        "cli.main()"
    )
    done = command(Path(sys.executable).name, "-c", code, cwd=folder, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "schedlens: this needs the package scipy: install it with "
        "`pip install schedlens[compare]`\n",
    )


def test_unwritable_file_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    done = command(
        "schedlens", "compare", "fixed", "fault", "--markdown", str(tmp_path / "no" / "out.md"),
        cwd=folder, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "cannot write" in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_names_from_recordings_cannot_break_the_files(folder: Path, tmp_path: Path) -> None:
    name = "x|y]]>\x1b[31m<script>\u202e\n## @all `z`"
    sides = [
        compared_recordings.write(tmp_path / side, fixed=fixed, seconds=3.0, process=name)
        for side, fixed in (("a", True), ("b", False))
    ]
    done = command(
        "schedlens", "compare", *map(str, sides), "--gate", str(folder / "rules.toml"),
        "--junit", str(tmp_path / "j"), "--sarif", str(tmp_path / "s"),
        "--markdown", str(tmp_path / "m"), "--report", str(tmp_path / "r.html"), check=False,
    )  # fmt: skip
    # The rule names another process, and the other one is broken.
    assert done.returncode == 1
    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout
    ET.parse(tmp_path / "j")
    json.loads((tmp_path / "s").read_text())
    text = (tmp_path / "m").read_text()
    assert "x\\|y\\]\\]\\>" in text
    assert "<script>" not in text
    assert "\n## @all" not in text
