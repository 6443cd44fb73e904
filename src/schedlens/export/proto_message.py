"""Messages of Protocol Buffers for the few packets that describe a trace.

Rows become packets in the extension (`decoders/perfetto`); these are too few to matter.
"""

from __future__ import annotations

_VARINT, _LENGTH_DELIMITED = 0, 2


class Message:
    """Fields by number, appended in the order of the calls; None adds nothing."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def number(self, field: int, value: int | None) -> Message:
        """An integer, an enum, or a boolean; negative numbers are 64 bits wide."""
        if value is not None:
            self._bytes += varint(field << 3 | _VARINT) + varint(value & 0xFFFFFFFFFFFFFFFF)
        return self

    def text(self, field: int, value: str | None) -> Message:
        """A text."""
        if value is None:
            return self
        return self._delimited(field, value.encode("utf-8", "replace"))

    def message(self, field: int, value: Message) -> Message:
        """A message inside this one."""
        return self._delimited(field, bytes(value._bytes))

    def _delimited(self, field: int, value: bytes) -> Message:
        self._bytes += varint(field << 3 | _LENGTH_DELIMITED) + varint(len(value)) + value
        return self

    def __bytes__(self) -> bytes:
        return bytes(self._bytes)


def varint(value: int) -> bytes:
    """A number of 0 or more in base 128, lowest digits first."""
    digits = bytearray()
    while value >= 0x80:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    digits.append(value)
    return bytes(digits)
