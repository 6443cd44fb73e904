"""Hand-offs: one-way times by placement and way of waiting, and the frame rates they allow."""

from __future__ import annotations

from schedlens.output.wording import duration, place
from schedlens.report.figures import bar, row_height, rows_across, with_interval
from schedlens.report.sections import Figure, Nothing, Rows, Section, View

HEADING = "Hand-offs"
ORDER = 13
FIGURES = {
    "one_way": "one-way time of a hand-off",
    "frames_per_second": "frames per second of a loop with hand-offs",
}


def section(view: View) -> Section | Nothing:
    """The cells of the experiment `handoff`."""
    answer = view.ask("handoff_time")
    rows = [row for row in answer.rows if row["one_way_ns"] is not None]
    if not rows:
        return Nothing("no hand-offs were measured; `collect --experiment handoff` does")
    lead = view.details("handoff_time")
    lead += " Whiskers are the intervals over the repeats." if lead else ""
    return Section(
        lead or "One-way time of a hand-off by placement and way of waiting.",
        view.all_windows(),
        tuple(_figures(rows)),
        (answer,),
    )


def _figures(rows: Rows) -> list[Figure]:
    labels = [f"{row['how']}, {place(row['place'])}" for row in rows]
    times = [row["one_way_ns"] / 1e3 for row in rows]
    ends = ("one_way_low_ns", "one_way_ns", "one_way_high_ns")
    times_of = with_interval(
        bar("one way", labels, times, 0, unit="us"), rows, ends, size=1e3, across=True
    )
    plot = rows_across([times_of], "us, logarithmic")
    plot["layout"]["xaxis"]["type"] = "log"
    quick = min(rows, key=lambda row: row["one_way_ns"])
    slow = max(rows, key=lambda row: row["one_way_ns"])
    caption = (
        f"One-way time of a hand-off: from {duration(quick['one_way_ns'])} ({quick['place']}, "
        f"{quick['how']}) to {duration(slow['one_way_ns'])} ({slow['place']}, {slow['how']})."
    )
    made = [Figure("one_way", caption, plot, height=row_height(len(rows)))]
    framed = [row for row in rows if row["frames_per_s"] is not None]
    if framed:
        names = [f"{row['how']}, {place(row['place'])}" for row in framed]
        frames = bar(
            "frames per second", names, [row["frames_per_s"] for row in framed], 1, unit="/s"
        )
        ends = ("frames_per_s_low", "frames_per_s", "frames_per_s_high")
        with_interval(frames, framed, ends, across=True)
        worst = min(framed, key=lambda row: row["frames_per_s"])
        made.append(
            Figure(
                "frames_per_second",
                f"Frames per second of a 60 Hz loop with {worst['handoffs']} hand-offs per frame; "
                f"lowest: {worst['frames_per_s']:.1f} ({worst['how']}, {place(worst['place'])}).",
                rows_across([frames], "frames per second"),
                height=row_height(len(framed)),
            )
        )
    return made
