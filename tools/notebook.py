"""Executes docs/notebook.ipynb and writes docs/notebook.md from it: `make notebook`.

The notebook is kept without outputs. The page has its cells with what they print; of a figure, it
has the caption. With `--check` nothing is written, and 1 is returned if the page is stale.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

import nbclient
import nbformat

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
PAGE = ROOT / "docs" / "notebook.md"
WRITTEN = (
    "Written by `make notebook` from [notebook.ipynb](notebook.ipynb), which it executes; edit "
    "that file instead.\n"
)
_SECONDS = 600
_PLOTLY = "application/vnd.plotly.v1+json"


def executed(folder: Path) -> Any:
    """The notebook with its outputs, executed in a folder that is empty."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=_SECONDS, kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
    )  # fmt: skip
    # Its port is on the loopback device and its messages are signed; it warns all the same.
    client.extra_arguments = ["--IPKernelApp.log_level=ERROR"]
    programs = sysconfig.get_path("scripts")
    environment = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', '')}",
        "SCHEDLENS_CACHE_DIR": str(folder / "cache"),
        # Otherwise the shape of a frame depends on the terminal.
        "COLUMNS": "100",
    }
    client.execute(env=environment)
    return notebook


def page(notebook: Any) -> str:
    """docs/notebook.md."""
    blocks: list[str] = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            blocks.append(cell.source)
            if len(blocks) == 1:
                blocks.append(WRITTEN.rstrip())
            continue
        blocks.append(f"```python\n{cell.source}\n```")
        blocks += [_shown(output) for output in cell.outputs]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _shown(output: Any) -> str:
    if output.output_type == "stream":
        return f"```text\n{output.text.rstrip()}\n```" if output.name == "stdout" else ""
    figure = output.data.get(_PLOTLY)
    if figure is not None:
        meta = figure["layout"]["meta"]
        return f"*Figure `{meta['name']}`: {meta['caption']}*"
    return f"```text\n{output.data['text/plain'].rstrip()}\n```"


def main(arguments: list[str]) -> int:
    """Exit status."""
    with tempfile.TemporaryDirectory() as folder:
        text = page(executed(Path(folder)))
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    if "--check" in arguments:
        print(f"{PAGE.relative_to(ROOT)} is stale: run `make notebook`")
        return 1
    PAGE.write_text(text, encoding="utf-8", newline="\n")
    print(f"{PAGE.relative_to(ROOT)} written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
