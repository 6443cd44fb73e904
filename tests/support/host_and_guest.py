"""A host and its guest, recorded by trace-cmd on both, as bytes."""

from __future__ import annotations

import struct
from pathlib import Path

import dat_bytes
from dat_bytes import Buffer, page, switch

US = 1_000
HOST, GUEST = 0x1111_0000_0000_0001, 0xF000_0000_0000_0002
# Times of the guest in its own clock, which is 1 s behind.
BEHIND = 1_000_000 * US

# host, us      1000 1010 1020 1030 1040 1050
# host cpu 0    . V    V    X    V    .    .       V (501) runs CPU 0 of the guest, X (77) else
# guest cpu 0   . A    A    A    A    .    .       A is busy from 1005 to 1045
HOST_PAGE = page([
    switch(1_000 * US + BEHIND, 0, 501),
    switch(1_020 * US + BEHIND, 501, 77, state=0),
    switch(1_030 * US + BEHIND, 77, 501),
    switch(1_043 * US + BEHIND, 501, 0),
    switch(1_050 * US + BEHIND, 0, 501),
])  # fmt: skip
GUEST_PAGE = page([switch(1_005 * US, 0, 42), switch(1_045 * US, 42, 0), switch(1_048 * US, 0, 42)])


def trace_id(number: int) -> bytes:
    return dat_bytes.option(11, struct.pack("<Q", number))


def host(version: int = 7) -> bytes:
    options = trace_id(HOST) + dat_bytes.guest("virtual", GUEST, [501])
    write = dat_bytes.version_6 if version == 6 else dat_bytes.version_7
    return write([Buffer({0: HOST_PAGE})], options)


def guest(
    samples: list[tuple[int, int, int, int]], flags: int = 0, data: bytes = GUEST_PAGE
) -> bytes:
    options = trace_id(GUEST) + dat_bytes.time_shift(HOST, samples, 1, flags)
    return dat_bytes.version_7([Buffer({0: data})], options)


def write(folder: Path) -> None:
    """Both recordings, the guest's with two samples of the difference of their clocks."""
    dat_bytes.write(folder / "host.dat", host())
    dat_bytes.write(folder / "guest.dat", guest([(0, BEHIND, 1, 0), (5_000 * US, BEHIND, 1, 0)]))
