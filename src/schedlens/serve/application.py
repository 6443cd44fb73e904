"""The routes of the server; each request reads the database with a cursor of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio.to_thread
import duckdb
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from schedlens.agents.guarded_sql import GuardedDatabase
from schedlens.errors import SchedlensError
from schedlens.serve import live_page
from schedlens.serve.gatekeeper import Gatekeeper
from schedlens.timeline import inventory, lanes, range_stacks, slices, sums
from schedlens.timeline.lanes import Asked
from schedlens.timeline.prepared import Timelines

_ARROW = "application/vnd.apache.arrow.stream"
_MOST_BODY = 64 << 10
_MOST_IDS = 4096
# Times are below this, so that sums of two of them are within 64 bits.
_MOST_NS = 1 << 61


@dataclass
class Session:
    """What is served: a session's recordings, and its database for SQL."""

    folder: Path
    timelines: Timelines
    guarded: GuardedDatabase
    token: str
    # Requests answered at a time: more of them would only divide the memory between them.
    slots: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(4))
    sql_lock: threading.Lock = field(default_factory=threading.Lock)

    def first(self) -> tuple[int, str]:
        """The recording shown first: that of the first finding, else the first."""
        rows = self.timelines.con.execute(
            "SELECT trace_id, label FROM trace LEFT JOIN (SELECT trace_id, min(finding_id) AS best "
            "FROM finding GROUP BY trace_id) USING (trace_id) "
            "ORDER BY best NULLS LAST, trace_id LIMIT 1"
        ).fetchall()
        return (rows[0][0], rows[0][1]) if rows else (0, "no recording")


class _Refused(Exception):
    """A request that cannot be answered, with the reason."""


