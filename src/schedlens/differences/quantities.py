"""The quantities that two recordings are compared by, each with its SQL.

There are three kinds. A `ratio` has a numerator and a denominator for each block of the window
(`FROM time_block`), so that any stretch of time has a value: the ratio of the sums. `items` are
single values in order of time, such as frames, of which a quantile or the mean is compared. A
`whole` has one value for each recording, and can only be compared over repeats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["ratio", "items", "whole"]
Better = Literal["lower", "higher"]

BLOCKS = 120


@dataclass(frozen=True)
class Quantity:
    """A quantity: its unit, which direction is better (None: neither), and its SQL.

    The SQL of a ratio returns trace_id, subject, block, num, den, slack, wide: the true value of a
    row is between num / (den + wide) and (num + slack) / (den + wide), and equals num / den if
    nothing was lost; a slack of NULL has no bounds. That of items returns trace_id, subject, ts,
    value, exact; that of a whole trace_id, subject, value. `quantile` is compared for items, the
    mean if it is None. `analyzer` names the analyzer or query that explains the quantity. A
    symptom is what a user notices; everything else may be its mechanism.
    """

    name: str
    text: str
    unit: str
    kind: Kind
    analyzer: str
    sql: str
    of: str = "machine"
    better: Better | None = None
    quantile: float | None = None
    is_symptom: bool = False


def _per_time(
    name: str, text: str, column: str, query: str, analyzer: str, *, bounded: bool = False
) -> Quantity:
    """A mean number over time: the time of several CPUs, cores or threads by that of the block."""
    return Quantity(
        name,
        text,
        "",
        "ratio",
        analyzer,
        f"SELECT trace_id, NULL AS subject, block, {column} AS num, dur_ns AS den, "
        f"{'unknown_ns' if bounded else 'NULL'} AS slack, 0 AS wide FROM {query}",
    )


def _of_process(name: str, text: str, column: str, analyzer: str, slack: str) -> Quantity:
    return Quantity(
        name,
        text,
        "",
        "ratio",
        analyzer,
        f"SELECT trace_id, process AS subject, block, {column} AS num, dur_ns AS den, "
        f"{slack} AS slack, 0 AS wide FROM block_process",
        of="process",
    )


def _obstacle(name: str, text: str) -> Quantity:
    return Quantity(
        f"ready_{name}_threads",
        f"Ready threads: {text}",
        "",
        "ratio",
        "ready_obstacle",
        # A process without this cause in a recording was ready for 0 ns by it.
        "SELECT p.trace_id, p.process AS subject, p.block, coalesce(o.ready_ns, 0) AS num, "
        "p.dur_ns AS den, NULL AS slack, 0 AS wide FROM block_process AS p "
        "LEFT JOIN block_obstacle AS o ON o.trace_id = p.trace_id AND o.block = p.block "
        f"AND o.process = p.process AND o.obstacle = '{name}'",
        of="process",
        better="lower",
    )


# Frames from PresentMon or the program's own stamps do not depend on the records of the trace.
_FRAMES = (
    "SELECT trace_id, process AS subject, start_ns AS ts, {value} AS value, "
    "coalesce(dialect = 'mark' OR dialect LIKE 'presentmon%', false) AS exact "
    "FROM frame_time WHERE dur_ns IS NOT NULL"
)


def _frame(name: str, text: str, quantile: float) -> Quantity:
    return Quantity(
        name, text, "ns", "items", "frame_time", _FRAMES.format(value="dur_ns"), of="process",
        better="lower", quantile=quantile, is_symptom=True,
    )  # fmt: skip


def _request(percentile: int) -> Quantity:
    return Quantity(
        f"request_p{percentile}_ns",
        f"Latency of requests, p{percentile}",
        "ns",
        "whole",
        "shard_latency",
        "SELECT trace_id, NULL AS subject, latency_ns AS value FROM request_quantile "
        f"WHERE percentile = {percentile}",
        better="lower",
        is_symptom=True,
    )


def _wakeup(percentile: int) -> Quantity:
    return Quantity(
        f"wakeup_p{percentile}_ns",
        f"Time from ready to running: p{percentile} of each block, mean over the blocks",
        "ns",
        "ratio",
        "ready_obstacle",
        f"SELECT trace_id, process AS subject, block, p{percentile}_ns AS num, 1 AS den, "
        "NULL AS slack, 0 AS wide FROM block_wakeup_latency",
        of="process",
        better="lower",
    )


_INSTRUCTIONS = "regexp_matches(lower(counter), '(^|/)(instructions|instructions?retired)(/|:|$)')"
_CYCLES = (
    "regexp_matches(lower(counter), "
    "'(^|/)(cpu-cycles|cycles|totalcycles|unhaltedcorecycles)(/|:|$)')"
)

QUANTITIES = (
    _frame("frame_p50_ns", "Frame time, median", 0.5),
    _frame("frame_p95_ns", "Frame time, p95", 0.95),
    _frame("frame_p99_ns", "Frame time, p99", 0.99),
    Quantity(
        "frame_stutter_pct", "Frames that stutter", "%", "items", "frame_time",
        _FRAMES.format(value="100.0 * stutter::INTEGER"), of="process", better="lower",
        is_symptom=True,
    ),
    Quantity(
        "mark_p50_ns", "Length of a mark, median", "ns", "items", "parallel_section",
        "SELECT trace_id, name AS subject, ts, dur AS value, false AS exact FROM mark "
        "WHERE kind <> 'frame' AND dur > 0",
        of="mark", better="lower", quantile=0.5, is_symptom=True,
    ),
    Quantity(
        "work_per_s", "Work per second of all workers", "per s", "ratio", "run_throughput",
        "SELECT trace_id, NULL AS subject, block, "
        "1e9 * CASE WHEN bytes > 0 THEN bytes ELSE iterations END AS num, dur_ns AS den, "
        "0 AS slack, 0 AS wide FROM block_work",
        better="higher", is_symptom=True,
    ),
    *(_request(percentile) for percentile in (50, 95, 99)),
    *(_wakeup(percentile) for percentile in (50, 95)),
    _of_process("ready_threads", "Ready threads", "ready_ns", "ready_obstacle",
                slack="ready_high_ns - ready_ns"),
    _obstacle("all_busy", "every allowed CPU was busy"),
    _obstacle("idle_available", "an allowed CPU was idle"),
    _obstacle("parked_available", "only parked CPUs were idle"),
    _obstacle("throttled", "throttled by a quota"),
    _obstacle("idle_exit", "the CPU left its idle state"),
    _of_process("run_cpus", "CPUs that the process keeps busy", "run_ns", "concurrency",
                slack="unknown_ns"),
    Quantity(
        "e_core_pct", "Running time on E cores", "%", "ratio", "core_type_residency",
        "SELECT trace_id, process AS subject, block, 100.0 * run_e_ns AS num, run_ns AS den, "
        "100.0 * (run_e_high_ns - run_e_ns) AS slack, unknown_ns AS wide FROM block_process",
        of="process",
    ),
    _per_time("busy_cpus", "Busy logical CPUs", "busy_ns", "block_concurrency", "concurrency",
              bounded=True),
    _per_time("busy_p_cores", "Busy P cores", "p_ns", "block_concurrency", "concurrency"),
    _per_time("busy_e_cores", "Busy E cores", "e_ns", "block_concurrency", "concurrency"),
    Quantity(
        "shared_core_pct", "Core time with more than one SMT sibling busy", "%", "ratio",
        "sibling_overlap",
        "SELECT trace_id, NULL AS subject, block, 100.0 * both_ns AS num, "
        "one_ns + both_ns AS den, 100.0 * unknown_ns AS slack, unknown_ns AS wide "
        "FROM block_sharing",
    ),
    _per_time("avoidable_sharing_threads", "Threads that share a core without need",
              "avoidable_ns", "block_sharing", "avoidable_sharing"),
    Quantity(
        "cycles_per_instruction", "Cycles per instruction", "", "ratio", "smt_tax",
        f"SELECT trace_id, process AS subject, block, sum(events) FILTER (WHERE {_CYCLES}) AS num, "
        f"sum(events) FILTER (WHERE {_INSTRUCTIONS}) AS den, NULL AS slack, 0 AS wide "
        f"FROM block_counter WHERE {_CYCLES} OR {_INSTRUCTIONS} GROUP BY ALL",
        of="process", better="lower",
    ),
    Quantity(
        "counter_per_s", "Counted events per second of running", "per s", "ratio", "smt_tax",
        "SELECT trace_id, process || ': ' || counter AS subject, block, 1e9 * events AS num, "
        "run_ns AS den, NULL AS slack, 0 AS wide FROM block_counter",
        of="counter",
    ),
    _per_time("parked_cpus", "Parked logical CPUs", "parked_ns", "block_power", "parking"),
    Quantity(
        "clock_mhz", "Recorded frequency", "MHz", "ratio", "turbo_slope",
        "SELECT trace_id, NULL AS subject, block, avg_khz / 1000 * clock_ns AS num, "
        "clock_ns AS den, NULL AS slack, 0 AS wide FROM block_power WHERE clock_ns > 0",
    ),
    Quantity(
        "power_w", "Power over the step", "W", "whole", "turbo_slope",
        "SELECT e.trace_id, e.domain AS subject, sum(e.joules) * 1e9 / "
        "any_value(coalesce(c.energy_ns, r.end_ns - r.start_ns)) AS value FROM energy AS e "
        "LEFT JOIN run AS r USING (trace_id) LEFT JOIN experiment_cell AS c USING (trace_id) "
        "GROUP BY e.trace_id, e.domain",
        of="domain", better="lower",
    ),
)  # fmt: skip

BY_NAME = {quantity.name: quantity for quantity in QUANTITIES}

# The questions that the SQL above reads: answered once for each database.
ANSWERED = (
    "block_concurrency", "block_sharing", "block_process", "block_wakeup_latency",
    "block_obstacle", "block_counter", "block_work", "block_power",
)  # fmt: skip
