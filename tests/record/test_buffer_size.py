"""The option --buffer-size, from its text to the recorders' commands and profile."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from collect_command import collect
from conftest import needs_tracing

from schedlens.errors import PlanError
from schedlens.record.buffer_size import BufferSize, parse

pytestmark = pytest.mark.records


@pytest.mark.parametrize(
    ("text", "target", "wanted"),
    [
        ("8192", "linux", BufferSize(32 << 20)),
        ("32M", "linux", BufferSize(32 << 20)),
        ("3m", "linux", BufferSize(4 << 20)),
        ("1", "linux", BufferSize(4096)),
        ("1Mx2048", "windows", BufferSize(1 << 20, 2048)),
        ("512K", "windows", BufferSize(512 << 10)),
    ],
)
def test_sizes_accept_perf_and_etw_spelling(text: str, target: str, wanted: BufferSize) -> None:
    assert parse(text, target) == wanted


@pytest.mark.parametrize(
    ("text", "target", "why"),
    [
        ("big", "linux", "is not a number of pages"),
        ("-1", "linux", "is not a number of pages"),
        ("0", "linux", "is less than a page"),
        ("1K", "linux", "is less than a page"),
        ("1Mx4", "linux", "one buffer for each CPU"),
        ("32M", "windows", "is not between 4K and 16M"),
        ("1Mx1", "windows", "are not enough"),
    ],
)
def test_unsupported_sizes_are_rejected(text: str, target: str, why: str) -> None:
    with pytest.raises(PlanError, match=re.escape(why)):
        parse(text, target)


def test_perf_gets_the_requested_buffers(tmp_path: Path) -> None:
    needs_tracing()
    done = collect("--seconds", "1", "-m", "1024", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert " -m 4M " in done.stdout
    assert collect("--seconds", "0.2", "-m", "2M", "-o", str(tmp_path / "s")).returncode == 0
    refused = collect("--seconds", "1", "-m", "60000G", "--dry-run")
    assert refused.returncode == 2
    assert "is more than half of the memory" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_wpr_profile_and_xperf_get_the_requested_buffers(tmp_path: Path) -> None:
    paper = ["--os", "windows", "--seconds", "1", "--buffer-size", "2Mx2048", "--dry-run"]
    wpr = collect(*paper, "--recorder", "wpr", "-o", str(tmp_path))
    assert wpr.returncode == 0, wpr.stderr
    root = ElementTree.parse(tmp_path / "schedlens.wprp").getroot()
    kernel = root.find("Profiles/SystemCollector")
    assert kernel is not None
    assert [(part.tag, part.get("Value")) for part in kernel] == [
        ("BufferSize", "2048"),
        ("Buffers", "2048"),
    ]
    xperf = collect(*paper, "--recorder", "xperf", "-o", str(tmp_path))
    assert "-BufferSize 2048 -MinBuffers 256 -MaxBuffers 2048" in xperf.stdout
    ring = collect("--os", "windows", "--ring", "60", "-m", "2M", "--dry-run", "-o", str(tmp_path))
    assert ring.returncode == 0, ring.stderr
    # 60 s of 16 CPUs take 960 buffers of 1 MB.
    text = (tmp_path / "schedlens.wprp").read_text()
    assert '<Buffers Value="480"' in text
