"""Servers of debug files and PDB files, asked only where the user says so."""

from __future__ import annotations

import http
import http.client
import os
import re
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from schedlens.errors import SymbolServerError
from schedlens.load import symbol_cache

# Servers of debuginfod, separated by spaces, as its client reads it.
VARIABLE = "DEBUGINFOD_URLS"
_TIMEOUT_S = 30.0
_PART = 1 << 20
# The first bytes of a compressed file.
_CABINET = b"MSCF"
_LONGEST_POINTER = 1 << 12
# What a recording may ask for: never a path of its own making.
_BUILD_ID = re.compile(r"[0-9a-f]{16,64}")
_PDB_ID = re.compile(r"[0-9A-Fa-f]{33,40}")


@dataclass
class Servers:
    """Where missing files are fetched from, and what happened."""

    pdb: tuple[str, ...] = ()
    """Symbol servers of Windows."""
    debuginfod: tuple[str, ...] = ()
    fetched: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    """Why a server was given up, by its address."""
    elsewhere: dict[str, list[str]] = field(default_factory=dict)
    """What a server has in place of files, by its address."""
    _asked: dict[str, bool] = field(default_factory=dict)

    def fetch(self, kind: str, name: str, identity: str) -> bool:
        """Fetches a file into the cache; returns whether it is there.

        `kind`: `pdb`, `debuginfo` or `executable`; `identity`: signature and age of a PDB, or a
        build id. Called by the loader, from its thread.
        """
        if kind == "pdb":
            file = re.split(r"[/\\]", name)[-1]
            if not _PDB_ID.fullmatch(identity) or file.strip(". ") == "" or ":" in file:
                return False
            path = symbol_cache.pdbs() / file / identity / file
            quoted = urllib.parse.quote(file)
            found = self._from_any(self.pdb, f"{quoted}/{identity}/{quoted}", path)
            if not found:
                self._look_elsewhere(file, f"{quoted}/{identity}")
            return found
        if not _BUILD_ID.fullmatch(identity):
            return False
        path = symbol_cache.debug_files() / identity / kind
        return self._from_any(self.debuginfod, f"buildid/{identity}/{kind}", path)

    def lines(self) -> list[str]:
        """What to report about servers that failed."""
        found = [f"symbols: {server}: {why}" for server, why in self.failed.items()]
        for server, instead in self.elsewhere.items():
            more = f" and {len(instead) - 1} more" if len(instead) > 1 else ""
            found.append(f"symbols: {server}: {instead[0]}{more}")
        return found

    def _look_elsewhere(self, file: str, place: str) -> None:
        """Notes a compressed file, or a text that leads to another place, of each server."""
        if place in self._asked:
            return
        self._asked[place] = False
        for server in (server for server in self.pdb if server not in self.failed):
            packed = f"{file[:-1]}_"
            start = f"{server.rstrip('/')}/{place}"
            if self._start_of(f"{start}/{urllib.parse.quote(packed)}", 4) == _CABINET:
                said = (
                    f"has only a compressed {packed}: save {start}/{packed} and expand it with "
                    f"`cabextract {packed}` into a folder of _NT_SYMBOL_PATH"
                )
            elif pointer := self._start_of(f"{start}/file.ptr", _LONGEST_POINTER):
                line = (pointer.decode("utf-8", "replace").splitlines() or [""])[0].strip()
                where = line[5:].strip() if line[:5].upper() == "PATH:" else None
                said = (
                    f"{file} is at {where}, which is not fetched: copy it into a folder of "
                    "_NT_SYMBOL_PATH"
                    if where is not None
                    else f"{file}: {line}"
                )
            else:
                continue
            self.elsewhere.setdefault(server, []).append(said)

    def _start_of(self, url: str, most: int) -> bytes:
        """The first bytes of a file; nothing if it is not there."""
        request = urllib.request.Request(url, headers={"User-Agent": "schedlens"})
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
                return bytes(answer.read(most))
        except (OSError, http.client.HTTPException, ValueError):
            return b""

    def _from_any(self, servers: tuple[str, ...], place: str, path: Path) -> bool:
        """Each file is asked for once, and a server that cannot be reached never again."""
        if place not in self._asked:
            there = path.is_file()
            usable = [server for server in servers if server not in self.failed]
            self._asked[place] = there or any(self._from(server, place, path) for server in usable)
        return self._asked[place]

    def _from(self, server: str, place: str, path: Path) -> bool:
        request = urllib.request.Request(
            f"{server.rstrip('/')}/{place}", headers={"User-Agent": "schedlens"}
        )
        try:
            with (
                urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer,
                symbol_cache.added(path) as append,
            ):
                left = int(answer.headers.get("Content-Length") or -1)
                while part := answer.read(_PART):
                    left -= len(part)
                    if not append(part):
                        self.failed[server] = (
                            f"{path.name} is larger than the cache ({symbol_cache.VARIABLE})"
                        )
                        return False
                if left > 0:
                    raise ConnectionError(f"{path.name} was cut off")
        except urllib.error.HTTPError as error:
            # 404: it does not have the file.
            if error.code != http.HTTPStatus.NOT_FOUND:
                self.failed[server] = f"HTTP status {error.code}"
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.failed[server] = f"cannot fetch ({getattr(error, 'reason', None) or error})"
        found = path.is_file()
        self.fetched += found
        return found


def asked(symbol_servers: tuple[str, ...], *, debuginfod: bool) -> Servers | None:
    """The servers that the user names, and those of debuginfod if the user asks for them.

    Raises `SymbolServerError` if one is not an address of a web server, or if there is none.
    """
    others = tuple(os.environ.get(VARIABLE, "").split()) if debuginfod else ()
    if debuginfod and not others:
        raise SymbolServerError(f"--debuginfod: {VARIABLE} names no server")
    for server in (*symbol_servers, *others):
        parts = urllib.parse.urlsplit(server)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise SymbolServerError(
                f"{server}: not an address of a server, such as https://HOST/PATH"
            )
    if not symbol_servers and not others:
        return None
    return Servers(symbol_servers, others)
