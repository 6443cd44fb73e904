"""What ran in a guest is on lanes of the host's timeline."""

from __future__ import annotations

from pathlib import Path

import chromium
import host_and_guest
import pytest
import timeline_page
from conftest import command

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        chromium.PROGRAM is None, reason="needs Chromium (Debian: apt-get install chromium)"
    ),
]

# All lanes from the top, with the processes open.
_LABELS = (
    "[...document.querySelectorAll('.lane-label')].sort((x, y) => parseFloat(x.style.top) - "
    "parseFloat(y.style.top)).map((one) => one.querySelector('.lane-name').textContent)"
)


def test_threads_of_a_guest_are_under_the_hosts_thread_that_runs_them(
    tmp_path: Path, timeline: chromium.Browser
) -> None:
    host_and_guest.write(tmp_path)
    done = command("analyze", str(tmp_path), "-o", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    timeline.open(tmp_path / "out" / "report.html")
    timeline_page.settle(timeline)
    labels: list[str] = timeline.evaluate(_LABELS)
    assert labels[labels.index("▾ Guests") + 1] == "virtual CPU 0"
    assert labels[labels.index("t501 (501)") + 1] == "virtual CPU 0"
    (title,) = timeline.evaluate(
        "[...document.querySelectorAll('.lane-name')].filter((one) => "
        "one.title.startsWith('virtual')).slice(0, 1).map((one) => one.title)"
    )
    assert title == "virtual CPU 0: the thread t501 of the host: open the table of this lane"
    # The table of the lane names the thread and what the host did.
    timeline.evaluate(
        "[...document.querySelectorAll('.lane-name')].find((one) => "
        "one.title.startsWith('virtual')).click()"
    )
    cells: list[str] = timeline.evaluate(
        "[...document.querySelectorAll('.lane-table tbody tr')].map((row) => "
        "row.children[1].textContent)"
    )
    assert cells == [
        "t42", "t42: the host let it wait (steal)", "t42", "t42: blocked in the host",
    ]  # fmt: skip
