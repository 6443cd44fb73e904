"""The server: lists the tools, calls them one at a time, and turns every failure into one line."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from pydantic import BaseModel, ValidationError

from schedlens import __version__
from schedlens.agents import bounded_answer
from schedlens.agents.access import Access
from schedlens.agents.bounded_answer import Part
from schedlens.agents.folders import Folders
from schedlens.errors import SchedlensError
from schedlens.output.terminal import visible

# Characters of an error.
_MOST_ERROR = 600

INSTRUCTIONS = (
    "Explains how an operating system scheduled threads, from recordings that schedlens analyzed. "
    "Start with list_sessions and list_findings, look at the rows behind a finding with "
    "finding_evidence, and at its thread with thread_story; what_if predicts what a change gains. "
    "Each part of an answer has the SQL "
    "that returned its rows; change it and run it with run_sql. rows_omitted counts rows that did "
    "not fit, and narrow says how to get them. Unknown is null."
)


@dataclass(frozen=True)
class Tool:
    """A file of tools/: its name, what it does, its arguments, and what answers."""

    name: str
    description: str
    arguments: type[BaseModel]
    answer: Callable[[Access, Any], list[Part]]


def tools() -> dict[str, Tool]:
    """The tools by name."""
    package = importlib.import_module("schedlens.agents.tools")
    found = {}
    for module in pkgutil.iter_modules(package.__path__):
        loaded = importlib.import_module(f"{package.__name__}.{module.name}")
        found[module.name] = Tool(
            module.name, " ".join((loaded.__doc__ or "").split()), loaded.Arguments, loaded.answer
        )
    return found


def called(
    tool: Tool | None, name: str, given: dict[str, Any], access: Access, most_bytes: int
) -> types.CallToolResult:
    """The answer of a tool, or an error of one line."""
    try:
        if tool is None:
            return _error(f"there is no tool {name!r}: choose from {', '.join(tools())}")
        answer = bounded_answer.fitted(
            tool.answer(access, tool.arguments.model_validate(given)), most_bytes
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "arguments"
        known = ", ".join(tool.arguments.model_fields) if tool is not None else ""
        return _error(f"{place}: {first['msg']}; the arguments of {name} are: {known or 'none'}")
    except SchedlensError as error:
        return _error(str(error))
    except (OSError, MemoryError, RecursionError) as error:
        return _error(f"{type(error).__name__}: {error}")
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=bounded_answer.text(answer))],
        structured_content=answer,
    )


def _error(line: str) -> types.CallToolResult:
    text = visible(" ".join(line.split()))[:_MOST_ERROR]
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


def serve(folders: Sequence[Path], *, most_bytes: int, seconds: float) -> None:
    """Answers on stdin and stdout until the client closes them."""
    access = Access(Folders(folders), seconds)
    every = tools()

    async def list_tools(
        _: ServerRequestContext[Any], __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=tool.name,
                    description=tool.description,
                    input_schema=tool.arguments.model_json_schema(),
                    output_schema=bounded_answer.SCHEMA,
                    annotations=types.ToolAnnotations(read_only_hint=True, open_world_hint=False),
                )
                for tool in every.values()
            ]
        )

    # One at a time: the tools share connections, and the memory of the machine.
    limiter = anyio.CapacityLimiter(1)

    async def call_tool(
        _: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        return await anyio.to_thread.run_sync(
            called, every.get(params.name), params.name, params.arguments or {}, access, most_bytes,
            limiter=limiter,
        )  # fmt: skip

    server: Server[Any] = Server(
        "schedlens",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )

    async def run() -> None:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(run)
