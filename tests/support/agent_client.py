"""A session of the mcp package's own client with `schedlens mcp` in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

PROGRAM = str(Path(sys.executable).parent / "schedlens")


@dataclass
class Reply:
    """What a tool returned: its JSON object, or the text of an error; and bytes of the message."""

    answer: dict[str, Any]
    error: str | None
    size: int
    text: str

    def part(self, name: str) -> list[dict[str, Any]]:
        """The rows of a part, each as column name to value."""
        (part,) = (one for one in self.answer["parts"] if one["name"] == name)
        return [dict(zip(part["columns"], row, strict=True)) for row in part["rows"]]


@dataclass
class Agent:
    """Calls tools and counts the calls."""

    client: Client
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    async def call(self, name: str, **arguments: Any) -> Reply:
        """Calls a tool."""
        self.calls.append((name, arguments))
        result = await self.client.call_tool(name, arguments)
        (content,) = result.content
        text = str(getattr(content, "text", ""))
        size = len(result.model_dump_json(by_alias=True, exclude_none=True).encode())
        return Reply(result.structured_content or {}, text if result.is_error else None, size, text)

    async def rows(self, name: str, part: str, **arguments: Any) -> list[dict[str, Any]]:
        """Calls a tool; returns the rows of a part."""
        reply = await self.call(name, **arguments)
        assert reply.error is None, reply.error
        return reply.part(part)


def talk(script: Callable[[Agent], Awaitable[None]], *arguments: str | Path) -> Agent:
    """Runs a script with a server for these arguments (folders and options)."""
    agents: list[Agent] = []
    failures: list[Exception] = []

    async def run() -> None:
        server = StdioServerParameters(command=PROGRAM, args=["mcp", *map(str, arguments)])
        with anyio.fail_after(300):
            async with Client(stdio_client(server)) as client:
                agents.append(Agent(client))
                try:
                    await script(agents[0])
                except Exception as error:
                    # Raised below: a task group would wrap it three times.
                    failures.append(error)

    anyio.run(run)
    if failures:
        raise failures[0]
    return agents[0]
