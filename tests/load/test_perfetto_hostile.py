"""Damaged Perfetto traces and ftrace texts give rows or one clear line."""

from __future__ import annotations

import gzip
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import trace_engine
from loaded_recording import loaded

from schedlens.errors import SchedlensError
from schedlens.export.proto_message import Message, varint
from schedlens.load.perfetto import content, engine_tables, processor

pytestmark = pytest.mark.slow

SEED = 20261125
# Each one starts the engine; what it may return is drawn at random below.
ROUNDS = 4
MS = 1_000_000

LINE = (
    "{0:>16}-{1} ( {1}) [00{2}] d..2  1.00{3:04}: sched_switch: prev_comm={0} prev_pid={1} "
    "prev_prio=120 prev_state=S ==> next_comm={4} next_pid={5} next_prio=120\n"
)
TEXT = "# tracer: nop\n#\n#      TASK-PID    TGID   CPU#  ||||  TIMESTAMP  FUNCTION\n" + "".join(
    LINE.format(*("a", 5, cpu, number, "b", 6) if number % 2 else ("b", 6, cpu, number, "a", 5))
    for cpu in (0, 1)
    for number in range(20)
)
SYSTRACE = (
    "<!DOCTYPE html>\n<html>\n<body>\n"
    f'<script class="trace-data" type="application/text">\n{TEXT}</script>\n</body>\n</html>\n'
)


def switch(ts: int, prev: int, entered: int) -> Message:
    fields = Message().text(1, f"t{prev}").number(2, prev).number(3, 120).number(4, 1)
    fields.text(5, f"t{entered}").number(6, entered).number(7, 120)
    return Message().number(1, ts).number(2, prev).message(4, fields)


def packets() -> bytes:
    """Two CPUs with 20 switches each, in 10 packets."""
    made = b""
    for part in range(10):
        bundle = Message().number(1, part % 2)
        for number in range(4):
            at = 4 * (part // 2) + number
            tids = (5, 6) if at % 2 else (6, 5)
            bundle.message(2, switch((at + 1) * MS, *(tid + 10 * (part % 2) for tid in tids)))
        whole = bytes(Message().number(8, 1).number(10, 1).message(1, bundle))
        made += b"\x0a" + varint(len(whole)) + whole
    return made


FILES = {
    "proto": packets(), "ftrace": TEXT.encode(), "systrace": SYSTRACE.encode(),
    "gzip": gzip.compress(packets(), mtime=0),
}  # fmt: skip


def read_or_refused(path: Path, folder: Path, note: str) -> bool:
    """Whether it was read; otherwise one line refused it. Anything else fails."""
    try:
        with loaded(path, folder) as con:
            con.execute("SELECT count(*) FROM sched_slice").fetchall()
            return True
    except SchedlensError as error:
        line = str(error)
        assert len(line.splitlines()) == 1, note
        assert "did not expect" not in line, (note, line)
        return False


@pytest.mark.parametrize("kind", FILES)
def test_damaged_files_give_rows_or_one_line(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(processor.VARIABLE, trace_engine.program())
    data, path, dice = FILES[kind], tmp_path / "damaged", random.Random(SEED)
    path.write_bytes(data)
    assert read_or_refused(path, tmp_path, "whole")
    for cut in sorted(dice.sample(range(len(data)), ROUNDS)):
        path.write_bytes(data[:cut])
        read_or_refused(path, tmp_path, f"cut at {cut}")
    for number in range(ROUNDS):
        changed = bytearray(data)
        for _ in range(dice.randrange(1, 20)):
            changed[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        path.write_bytes(changed)
        read_or_refused(path, tmp_path, f"round {number}")


@pytest.mark.parametrize("kind", FILES)
def test_any_length_and_byte_is_recognized_or_not(kind: str, tmp_path: Path) -> None:
    data, path, dice = FILES[kind], tmp_path / "any", random.Random(SEED)
    path.write_bytes(data)
    assert content.is_one(path)
    for place in sorted(dice.sample(range(len(data)), 120)):
        path.write_bytes(data[:place])
        assert content.is_one(path) in (True, False)
        changed = bytearray(data)
        changed[place] ^= 1 << dice.randrange(8)
        path.write_bytes(changed)
        assert content.is_one(path) in (True, False)


def test_packed_bomb_is_looked_at_only_in_part(tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(gzip.compress(bytes(1 << 28), mtime=0))
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from schedlens.load.perfetto import content\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "print(content.is_one(Path(sys.argv[1])), "
        "resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    is_one, growth = done.stdout.split()
    assert is_one == "False"
    assert int(growth) < 16 << 10


# What no engine should return, but a damaged trace might make it: a reader must not trust it.
NUMBERS = (0, 1, 2, 5, 6, -1, 127, 4_294_967_295, -(1 << 63), (1 << 63) - 1, None)
TEXTS = ("", "R", "S", "R+", "sched_waking", "cpuidle", "x" * 70_000, "\0", "\u00e9", None)
PLAUSIBLE = {
    "cpu": (0, 1, 2), "utid": (0, 1, 2, 3), "waker_utid": (0, 1, None), "tid": (0, 5, 6),
    "upid": (1, 2, None), "ts": (0, 1, MS, 2 * MS, 3 * MS), "dur": (-1, 0, 1, MS),
}  # fmt: skip


def drawn(dice: random.Random, *, wild: float) -> dict[str, pa.Table]:
    """Tables as the engine returns them; a share `wild` of the values is of any kind."""
    made = {}
    for name, (_, schema) in engine_tables._QUERIES.items():
        columns = []
        for field in schema:
            values: list[Any] = []
            for number in range(12):
                if dice.random() < wild:
                    number_or_none: float | None = dice.choice(NUMBERS)
                    if field.type == pa.float64() and number_or_none is not None:
                        number_or_none = float(number_or_none)
                    values.append(
                        dice.choice(TEXTS) if field.type == pa.string() else number_or_none
                    )
                elif field.name == "id":
                    values.append(number)
                else:
                    known = PLAUSIBLE.get(field.name, (1, 2, 3))
                    text = dice.choice(("R", "S", "a", None))
                    values.append(text if field.type == pa.string() else dice.choice(known))
            columns.append(pa.array(values, field.type))
        made[name] = pa.Table.from_arrays(columns, schema=schema)
    return made


@pytest.mark.parametrize("wild", [0.0, 0.01, 0.1, 0.5])
def test_any_rows_of_the_engine_give_tables_or_one_line(
    wild: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trace"
    path.write_bytes(packets())
    dice = random.Random(SEED + int(100 * wild))

    class Drawn:
        def __enter__(self) -> None:
            return None

        def __exit__(self, *_: object) -> None:
            return None

    monkeypatch.setattr(processor, "opened", lambda _: Drawn())
    for number in range(6):
        tables = drawn(dice, wild=wild)
        monkeypatch.setattr(engine_tables, "read", lambda *_, found=tables: found)
        read_or_refused(path, tmp_path, f"round {number}")
