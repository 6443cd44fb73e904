"""Recordings without some kinds of events: what is reported and what is not."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
from pathlib import Path
from typing import Any

import duckdb
import processors
import pytest
from conftest import command, needs_tracing
from record.test_collect_rights import as_user, open_folder, paranoid, tracefs_is_closed

from schedlens.ask import judging
from schedlens.ask.findings import Scope

pytestmark = pytest.mark.records

__all__ = ["open_folder"]

BUSY = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"
# Three busy shells, and some short ones that the first shell waits for.
PROGRAM = f"({BUSY}) & ({BUSY}) & ({BUSY}) & sleep 0.05; wait"


def record(folder: Path, *events: str) -> Path:
    """A perf.data of the shells above."""
    needs_tracing()
    folder.mkdir()
    file = folder / "perf.data"
    done = subprocess.run(
        ["perf", "record", "-q", "-m", "8M", *events, "-o", str(file), "--", "sh", "-c", PROGRAM],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return file


def analyzed(*arguments: str, code: int = 0) -> dict[str, Any]:
    done = command("analyze", *arguments, "--json", check=False)
    assert done.returncode == code, done.stderr
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def said(facts: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(f["analyzer"], f["severity"], f["kind"]) for f in facts["findings"]]


def missing(facts: dict[str, Any], analyzer: str) -> list[str] | None:
    """The events that an analyzer lacks; None if it judged."""
    (row,) = [
        row for row in facts["outcomes"] if (row["analyzer"], row["trace_id"]) == (analyzer, None)
    ]
    return row["missing"] if row["outcome"] == "not_recorded" else None


def texts(facts: dict[str, Any]) -> str:
    return "\n".join(f"{f['title']} {f['detail']} {f['advice']}" for f in facts["findings"])


def page(report: str) -> str:
    """The text of the report as the page unpacks it."""
    import base64
    import gzip
    import re

    packed = re.findall(r">([A-Za-z0-9+/=]{200,})<", Path(report).read_text(encoding="utf-8"))
    return gzip.decompress(base64.b64decode(packed[0])).decode()


@pytest.fixture(scope="module")
def switch_records(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("switch-records") / "r"
    return analyzed(str(record(folder, "-a", "-e", "dummy:u", "--switch-events")))


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("samples") / "r"
    return analyzed(str(record(folder, "-a", "-e", "cpu-clock")))


@pytest.fixture(scope="module")
def one_cpu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A perf.data of CPU 0 alone, on a machine with others."""
    processors.needs_two()
    needs_tracing()
    file = tmp_path_factory.mktemp("one-cpu") / "perf.data"
    subprocess.run(
        ["perf", "record", "-q", "-m", "8M", "-C", "0",
         "-e", "sched:sched_switch,sched:sched_waking", "-o", str(file), "--",
         "perf", "bench", "sched", "messaging", "-g", "1", "-l", "100"],
        capture_output=True, check=True, timeout=120,
    )  # fmt: skip
    return file


def without_id_index(file: Path, target: Path) -> Path:
    """The recording as perf before 6.0 wrote it: without the CPUs on which events were opened."""
    content = bytearray(file.read_bytes())
    position, size = struct.unpack_from("<QQ", content, 40)
    end, id_index, time_conv, changed = position + size, 69, 79, 0
    while position < end:
        kind, _, length = struct.unpack_from("<IHH", content, position)
        if kind == id_index:
            struct.pack_into("<I", content, position, time_conv)
            changed += 1
        position += length
    assert changed
    target.write_bytes(content)
    return target


@pytest.mark.parametrize("perf", ["new", "old"])
def test_cpus_that_were_not_recorded_are_unknown(one_cpu: Path, tmp_path: Path, perf: str) -> None:
    old = perf == "old"
    file = without_id_index(one_cpu, tmp_path / "perf.data") if old else one_cpu
    facts = analyzed(str(file), "-o", str(tmp_path / "out"))
    (advice,) = [finding["advice"] for finding in facts["findings"] if finding["kind"] == "loss"]
    assert "(`perf record -a`, without -C): nothing of CPU" in advice
    with duckdb.connect(facts["database"], read_only=True) as con:
        recorded = con.execute(
            "SELECT cpu, bool_or(state <> 'unknown') FROM cpu_state GROUP BY cpu ORDER BY cpu"
        ).fetchall()
        assert recorded == [(cpu, cpu == 0) for cpu in range(os.cpu_count() or 1)]
        # Nothing shows that CPU 0 began late, or that a thread which left it did not run elsewhere.
        signs = con.execute("SELECT DISTINCT signalled_by FROM loss WHERE cpu <> 0").fetchall()
        assert signs == [("not_recorded",)]
        late = "SELECT count(*) FROM loss WHERE cpu = 0 AND signalled_by = 'late_start'"
        assert con.execute(late).fetchone() == (0,)
        known = con.execute(
            "SELECT DISTINCT state FROM thread_state WHERE dur > 0 AND state <> 'unknown'"
        ).fetchall()
        assert known == [("running",)]
        reasons = con.execute(
            "SELECT reason FROM analyzer_outcome WHERE outcome = 'clean' AND analyzer = 'real_time'"
        ).fetchall()
    for (reason,) in reasons:
        assert re.search(r"% of the CPU time is unknown: problems there would not show\.$", reason)


def test_recording_of_all_cpus_lacks_none(tmp_path: Path) -> None:
    file = record(tmp_path / "r", "-a", "-e", "sched:sched_switch,sched:sched_waking")
    old = without_id_index(file, tmp_path / "old.data")
    facts = analyzed(str(file), str(old), "-o", str(tmp_path / "out"), "--no-report")
    with duckdb.connect(facts["database"], read_only=True) as con:
        assert not con.execute("FROM loss WHERE signalled_by = 'not_recorded'").fetchall()


