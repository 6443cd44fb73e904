"""JSON objects as dataclasses: conversion in both directions, and errors that name the field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedlens.errors import SessionError
from schedlens.output import typed_json
from schedlens.output.typed_json import ABSENT_IF_NONE, FieldError


@dataclass(frozen=True, slots=True)
class Inner:
    cpu: int
    khz: float | None = None


@dataclass(frozen=True, slots=True)
class Outer:
    schema: int
    name: str
    done: bool
    state: Literal["planned", "done"]
    cpus: tuple[int, ...] | None
    rows: tuple[Inner, ...] = ()
    inner: Inner | None = field(default=None, metadata=ABSENT_IF_NONE)
    texts: Mapping[str, str | None] = field(default_factory=dict)
    commands: tuple[tuple[str, ...], ...] = ()


GOOD: dict[str, Any] = {"schema": 1, "name": "a", "done": True, "state": "done", "cpus": [0, 2]}


def test_object_becomes_a_dataclass_and_back_with_its_keys_in_order() -> None:
    value = GOOD | {
        "rows": [{"cpu": 1, "khz": 2}, {"cpu": 2, "khz": None}], "texts": {"a": "b", "c": None},
        "commands": [["perf", "record"], []],
    }  # fmt: skip
    made = typed_json.parsed(Outer, value)
    assert made.rows == (Inner(1, 2), Inner(2, None))
    assert made.commands == (("perf", "record"), ())
    assert json.dumps(typed_json.written(made)) == json.dumps(value)


def test_unknown_fields_are_ignored_and_defaults_are_filled_in() -> None:
    made = typed_json.parsed(Outer, GOOD | {"later": {"x": [1]}, "inner": {"cpu": 3, "more": 1}})
    assert made == Outer(1, "a", True, "done", (0, 2), inner=Inner(3))
    assert typed_json.written(made)["inner"] == {"cpu": 3, "khz": None}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": None}, "name is null, not a text"),
        ({"name": ["a"]}, "name is a list, not a text"),
        ({"schema": True}, "schema is true, not a whole number"),
        ({"schema": 1.0}, "schema is 1.0, not a whole number"),
        ({"schema": 1 << 63}, "schema is 9223372036854775808, not a whole number"),
        ({"done": 1}, "done is 1, not true or false"),
        ({"state": "lost"}, 'state is "lost", not one of planned, done'),
        ({"cpus": "0,1"}, 'cpus is "0,1", not a list or null'),
        ({"cpus": [0, None]}, "cpus[1] is null, not a whole number"),
        ({"rows": [{"cpu": 0}, {}]}, "rows[1].cpu is missing"),
        ({"rows": [{"cpu": 0, "khz": "x" * 60}]}, f'rows[0].khz is "{"x" * 36}..., not a number'),
        ({"rows": [{"cpu": 0, "khz": float("nan")}]}, "rows[0].khz is NaN, not a number or null"),
        ({"rows": [{"cpu": 0, "khz": 10**400}]}, "rows[0].khz is 1000"),
        ({"rows": {}}, "rows is an object, not a list"),
        ({"inner": []}, "inner is a list, not an object or null"),
        ({"inner": {"cpu": ""}}, 'inner.cpu is "", not a whole number'),
        ({"texts": {"a": 1}}, "texts.a is 1, not a text or null"),
        ({"texts": []}, "texts is a list, not an object"),
        ({"commands": [["a"], [1]]}, "commands[1][0] is 1, not a text"),
    ],
)
def test_wrong_type_is_named_with_its_field(change: dict[str, Any], message: str) -> None:
    with pytest.raises(FieldError) as caught:
        typed_json.parsed(Outer, GOOD | change)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "f.json: the file is a list, not an object"),
        ({"name": "a"}, "f.json: schema is missing"),
        (GOOD | {"schema": 0}, "f.json: schema is 0, not a version from 1 on"),
        (
            {"schema": 3},
            "f.json: written by a newer schedlens; its schema is 3, this version reads 2: update "
            "schedlens",
        ),
        ({"schema": 2}, "f.json: name is missing"),
    ],
)
def test_version_is_checked_before_the_fields(value: object, message: str) -> None:
    with pytest.raises(SessionError) as caught:
        typed_json.versioned(Outer, value, 2, Path("f.json"))
    assert str(caught.value) == message


_TEXTS = st.sampled_from(["", "a", "planned", "cpu", "x\ny", "\x1b[2J", "\ud800"])
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=5,
)
_NAMES = [known.name for known in fields(Outer)]


@given(st.dictionaries(st.sampled_from(_NAMES), _JSON, max_size=3))
@settings(deadline=None)
def test_any_json_gives_an_object_or_an_error_of_one_line(change: dict[str, Any]) -> None:
    message = ""
    try:
        made = typed_json.parsed(Outer, GOOD | change)
    except FieldError as error:
        message = str(error)
    else:
        again = json.loads(json.dumps(typed_json.written(made)))
        assert typed_json.parsed(Outer, again) == made
    assert len(message.splitlines()) <= 1
