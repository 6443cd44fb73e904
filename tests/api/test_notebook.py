"""The example notebook runs, and docs/notebook.md is what it prints."""

from __future__ import annotations

import json
import re
from pathlib import Path

import notebook
import pytest

pytestmark = pytest.mark.slow


def test_page_is_what_the_notebook_prints(tmp_path: Path) -> None:
    done = notebook.executed(tmp_path)
    figures = [
        output.data[notebook._PLOTLY]
        for cell in done.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if notebook._PLOTLY in output.get("data", {})
    ]
    assert [figure["layout"]["meta"]["name"] for figure in figures] == [
        "ready_obstacle.threads", "parking.frames",
    ]  # fmt: skip
    assert notebook.page(done) == notebook.PAGE.read_text(encoding="utf-8"), "run `make notebook`"


def test_page_has_no_path_of_a_machine() -> None:
    text = notebook.PAGE.read_text(encoding="utf-8")
    assert re.findall(r"(?<!\w)/(?:home|tmp|root|usr|work)\b", text) == []
    assert len(text) < 20_000


def test_notebook_is_kept_without_outputs() -> None:
    cells = json.loads(notebook.NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 8
    assert {cell["execution_count"] for cell in code} == {None}
    assert [output for cell in code for output in cell["outputs"]] == []