def application(session: Session, port: int) -> Starlette:
    """The application; every request passes the gatekeeper first."""

    def route(path: str, answer: Callable[[Session, Request], Response]) -> Route:
        async def endpoint(request: Request) -> Response:
            return await anyio.to_thread.run_sync(_answered, session, answer, request)

        return Route(path, endpoint, methods=["GET"])

    async def run_sql(request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > _MOST_BODY:
                return PlainTextResponse("the statement is too long", 413)
        return await anyio.to_thread.run_sync(_sql, session, body)

    routes = [
        route("/", lambda own, request: _report(own)),
        route("/sql", lambda own, request: _page(live_page.sql_page(own.folder.name))),
        route("/timeline/overview", lambda own, request: _json(_overview(own, request))),
        route("/timeline/lanes", _lanes),
        route("/timeline/totals", _totals),
        route("/timeline/flame", lambda own, request: _json(_flame(own, request))),
        route("/timeline/slice", lambda own, request: _json(_slice(own, request))),
        route("/timeline/neighbor", lambda own, request: _json(_neighbor(own, request))),
        route("/timeline/worst_waits", lambda own, request: _json(_waits(own, request))),
        Route("/sql/run", run_sql, methods=["POST"]),
    ]
    keeper = Middleware(Gatekeeper, port=port, token=session.token)
    return Starlette(routes=routes, middleware=[keeper])


def _answered(
    session: Session, answer: Callable[[Session, Request], Response], request: Request
) -> Response:
    """The answer of one request; a failure becomes one line."""
    try:
        with session.slots, session.timelines.cursor() as timelines:
            return answer(replace(session, timelines=timelines), request)
    except _Refused as error:
        return PlainTextResponse(str(error), 400)
    except SchedlensError as error:
        return PlainTextResponse(str(error), 404)
    except duckdb.Error as error:
        return PlainTextResponse(str(error).splitlines()[0], 500)


def _sql(session: Session, body: bytes) -> Response:
    try:
        sql = json.loads(body)["sql"]
    except (ValueError, KeyError, TypeError, RecursionError):
        sql = None
    if not isinstance(sql, str):
        return PlainTextResponse('the body must be {"sql": "SELECT ..."}', 400)
    try:
        with session.sql_lock:
            answer = session.guarded.select(sql)
    except SchedlensError as error:
        return PlainTextResponse(str(error), 400)
    rows = [[_plain(value) for value in row] for row in answer.rows]
    return _json(
        {
            "columns": list(answer.columns),
            "rows": rows,
            "more": answer.more,
            "more_known": answer.more_known,
        }
    )


def _plain(value: Any) -> Any:
    """A value as JSON; whole numbers beyond 2^53 and everything without a JSON type as text."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int) and abs(value) < 1 << 53:
        return value
    return value if isinstance(value, float) and value - value == 0 else str(value)


def _report(session: Session) -> Response:
    trace_id, label = session.first()
    text = live_page.report(session.folder, trace_id, session.token)
    return _page(text or live_page.bare(label, trace_id, session.token))


def _page(text: str) -> Response:
    return HTMLResponse(text, headers={"Content-Security-Policy": live_page.policy_of(text)})


def _json(value: Any) -> Response:
    return JSONResponse(value)


def _number(request: Request, name: str, default: int | None = None) -> int:
    """A whole number of the query."""
    text = request.query_params.get(name)
    if text is None and default is not None:
        return default
    try:
        # The page rounds no time, but a scale may leave it with a fraction.
        number = int(float(text or "")) if "." in (text or "") else int(text or "")
    except (ValueError, OverflowError):
        raise _Refused(f"{name} must be a whole number") from None
    if abs(number) > _MOST_NS:
        raise _Refused(f"{name} is too large")
    return number


def _optional(request: Request, name: str) -> int | None:
    return _number(request, name) if request.query_params.get(name) else None


def _overview(session: Session, request: Request) -> dict[str, Any]:
    return inventory.overview(session.timelines, _number(request, "trace"))


def _range(request: Request) -> tuple[int, int]:
    start, end = _number(request, "start_ns"), _number(request, "end_ns")
    if end <= start:
        raise _Refused("end_ns must be after start_ns")
    return start, end


def _lanes(session: Session, request: Request) -> Response:
    start, end = _range(request)
    texts = [text for text in request.query_params.get("ids", "").split(",") if text]
    if len(texts) > _MOST_IDS:
        raise _Refused(f"at most {_MOST_IDS} lanes at once")
    try:
        ids = [int(text) for text in texts]
    except ValueError:
        raise _Refused("ids must be whole numbers") from None
    if any(abs(one) > _MOST_NS for one in ids):
        raise _Refused("ids are too large")
    asked = Asked(
        _number(request, "trace"), request.query_params.get("kind", ""), start, end,
        max(1, min(lanes.MOST_PIXELS, _number(request, "width", 1000))), ids,
    )  # fmt: skip
    table = lanes.lanes(session.timelines, asked)
    return Response(lanes.as_bytes(table), media_type=_ARROW)


def _totals(session: Session, request: Request) -> Response:
    table = sums.totals(session.timelines, _number(request, "trace"), *_range(request))
    return Response(lanes.as_bytes(table), media_type=_ARROW)


def _flame(session: Session, request: Request) -> dict[str, Any]:
    kind = request.query_params.get("kind", "")
    if kind not in range_stacks.KINDS:
        raise _Refused(f"kind must be one of {', '.join(range_stacks.KINDS)}")
    return range_stacks.of_range(
        session.timelines, _number(request, "trace"), _range(request), kind,
        _optional(request, "utid"),
    )  # fmt: skip


def _slice(session: Session, request: Request) -> dict[str, Any] | None:
    return slices.slice_at(
        session.timelines, _number(request, "trace"), _number(request, "utid"),
        _number(request, "time_ns"),
    )  # fmt: skip


def _neighbor(session: Session, request: Request) -> dict[str, Any] | None:
    what = request.query_params.get("what", "")
    utid, cpu = _optional(request, "utid"), _optional(request, "cpu")
    if what not in slices.WHAT or (utid is None) == (cpu is None):
        raise _Refused(f"what must be one of {', '.join(slices.WHAT)}, of one utid or one cpu")
    return slices.neighbor(
        session.timelines, _number(request, "trace"), _number(request, "time_ns"), what,
        utid=utid, cpu=cpu,
    )  # fmt: skip


def _waits(session: Session, request: Request) -> list[dict[str, Any]]:
    return sums.worst_waits(session.timelines, _number(request, "trace"), _number(request, "utid"))
