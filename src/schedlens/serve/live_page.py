"""The pages of the server: the report of the session with a live timeline, and the SQL page."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

from schedlens.ask import catalog
from schedlens.output.terminal import visible
from schedlens.report import page, summary

_DATA = re.compile(r'<script type="application/gzip" id="data">([^<]*)</script>')
_TITLE = re.compile(r"<title>([^<]*)</title>")
_MARK = re.compile(r"\{\{(\w+)\}\}")


def report(folder: Path, trace_id: int, token: str) -> str | None:
    """The session's report, whose timeline asks the server; None if `analyze` wrote no report.

    The page gets the script of this version, and nothing but the data of the stored report.
    """
    try:
        stored = (folder / "report.html").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    packed, title = _DATA.search(stored), _TITLE.search(stored)
    if packed is None or title is None:
        return None
    try:
        shown = json.loads(gzip.decompress(base64.b64decode(packed[1])))
    except (OSError, EOFError, ValueError):
        return None
    return _live(shown, html.unescape(title[1]), trace_id, token)


def bare(label: str, trace_id: int, token: str) -> str:
    """A page with the timeline alone, for a database without a report."""
    section = {
        "name": "cpu_timeline", "heading": "Timeline", "lead": "", "window": "",
        "figures": [
            {"name": "cpu_timeline", "kind": "timeline", "caption": "", "height": 400, "plot": {}}
        ],
        "answers": [],
    }  # fmt: skip
    findings: dict[str, Any] = {
        "headline": "This database has no report: run `analyze` on the recordings to get one.",
        "tally": [], "top": [], "cards": [], "sql": "FROM finding",
        **{name: [] for name in summary.CONCLUSIONS},
    }  # fmt: skip
    shown = {"facts": [], "findings": findings, "sections": [section], "absent": []}
    return _live(shown, visible(label), trace_id, token)


def _live(shown: dict[str, Any], title: str, trace_id: int, token: str) -> str:
    shown["timeline"] = {"shown": trace_id, "server": {"token": token, "path": "/timeline"}}
    text = page.page(shown, title)
    closed = html.escape("default-src 'none'; ")
    return text.replace(closed, closed + html.escape("connect-src 'self'; "), 1)


def policy_of(text: str) -> str:
    """The policy in a page, for its header."""
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert found is not None
    return html.unescape(found[1]) + "; frame-ancestors 'none'"


def sql_page(session: str) -> str:
    """The page for SQL, with the queries of the catalog."""
    code = _file("sql.js")
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; connect-src 'self'; script-src 'sha256-{digest}'; "
        "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    )
    names = [
        (html.escape(query.full_name), html.escape(query.text)) for query in catalog.load_all()
    ]
    queries = "".join(f'<option value="{name}">{name}: {text}</option>' for name, text in names)
    parts = {
        "policy": html.escape(policy),
        "session": html.escape(visible(session)[:200]),
        "style": _file("page.css"),
        "queries": queries,
        "script": code,
    }
    return _MARK.sub(lambda mark: parts[mark[1]], _file("sql.html"))


def _file(name: str) -> str:
    source = resources.files("schedlens.reports").joinpath("page", name)
    return source.read_text(encoding="utf-8").strip()
