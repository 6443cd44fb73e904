"""The Linux state letters of the Perfetto views are those of the state machine."""

from __future__ import annotations

import duckdb

from schedlens import _decoders
from schedlens.load import schema


def test_each_state_bit_has_its_letter() -> None:
    sql = (schema.folder() / "dialects/perfetto/sched.sql").read_text(encoding="utf-8")
    case = "CASE" + sql.partition("  CASE\n")[2].partition("END AS end_state")[0] + "END"
    # The lowest bit wins; what is above the eight bits of the state does not count.
    states = [*(1 << bit for bit in range(8)), 0x82, 0x102, 0xFF, -2]
    with duckdb.connect() as con:
        schema.create(con)
        rows = con.execute(
            f"SELECT {case} FROM (SELECT unnest(?)::INTEGER AS prev_state, 'perf' AS source) "
            "AS left_at, (SELECT false AS right_censored, false AS is_idle, "
            "'blocked' AS end_reason) AS s",
            [states],
        ).fetchall()
    letters = "".join(letter for (letter,) in rows)
    assert letters == "".join(_decoders.LINUX_LETTERS) + "DDSD"
