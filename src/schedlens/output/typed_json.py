"""Converts JSON objects to dataclasses and back, and checks the type of every field."""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from schedlens.errors import SessionError

T = TypeVar("T")

# Metadata of a field that the JSON object lacks if its value is None.
ABSENT_IF_NONE = {"absent_if_none": True}
_NAMES = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
# What DuckDB and Arrow can store as BIGINT.
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_LARGEST = sys.float_info.max


class FieldError(ValueError):
    """A field is missing or has the wrong type; `str()` names the field and says which."""


def written(value: Any) -> Any:
    """A dataclass as a JSON object: its fields in their order; a tuple becomes a list."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: written(item)
            for field in dataclasses.fields(value)
            if (item := getattr(value, field.name)) is not None or not field.metadata
        }
    if isinstance(value, (tuple, list)):
        return [written(item) for item in value]
    if isinstance(value, Mapping):
        return {key: written(item) for key, item in value.items()}
    return value


def parsed(kind: type[T], value: object, where: str = "") -> T:
    """The dataclass `kind` from a JSON object; ignores fields that it lacks.

    A whole number must fit in 64 bits, a number must be finite. `where` is the name of the object
    in the file. Raises `FieldError`.
    """
    if not isinstance(value, dict):
        raise _wrong(where or "the file", value, kind)
    given: dict[str, Any] = {}
    model: Any = kind
    for field, expected in _fields(model):
        name = f"{where}.{field.name}" if where else field.name
        if field.name in value:
            given[field.name] = _converted(expected, value[field.name], name)
        elif _is_required(field):
            raise FieldError(f"{name} is missing")
    return kind(**given)


def versioned(kind: type[T], value: object, newest: int, path: Path) -> T:
    """The content of a file whose `schema` is a version from 1 to `newest`.

    Raises `SessionError` with the file and the field.
    """
    try:
        schema = parsed(_Version, value).schema
        if 1 <= schema <= newest:
            return parsed(kind, value)
    except FieldError as error:
        raise SessionError(f"{path}: {error}") from None
    if schema < 1:
        raise SessionError(f"{path}: schema is {schema}, not a version from 1 on")
    raise SessionError(
        f"{path}: written by a newer schedlens; its schema is {schema}, this version reads "
        f"{newest}: update schedlens"
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Version:
    schema: int


@functools.cache
def _fields(kind: type[Any]) -> tuple[tuple[dataclasses.Field[Any], Any], ...]:
    hints = get_type_hints(kind)
    return tuple((field, hints[field.name]) for field in dataclasses.fields(kind))


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _converted(expected: Any, value: object, where: str) -> Any:
    origin, arguments = get_origin(expected), get_args(expected)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        # Each union in the models is one type or null.
        (only,) = (kind for kind in arguments if kind is not type(None))
        try:
            return _converted(only, value, where)
        except FieldError as error:
            raise FieldError(_or_null(str(error), where)) from None
    if origin is Literal:
        if value not in arguments:
            raise FieldError(f"{where} is {_shown(value)}, not one of {', '.join(arguments)}")
        return value
    if origin is tuple:
        if not isinstance(value, list):
            raise _wrong(where, value, tuple)
        return tuple(
            _converted(arguments[0], item, f"{where}[{n}]") for n, item in enumerate(value)
        )
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            raise _wrong(where, value, dict)
        return {
            key: _converted(arguments[1], item, f"{where}.{_printable(key)}")
            for key, item in value.items()
        }
    if dataclasses.is_dataclass(expected):
        return parsed(expected, value, where)  # type: ignore[arg-type]
    return _plain(expected, value, where)


def _plain(expected: Any, value: object, where: str) -> object:
    """A number, a text or a boolean."""
    if isinstance(value, bool) or expected is bool:
        fits = isinstance(value, bool) and expected is bool
    elif expected is float:
        # A whole number of any length may stand for a number.
        fits = isinstance(value, (int, float)) and -_LARGEST <= value <= _LARGEST
    elif expected is int:
        fits = isinstance(value, int) and _LEAST <= value <= _MOST
    else:
        fits = isinstance(value, expected)
    if not fits:
        raise _wrong(where, value, expected)
    return value


def _wrong(where: str, value: object, expected: Any) -> FieldError:
    kinds = {tuple: "a list"}
    return FieldError(
        f"{where} is {_shown(value)}, not {_NAMES.get(expected, kinds.get(expected, 'an object'))}"
    )


def _or_null(message: str, where: str) -> str:
    """The message, with null as another possible value if it is about this field itself."""
    return f"{message} or null" if message.startswith(f"{where} is ") else message


def _printable(key: str) -> str:
    """A key in a message of one line."""
    return key if key.isprintable() else json.dumps(key)


def _shown(value: object) -> str:
    """A value in a message of one line."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
