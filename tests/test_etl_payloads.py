"""Payloads of Windows events, made up and real: every field has the value another decoder reads."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from schedlens import _decoders
from tests.etl_truth import ABSENT, load, ours, same

# No layout: a batch of compact switches is refused in one line.
_REFUSED = {"ThreadCompCS"}


def _read(vector: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    event, number = vector.get("hook"), None
    if event is None:
        number, code = int(vector["guid"][:8], 16), vector["opcode"]
    else:
        code = int(event, 16)
    found = _decoders.etl_payload(
        code,
        vector["version"],
        bytes.fromhex(vector["payload_hex"]),
        vector["pointer_size"],
        number,
    )
    return None if found is None else (found[0], json.loads(found[1]))


def test_every_vector_has_the_values_of_the_other_decoder() -> None:
    vectors = load("traceevent/vectors.json")
    wrong: list[str] = []
    compared: Counter[str] = Counter()
    for vector in vectors:
        found = _read(vector)
        if found is None:
            assert vector["event"] in _REFUSED, vector["event"]
            continue
        event, fields = found
        for name, value in vector.get("fields", {}).items():
            if name in vector.get("past_end", []):
                continue
            here = ours(event, vector["version"], name, fields)
            if here is ABSENT:
                compared["absent"] += 1
            elif same(event, name, value, here):
                compared["equal"] += 1
            else:
                wrong.append(f"{vector['event']} v{vector['version']} {name}: {value} / {here}")
    assert wrong == []
    assert compared == {}


@pytest.mark.parametrize(
    "name",
    [
        "Kernel_ThreadV4ContextSwitchEventView",
    ],
)
def test_real(name: str) -> None:
    assert name
