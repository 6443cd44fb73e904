"""Plays runs: a source, a kind of damage, and the answers about the damaged copy."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path

from damage import judge, sources, stream
from damage.bench import Answers, Bench
from damage.identity import Name
from damage.judge import Columns, FalseFinding
from damage.kinds import KINDS
from damage.sources import Source
from damage.stream import Plan

# Runs on one source: the rows of the undamaged source are computed once.
PER_SOURCE = 8
# Share of the recording at each end that is not judged: the whole recording does not show what
# ran there before the first record of a CPU and after its last either.
_EDGE = 0.1


@dataclass
class Run:
    """The result for one damaged recording."""

    seed: int
    source: str
    format: str
    kind: str
    undetectable: bool
    vacuity: bool
    """Whether widths are compared with the lost time."""
    lost_ns: int = 0
    lost_sum_ns: int = 0
    columns: Columns = field(default_factory=dict)
    false_findings: list[FalseFinding] = field(default_factory=list)
    failure: str | None = None
    """Why the damaged file could not be loaded."""
    kept: str | None = None
    """The damaged file, if it was kept."""

    @property
    def is_wrong(self) -> bool:
        """Whether a claim or a finding is false, or the file raised an unexpected error."""
        claims = any(column.wrong for column in self.columns.values())
        return claims or bool(self.false_findings) or self.failure is not None


class Player:
    """Plays runs in one process: two databases, and the last source."""

    def __init__(self, keep: Path | None) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.folder = Path(self._folder.name)
        self.whole_bench, self.bench = Bench(), Bench()
        self.keep = keep
        self._source: tuple[tuple[int, str], Source, Answers] | None = None

    def close(self) -> None:
        """Closes the databases and removes the files."""
        self.whole_bench.close()
        self.bench.close()
        self._folder.cleanup()

    def source(self, seed: int, format_: str) -> tuple[Source, Answers]:
        """The source of that seed, loaded whole, with what is already answered about it."""
        if self._source is None or self._source[0] != (seed, format_):
            self.whole_bench.renew()
            self.bench.renew()
            source = sources.draw(seed, format_, self.folder)
            path = self.folder / f"whole-{source.recording.label}"
            path.write_bytes(source.file.damaged(Plan(), seed))
            whole = self.whole_bench.load(sources.with_trace(source, path, True))
            path.unlink()
            if isinstance(whole, str):
                raise AssertionError(f"{source.name} cannot be loaded: {whole}")
            self._source = ((seed, format_), source, whole)
        return self._source[1], self._source[2]

    def play(self, seed: int, format_: str, kind: str) -> Run:
        """One run."""
        source, whole = self.source(seed // PER_SOURCE, format_)
        if kind == "reused_ids" and source.reused is not None:
            file, (old, new) = source.reused
            source = replace(source, file=file)
            whole = replace(whole, names=whole.names.renamed(old, new))
        plan = KINDS[kind](source.file.chunks, random.Random(seed), source.file.hz)
        has_sign = plan.signaled or plan.offline or plan.overwritten
        if source.format != "etl" and plan.lost and not has_sign:
            # A perf.data has no sequence numbers: nothing shows that a stream starts late, ends
            # early or is missing, unless the records of other CPUs contradict that.
            plan.undetectable = True
        if source.format == "real" and kind in ("cut", "no_thread_events"):
            # The switches then come from PERF_RECORD_SWITCH alone: other times, no states.
            plan.undetectable = True
        data = source.file.damaged(plan, seed)
        path = self.folder / f"{kind}-{source.recording.label}"
        path.write_bytes(data)
        run = Run(seed, source.name, source.format, kind, plan.undetectable,
                  not plan.unknown_everywhere and not plan.undetectable)  # fmt: skip
        try:
            snapshots = kind != "no_rundown"
            damaged = self.bench.load(sources.with_trace(source, path, snapshots))
            if isinstance(damaged, str):
                run.failure = damaged
            else:
                self._compare(run, plan, source, whole, damaged)
        except Exception as error:
            # Any error on a damaged file is a result of the run.
            run.failure = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        if self.keep is not None and run.is_wrong:
            self.keep.mkdir(parents=True, exist_ok=True)
            kept = self.keep / f"{seed}-{path.name}"
            path.replace(kept)
            run.kept = str(kept)
        else:
            path.unlink()
        return run

    def _compare(
        self, run: Run, plan: Plan, source: Source, whole: Answers, damaged: Answers
    ) -> None:
        shift = judge.shift_ns(damaged, whole)
        length = whole.duration_ns - whole.first_ns
        edge = int(length * _EDGE)
        window = (
            max(whole.first_ns + edge, whole.complete[0], damaged.first_ns + shift),
            min(whole.duration_ns - edge, whole.complete[1], damaged.duration_ns + shift),
        )
        if window[1] <= window[0]:
            return
        if window != whole.window or not whole.rows:
            self.whole_bench.ask(whole, window, unlimited=True)
        self.bench.ask(
            damaged, (window[0] - shift, window[1] - shift), without=self.bench.empty(whole)
        )
        queries = self.bench.queries
        run.columns = judge.judge(
            queries, damaged, whole,
            threads_only=plan.threads_only, has_wakeups="wakeup" not in plan.without,
        )  # fmt: skip
        if plan.thinned and _waits_to_the_end(damaged) - _waits_to_the_end(whole):
            run.undetectable = True
        run.false_findings = judge.false_findings(damaged, whole)
        ticks = [ns * whole.clock_hz // 1_000_000_000 + whole.start_clock for ns in window]
        chunks = source.file.chunks
        extent = (min(c.first for c in chunks if c.first), max(c.last for c in chunks))
        spans = stream.spans(chunks, plan, extent)
        run.lost_ns, run.lost_sum_ns = stream.union_ns(spans, (ticks[0], ticks[1]), source.file.hz)


def _waits_to_the_end(answers: Answers) -> set[Name]:
    """Threads of which nothing is recorded after they began to wait, or started: if their wakeup is
    missing, and no other one of theirs, the file looks as if they had not been woken.
    """
    return {
        answers.names.of("utid", row["utid"])
        for row in answers.states["thread_state"]
        if row["state"] in ("waiting", "new") and row["ts"] + row["dur"] >= answers.duration_ns
    }


Task = tuple[int, str, str]


def tasks(first: int, count: int, formats: Sequence[str], kinds: Sequence[str]) -> Iterator[Task]:
    """Seeds with a format and a kind; those of one source are consecutive."""
    for seed in range(first, first + count):
        block = seed // PER_SOURCE
        format_ = formats[block % len(formats)]
        usable = [
            kind for kind in kinds
            if (format_ != "etl" or kind != "no_migrations")
            and (format_ != "etl" or kind != "offline")
            and (format_ == "etl" or kind not in ("sequence_gap", "no_priorities"))
        ]  # fmt: skip
        if usable:
            # Each kind is equally frequent whatever the number of formats.
            place = block // len(formats) * PER_SOURCE + seed % PER_SOURCE
            yield seed, format_, usable[place % len(usable)]


_player: Player | None = None


def _played(given: tuple[Task, Path | None]) -> Run:
    global _player
    task, keep = given
    if _player is None:
        _player = Player(keep)
    return _player.play(*task)


def play_all(given: Sequence[Task], workers: int, keep: Path | None) -> Generator[Run, None, None]:
    """The runs in order, on that many processes."""
    if workers == 1:
        player = Player(keep)
        try:
            for task in given:
                yield player.play(*task)
        finally:
            player.close()
        return
    # Threads of a library do not survive a fork.
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    try:
        yield from pool.map(_played, [(task, keep) for task in given], chunksize=PER_SOURCE)
    finally:
        # The caller may stop early.
        pool.shutdown(cancel_futures=True)