def test_switch_records_alone_count_as_context_switches(
    switch_records: dict[str, Any],
) -> None:
    found = [row for row in said(switch_records) if row[0] == "trace_quality"]
    assert "critical" not in {severity for _, severity, _ in found}
    assert ("trace_quality", "info", "switch_records_only") in found


def test_switch_records_do_not_fail_the_gate(tmp_path: Path) -> None:
    file = record(tmp_path / "r", "-a", "-e", "dummy:u", "--switch-events")
    analyzed(str(file), "--only", "trace_quality", "--fail-on", "critical")


def test_switch_records_give_no_priorities(switch_records: dict[str, Any]) -> None:
    assert [row for row in said(switch_records) if row[0] == "priority_order"] == []
    assert missing(switch_records, "priority_order") == ["priorities"]
    assert "None" not in texts(switch_records)


def test_unprivileged_session_passes_the_gate(open_folder: Path) -> None:
    needs_tracing()
    if paranoid() not in (1, 2) or not tracefs_is_closed():
        pytest.skip("ordinary users have other rights on this machine")
    done = as_user(open_folder, "collect", "-o", "s", "--", "sh", "-c", PROGRAM)
    assert done.returncode == 0, done.stderr
    analyzed(str(open_folder / "s"), "--only", "trace_quality", "--fail-on", "critical")
    facts = analyzed(str(open_folder / "s"))
    found = said(facts)
    # Steal time and throttling are true whatever was recorded.
    critical = [row for row in found if row[1] == "critical"]
    assert not [row for row in critical if row[0] not in ("steal", "throttled_cgroup")]
    # Three of its threads on two CPUs: who else ran is unknown, so the machine is not judged.
    assert missing(facts, "concurrency") == ["switches of all programs"]
    assert "None" not in texts(facts)


def test_samples_alone_report_only_missing_events(samples: dict[str, Any]) -> None:
    found = said(samples)
    # Linux does not park CPUs, and samples say approximately who ran.
    assert {row["analyzer"] for row in samples["outcomes"] if row["outcome"] != "not_recorded"} == {
        "trace_quality",
        "parking",
        "sampled_running",
    }
    assert ("trace_quality", "critical", "no_switches") in found
    assert missing(samples, "concurrency") == ["context switches", "switches of all programs"]


def test_samples_alone_make_no_claims_in_the_report(samples: dict[str, Any]) -> None:
    text = page(samples["report"])
    for claim in ("At no time did more threads", "No lower priority ran", " on average"):
        assert claim not in text, claim
    assert "not recorded: " in text


def test_without_switches_no_thread_remains_new(samples: dict[str, Any]) -> None:
    with duckdb.connect(samples["database"], read_only=True) as con:
        counted = con.execute("SELECT count(*) FROM thread_state WHERE state = 'new'").fetchone()
        assert counted == (0,)
        lines = con.execute(
            "SELECT why FROM answerable WHERE question IN ('sibling_overlap', 'avoidable_sharing')"
        ).fetchall()
    for (why,) in lines:
        # The machine's topology was read, whatever else is missing.
        assert "which logical CPUs share a core is unknown" not in why or os.cpu_count() == 1
        assert "no context switches" in why


def test_only_the_recording_with_events_is_judged(tmp_path: Path) -> None:
    switched = record(tmp_path / "a", "-a", "-e", "sched:sched_switch,sched:sched_waking")
    sampled = record(tmp_path / "b", "-a", "-e", "cpu-clock")
    facts = analyzed(str(switched), str(sampled), "-o", str(tmp_path / "out"))
    own = {row["label"]: row["trace_id"] for row in facts["traces"]}
    sampled_id = next(n for label, n in own.items() if "b" in label.split("/")[0] or n == 2)
    for finding in facts["findings"]:
        if finding["analyzer"] in ("concurrency", "priority_order", "thread_summary"):
            assert finding["trace_id"] != sampled_id
    rows = [row for row in facts["outcomes"] if row["analyzer"] == "priority_order"]
    assert ("not_recorded", sampled_id) in [(row["outcome"], row["trace_id"]) for row in rows]
    with duckdb.connect(facts["database"], read_only=True) as con:
        # The windows are the same as before some recordings were removed.
        assert con.execute("SELECT count(*) FROM analysis_window").fetchone() == (2,)


def test_truncated_recording_without_switches_explains_exit_1(tmp_path: Path) -> None:
    file = record(tmp_path / "r", "-a", "-e", "cpu-clock")
    whole = file.read_bytes()
    # A little before the end of its data (perf_file_header.data): the samples come last.
    begin, size = struct.unpack_from("<QQ", whole, 40)
    file.write_bytes(whole[: begin + size - 500])
    done = command("analyze", str(file), check=False)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    # One for each CPU that has a record in what is left.
    assert re.match(r"analyze: not all was read: perf\.data has \d+ truncated parts?\b", line)
    # Loss has its own message, also without switches.
    assert re.search(r"\bgaps? in the window", done.stdout)


def test_every_analyzer_needs_known_event_kinds() -> None:
    from drawn_trace import DrawnTrace, drawn_database

    with drawn_database() as con:
        DrawnTrace(con, [], [], 1)
        known = {row["kind"] for row in Scope(con).rows("FROM recorded_kind")}
    for analyzer in judging.analyzers().values():
        assert set(analyzer.needs) <= known, analyzer.name
