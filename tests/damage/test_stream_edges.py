"""Streams of a perf.data that begin late or end early are detected by the wakeups of other CPUs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from damage import judge, sources, stream
from damage.bench import Answers, Bench
from damage.kinds import KINDS
from damage.stream import Plan

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def benches() -> Iterator[tuple[Bench, Bench]]:
    """For the whole and the damaged recording."""
    made = Bench(), Bench()
    yield made
    for bench in made:
        bench.close()


def damaged(bench: Bench, source: sources.Source, plan: Plan, seed: int, folder: Path) -> Answers:
    path = folder / source.recording.label
    path.write_bytes(source.file.damaged(plan, seed))
    answers = bench.load(sources.with_trace(source, path, True))
    assert isinstance(answers, Answers)
    bench.read_states(answers)
    return answers


def signs(bench: Bench) -> set[str]:
    sql = "SELECT DISTINCT signalled_by FROM loss WHERE signalled_by IN ('late_start', 'early_end')"
    return {row[0] for row in bench.con.execute(sql).fetchall()}


# Each had false states before: 40 is one in which gaps of other CPUs were known.
@pytest.mark.parametrize(
    ("source_seed", "format_", "kind"),
    [
        (10, "perf", "late_start"),
        (40, "perf", "late_start"),
        (60, "perf", "late_start"),
        (60, "real", "late_start"),
        (10, "perf", "early_end"),
        (60, "perf", "early_end"),
    ],
)
def test_states_at_missing_edges_are_unknown(
    source_seed: int, format_: str, kind: str, benches: tuple[Bench, Bench], tmp_path: Path
) -> None:
    bench_of_whole, bench = benches
    source = sources.draw(source_seed, format_, tmp_path)
    whole = damaged(bench_of_whole, source, Plan(), 0, tmp_path)
    assert signs(bench_of_whole) == set()
    seed = 8 * source_seed
    plan = KINDS[kind](source.file.chunks, random.Random(seed), source.file.hz)
    answers = damaged(bench, source, plan, seed, tmp_path)
    assert kind in signs(bench)
    shift = judge.shift_ns(answers, whole)
    edge = (whole.duration_ns - whole.first_ns) // 10
    whole.window = (whole.first_ns + edge, whole.duration_ns - edge)
    answers.window = (whole.window[0] - shift, whole.window[1] - shift)
    found = judge.judge([], answers, whole)
    wrong = {key: column.wrong for key, column in found.items() if column.wrong}
    assert wrong == {}
    assert found["cpu_state", "state"].rows > 100
    # Where records exist, the state is still known.
    unknown = bench.con.execute("SELECT sum(dur) FROM cpu_state WHERE state = 'unknown'").fetchone()
    extent = (
        min(chunk.first for chunk in source.file.chunks if chunk.first),
        max(chunk.last for chunk in source.file.chunks),
    )
    lost = stream.union_ns(stream.spans(source.file.chunks, plan, extent), extent, source.file.hz)
    assert unknown is not None
    if format_ == "perf":
        assert 0 < unknown[0] <= 1.5 * lost[1] + 1_000_000 * len(stream.by_cpu(source.file.chunks))
