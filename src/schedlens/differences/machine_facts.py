"""What recordings say differently about their machine, software and background processes."""

from __future__ import annotations

from dataclasses import dataclass

from schedlens.differences.sides import Side

# A process with less running time, in percent of one CPU, is not worth a line.
_LEAST_PCT = 0.1
BACKGROUND = "background"


@dataclass(frozen=True)
class Fact:
    """A fact that differs: its topic and name, and its values on each side; None: not recorded."""

    topic: str
    key: str
    a: str | None
    b: str | None


def values(side: Side) -> dict[tuple[str, str], str]:
    """Every recorded fact of a side; several values of its recordings are joined."""
    found: dict[tuple[str, str], set[str]] = {}
    for _, con in side.databases:
        wanted = [one.trace_id for one in side.recordings if one.con is con]
        for topic, key, value in con.execute(
            "SELECT DISTINCT topic, key, value FROM machine_fact "
            "WHERE value IS NOT NULL AND trace_id IN (SELECT unnest(?))",
            [wanted],
        ).fetchall():
            found.setdefault((topic, key), set()).add(value)
    return {key: ", ".join(sorted(texts)) for key, texts in found.items()}


def facts(a: Side, b: Side) -> tuple[tuple[Fact, ...], tuple[str, ...]]:
    """The facts that differ, with background processes that only one side has; and all names."""
    of_a, of_b = values(a), values(b)
    differing = [
        Fact(topic, key, of_a.get((topic, key)), of_b.get((topic, key)))
        for topic, key in sorted(of_a.keys() | of_b.keys())
        if of_a.get((topic, key)) != of_b.get((topic, key))
    ]
    ran_a, ran_b = _ran(a), _ran(b)
    only = sorted(
        ran_a.keys() ^ ran_b.keys(),
        key=lambda name: (-max(ran_a.get(name, 0), ran_b.get(name, 0)), name),
    )
    differing += [
        Fact(BACKGROUND, name, _cpu(ran_a.get(name)), _cpu(ran_b.get(name)))
        for name in only
        if max(ran_a.get(name, 0), ran_b.get(name, 0)) >= _LEAST_PCT
    ]
    return tuple(differing), tuple(sorted({key for _, key in of_a.keys() | of_b.keys()}))


def _cpu(pct: float | None) -> str | None:
    return None if pct is None else f"{pct:.2g} % of a CPU"


def _ran(side: Side) -> dict[str, float]:
    """The running time of each process in percent of one CPU, the mean over the recordings."""
    found: dict[str, float] = {}
    for _, con in side.databases:
        for name, pct in con.execute(
            "SELECT process, 100 * sum(run_ns / dur_ns) / count(DISTINCT block) "
            "FROM block_process WHERE process IS NOT NULL GROUP BY process"
        ).fetchall():
            found[name] = found.get(name, 0.0) + pct / len(side.recordings)
    return found
