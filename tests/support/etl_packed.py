"""The three compressions of buffers, with literals only: each byte represents itself.

Sources: MS-XCA 2.1.4.3 (XPRESS with Huffman codes), 2.3.4 (plain XPRESS), 2.5 (LZNT1).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

LZNT1, XPRESS, XPRESS_HUFF = 2, 3, 4

_CHUNK = 4096
_BLOCK = 1 << 16
# All 512 symbols have codes of this length, so a symbol is its own code.
_CODE_BITS = 9
_END = 256


def _pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


def lznt1(data: bytes) -> bytes:
    """Chunks that are stored uncompressed."""
    return b"".join(
        struct.pack("<H", 0x3000 | (len(piece) - 1)) + piece for piece in _pieces(data, _CHUNK)
    )


def xpress(data: bytes) -> bytes:
    """32 literals after each word of flags; the flags past the end mark matches."""
    out = []
    for piece in _pieces(data, 32):
        flags = (1 << (32 - len(piece))) - 1
        out.append(struct.pack("<I", flags) + piece)
    return b"".join(out)


def _huffman_block(symbols: list[int]) -> bytes:
    out = bytearray(b"\x99" * 256)
    # Two words are reserved ahead, as the decoder reads two ahead.
    first, second = len(out), len(out) + 2
    out += bytes(4)
    free, word = 16, 0
    for symbol in symbols:
        if free >= _CODE_BITS:
            free -= _CODE_BITS
            word = word << _CODE_BITS | symbol
            continue
        over = _CODE_BITS - free
        struct.pack_into("<H", out, first, (word << free | symbol >> over) & 0xFFFF)
        first, second = second, len(out)
        out += bytes(2)
        free, word = 16 - over, symbol & ((1 << over) - 1)
    struct.pack_into("<H", out, first, word << free & 0xFFFF)
    return bytes(out)


def xpress_huffman(data: bytes) -> bytes:
    """Blocks of 64 KiB, each with its own table."""
    blocks = [list(piece) for piece in _pieces(data, _BLOCK)]
    blocks[-1].append(_END)
    return b"".join(map(_huffman_block, blocks))


PACKINGS: dict[int, Callable[[bytes], bytes]] = {
    LZNT1: lznt1, XPRESS: xpress, XPRESS_HUFF: xpress_huffman,
}  # fmt: skip
