#!/usr/bin/env python3
"""The compiler that cargo calls for the optimized fuzzing program.

It counts edges only in our crates and in those that parse files: libFuzzer looks at all counters
after each input, and with those of Arrow that takes as long as many inputs themselves.
"""

from __future__ import annotations

import os
import sys

_OURS = "schedlens_"
_PARSERS = ("arrow_ipc", "csv_core", "pdb2", "pdb_addr2line", "quick_xml", "ruzstd", "zip")
# How `tools/fuzz/.cargo/config.toml` asks for counters.
_COUNTING = ("-Cpasses=sancov", "-Cllvm-args=-sanitizer-coverage")


def command(given: list[str]) -> list[str]:
    """The compiler's command, without its flags for counters where none are wanted."""
    name = given[given.index("--crate-name") + 1] if "--crate-name" in given else ""
    if name.startswith(_OURS) or name in _PARSERS:
        return given
    return [part for part in given if not part.startswith(_COUNTING)]


if __name__ == "__main__":
    called = command(sys.argv[1:])
    os.execvp(called[0], called)
