"""Every analyzer has its page in docs/findings, and every page its analyzer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from schedlens.ask import catalog, judging

PAGES = Path(__file__).resolve().parents[2] / "docs" / "findings"
NAMES = sorted(judging.analyzers())
# Tables that pages link to, in addition to queries.
TABLES = {"finding", "analyzer_outcome", "machine_setting", "loss", "frame_path", "thread_cgroup"}


def _text(name: str) -> str:
    return (PAGES / f"{name}.md").read_text()


def test_every_analyzer_has_its_page_and_every_page_its_analyzer() -> None:
    assert sorted(path.stem for path in PAGES.glob("*.md")) == sorted([*NAMES, "README"])


def test_the_index_lists_every_page_once() -> None:
    linked = re.findall(r"^\| \[(\w+)\]\((\w+)\.md\) \|", _text("README"), re.MULTILINE)
    assert linked == [(name, name) for name in NAMES]


@pytest.mark.parametrize("name", NAMES)
def test_every_page_has_the_same_headings(name: str) -> None:
    text = _text(name)
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings == [
        "How it is computed", "Thresholds", "What to do", "Why this may be wrong",
    ]  # fmt: skip
    assert len(text.splitlines()) <= 40


@pytest.mark.parametrize("name", [*NAMES, "README"])
def test_every_query_on_a_page_exists(name: str) -> None:
    known = {query.full_name for query in catalog.load_all()} | TABLES
    named = set(re.findall(r"`FROM (\w+)", _text(name)))
    assert named <= known
    if name != "README":
        assert named & {query.full_name for query in catalog.load_all()}


@pytest.mark.parametrize("name", NAMES)
def test_page_states_thresholds_of_its_analyzer(name: str) -> None:
    """The page contains the percentages of the analyzer's docstring."""
    module = __import__(judging.analyzers()[name].judge.__module__, fromlist=["judge"])
    stated = set(re.findall(r"\d+(?:\.\d+)? (?:%|ms|us)", module.__doc__ or ""))
    page = set(re.findall(r"\d+(?:\.\d+)? (?:%|ms|us)", _text(name).replace("\n", " ")))
    assert stated - page == set()


@pytest.mark.parametrize("name", NAMES)
def test_page_lists_kinds_of_its_findings(name: str) -> None:
    (line,) = re.findall(r"^Kinds?: (.+)\.$", _text(name), re.MULTILINE)
    assert tuple(re.findall(r"`(\w+)`", line)) == judging.analyzers()[name].kinds
