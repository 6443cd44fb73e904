"""Writes the sound recording that targets embed, and first inputs of the targets.

`PYTHONPATH=tests/support python tools/fuzz/seeds.py build/fuzz/corpus` writes them to where
`run.py --minimize` takes them from. All of it is synthetic: the writer of the tests makes it.
"""

from __future__ import annotations

import io
import struct
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dat_bytes
import etl_bytes
import jit_bytes
import pyarrow as pa
import recording_writer
import windows_library
import windows_program
from etl_drawn import at, life
from xperf_lines import HEAD, ROWS

ROOT = Path(__file__).resolve().parents[2]
SOUND = ROOT / "fixtures" / "fuzz" / "sound.perf.data"
SOUND_DAT = ROOT / "fixtures" / "fuzz" / "sound.dat"
# Read by the tests of the reader alone.
SOUND_DAT_7 = ROOT / "fixtures" / "fuzz" / "sound_7.dat"

_BUFFER_HEADER = 0x48
_US = 1_000

Head = dict[str, Any]
Event = dict[str, Any]

_CPU = {"core": 0, "efficiency_class": 1, "pmu": "cpu_core", "l2": 0, "l3": 0}
_MACHINE = {"cpus": [_CPU | {"cpu": 0}, _CPU | {"cpu": 1}]}

# cpu 0  B . A B . A      A wakes B, B yields, an interrupt in between
# cpu 1  C C C . . C      C is created and moves, its records are lost once
_EVENTS: list[Event] = [
    {"ts": 0, "cpu": 0, "event": "counters", "names": ["cycles"]},
    {"ts": 0, "cpu": 0, "event": "process", "phase": "rundown_start", "pid": 100, "name": "a.exe"},
    {"ts": 0, "cpu": 0, "event": "thread", "phase": "rundown_start", "pid": 100, "tid": 8},
    {"ts": 0, "cpu": 0, "event": "thread", "phase": "rundown_start", "pid": 100, "tid": 9},
    {"ts": 10 * _US, "cpu": 0, "event": "switch", "old": 0, "new": 8, "counters": [1000]},
    {"ts": 20 * _US, "cpu": 0, "event": "ready", "tid": 9, "target": 1},
    {"ts": 21 * _US, "cpu": 0, "event": "migrate", "tid": 9, "from": 0, "to": 1},
    {"ts": 25 * _US, "cpu": 1, "event": "switch", "old": 0, "new": 9, "counters": [2000]},
    {"ts": 30 * _US, "cpu": 0, "event": "interrupt", "start": 28 * _US, "kind": "dpc"},
    {"ts": 35 * _US, "cpu": 0, "event": "thread", "phase": "start", "pid": 100, "tid": 10},
    {"ts": 36 * _US, "cpu": 0, "event": "ready", "tid": 10, "new": True},
    {"ts": 40 * _US, "cpu": 0, "event": "yield"},
    {"ts": 41 * _US, "cpu": 0, "event": "switch", "old": 8, "new": 10, "leaves": "yield",
     "counters": [3000]},
    {"ts": 45 * _US, "cpu": 1, "event": "lost", "until": 60 * _US},
    {"ts": 62 * _US, "cpu": 1, "event": "switch", "old": 9, "new": 0, "counters": [9000]},
    {"ts": 64 * _US, "cpu": 1, "event": "idle", "state": 1},
    {"ts": 66 * _US, "cpu": 1, "event": "frequency", "about": 1, "mhz": 2000},
    {"ts": 70 * _US, "cpu": 0, "event": "switch", "old": 10, "new": 8, "leaves": "exit",
     "counters": [5000]},
    {"ts": 71 * _US, "cpu": 0, "event": "thread", "phase": "end", "pid": 100, "tid": 10},
    {"ts": 75 * _US, "cpu": 1, "event": "idle"},
    {"ts": 80 * _US, "cpu": 0, "event": "switch", "old": 8, "new": 0, "counters": [6000]},
]  # fmt: skip

_WINDOWS_ONLY: list[Event] = [
    {"ts": 81 * _US, "cpu": 0, "event": "power_rundown", "about": 1, "parked": False,
     "efficiency_class": 1},
    {"ts": 82 * _US, "cpu": 0, "event": "park", "about": 1},
    {"ts": 83 * _US, "cpu": 0, "event": "park_selection", "old": 3, "new": 1, "reason": 1},
    {"ts": 84 * _US, "cpu": 0, "event": "present", "pid": 100, "tid": 8},
    {"ts": 85 * _US, "cpu": 0, "event": "priority", "tid": 8, "old": 8, "new": 9},
    {"ts": 86 * _US, "cpu": 0, "event": "affinity", "tid": 8, "mask": 1},
    {"ts": 87 * _US, "cpu": 0, "event": "unpark", "about": 1},
]  # fmt: skip

# 8 wakes 9 and both are sampled, in an image with a PDB and in methods of .NET
_CODE, _METHOD = 0x10000, 0x7FFE_0000
_STACKS = [
    *life(),
    etl_bytes.image(at(0), 100, _CODE, 0x1000, r"\Device\HarddiskVolume3\a.exe"),
    etl_bytes.rsds(at(0), 100, _CODE, bytes(range(16)), 1, "a.pdb"),
    etl_bytes.method(at(1), _METHOD, "A.B"),
    etl_bytes.switch(at(5), 0, 8, state=2, reason=0),
    etl_bytes.ready(at(10), 9),
    etl_bytes.stack_walk(at(11), at(10), (100, 8), [_CODE + 8, _METHOD + 8]),
    etl_bytes.sampled_profile(at(20), 8, _METHOD + 8),
    etl_bytes.stack_key(at(21), at(20), (100, 8), 7, kernel=False),
    etl_bytes.switch(at(30), 8, 9),
    etl_bytes.stack_walk(at(31), at(30), (100, 9), [2**64 - 64, 2**64 - 32]),
    etl_bytes.method(at(40), _METHOD, "A.B", number=etl_bytes.METHOD_UNLOAD),
    etl_bytes.image(at(41), 100, _CODE, 0x1000, "a.exe", hook=0x1402),
    etl_bytes.stack_definition(at(50), 7, [_METHOD + 8, _CODE + 16]),
]

_GUID = bytes.fromhex("0403020106050807090a0b0c0d0e0f10")
_MANIFEST = """<instrumentationManifest><provider name="P" guid="{01020304-0506-0708-090a-\
0b0c0d0e0f10}"><events><event value="1" version="2" task="T" opcode="win:Start" template="A"/>\
</events><templates><template tid="A"><data name="n" inType="win:UInt16"/><data name="x" \
inType="win:UnicodeString"/><data name="p" inType="win:Int32" count="n"/><data name="b" \
inType="win:Binary" length="n"/></template></templates></provider></instrumentationManifest>"""
_WINSAT = """<Processor><ProcessorName>CPU</ProcessorName><RelationProcessorCore><Mask>3</Mask>\
</RelationProcessorCore><RelationCache><Mask>f</Mask><Level>3</Level><Type>Unified</Type>\
</RelationCache><RelationNumaNode><Mask>f</Mask><NodeNum>1</NodeNum></RelationNumaNode>\
<RelationProcessorPackage><Mask>f</Mask></RelationProcessorPackage></Processor>"""


def _part(content: bytes) -> bytes:
    return struct.pack("<H", len(content)) + content


def _etl(folder: Path, **layout: Any) -> bytes:
    path = folder / "seed.etl"
    head = {"machine": _MACHINE, "etl": {"buffer_size": 4096, **layout}}
    recording_writer.write(head, [*_EVENTS, *_WINDOWS_ONLY], etl=path)
    content = path.read_bytes()
    path.unlink()
    return content


def _perf() -> bytes:
    recording_writer.write({"machine": _MACHINE, "perf": {"yields": True}}, _EVENTS, perf=SOUND)
    return SOUND.read_bytes()


# cpu 0  . A . A B     A wakes B, creates C, and idles; 3 events are lost
# cpu 1  . B . . .
_DAT_EVENTS = (
    [
        dat_bytes.switch(10, 0, 5),
        dat_bytes.waking(20, 5, 6, 1),
        dat_bytes.Event(30, "task:task_newtask", 5, {"pid": 7, "comm": "t5"}),
        dat_bytes.Event(35, "sched:sched_process_exec", 7, {"pid": 7, "old_pid": 7}),
        dat_bytes.Event(36, "task:task_rename", 7, {"pid": 7, "newcomm": "program"}),
        dat_bytes.switch(40, 5, 0),
        dat_bytes.idle(45, 0, 2),
    ],
    [
        dat_bytes.idle(1 << 28, 0),
        dat_bytes.switch((1 << 28) + 5, 0, 5),
        dat_bytes.Event((1 << 28) + 9, "sched:sched_process_exit", 7, {"comm": "t7", "pid": 7}),
    ],
    [
        dat_bytes.switch(25, 0, 6),
        dat_bytes.Event(28, "power:cpu_frequency", 6, {"state": 2_000_000, "cpu_id": 1}),
        dat_bytes.Event(60, "sched:sched_migrate_task", 6, {"comm": "t6", "pid": 6, "orig_cpu": 1}),
        dat_bytes.switch(70, 6, 0),
    ],
)
_DAT_PAGE = 1024


_PERF_SCRIPT = """# captured on    : Mon Nov 23 13:21:42 2026
# nrcpus online : 2
# event : name = sched:sched_switch, , id = { 1 }, type = 2
# clockid: monotonic (1)
# reference time: x = 1795238649.625546 (TOD) = 0.500000000 (monotonic)
 kthreadd     0/0     [000]     0.000000000: PERF_RECORD_FORK(5:5):(2:2)
      a b     0/0     [000]     0.000000000: PERF_RECORD_COMM: a b:5/5
  swapper     0/0     [000]     1.000001000: sched:sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a b next_pid=5 next_prio=120
      a b     5/5     [000]     1.000002000: PERF_RECORD_SWITCH_CPU_WIDE OUT preempt  next pid/tid: 6/6
      a b     5/5     [000]     1.000002500: sched:sched_waking: c:6 [120] CPU:001
      a b     5/5     [000]     1.000003000: sched:sched_switch: a b:5 [120] S ==> swapper/0:0 [120]
\tffffffff81a2b3c4 __schedule+0x2a4 ([kernel.kallsyms])

  swapper     0/0     [001]     1.000003500: power:cpu_idle: state=4294967295 cpu_id=1
  swapper     0/0     [001]     1.000003600: irq:softirq_entry: vec=7 [action=SCHED]
  swapper     0/0     [001]     1.000003700: irq:softirq_exit: vec=7 [action=SCHED]
  swapper     0/0     [001]     1.000003800: PERF_RECORD_LOST lost 3
        c     6/6     [001]     1.000004000: task:task_newtask: pid=7 comm=c clone_flags=10f00 oom_score_adj=0
        c     6/6     [001]     1.000005000: PERF_RECORD_EXIT(7:7):(6:6)
"""  # noqa: E501
_PRECISE = """New Process,New Thread Id,CPU,Switch-In Time (s),Next Switch-Out Time (s),Ready (\u00b5s),Time Since Last (\u03bcs),Old Process,Old Thread Id,Old State,Old Wait Reason,New State,Count
game.exe (100),8,0,0.001000000,0.001050000,,,Idle (0),0,Running,Executive,Waiting,1
"a, b.exe (200)","1,009",1,0.001005000,,10.0,20.5,game.exe (100),8,Waiting,WrQueue,,1
"""  # noqa: E501


def _dat_buffers() -> list[dat_bytes.Buffer]:
    first, later, other = _DAT_EVENTS
    size = _DAT_PAGE
    zero = dat_bytes.page(first, size=size) + dat_bytes.page(later, lost=3, size=size)
    one = dat_bytes.page(other, size=size)
    instance = dat_bytes.page([dat_bytes.idle(80, 1, 1)], lost=True, size=size)
    return [
        dat_bytes.Buffer({0: zero, 1: one}, page_size=size),
        dat_bytes.Buffer({1: instance}, name="other", page_size=size),
    ]


def _dats() -> Iterator[tuple[str, str, bytes]]:
    """The same schedule in each form of trace.dat."""
    buffers = _dat_buffers()
    options = (
        dat_bytes.stats(0, overrun=3, dropped_events=1)
        + dat_bytes.guest("vm", 77, [5, 6])
        + dat_bytes.time_shift(9, [(0, 100, 1, 0), (1000, 200, 3 << 40, 41)], 2, flags=1)
    )
    names = {5: "five", 6: "six"}
    sound = dat_bytes.version_6(buffers[:1], names=names)
    SOUND_DAT.write_bytes(sound)
    yield "dat_file", "version_6", dat_bytes.version_6(buffers, options, names)
    for packing in ("none", "zlib", "zstd"):
        data = dat_bytes.version_7(buffers, options, names, packing)
        yield "dat_file", f"version_7_{packing}", data
    SOUND_DAT_7.write_bytes(data)
    yield "dat_pages", "sound", buffers[0].cpus[0] + buffers[0].cpus[1] + bytes(_DAT_PAGE)


def _texts() -> Iterator[tuple[str, str, bytes]]:
    """A few lines of each text that other programs print, in the encodings that they use."""
    for target, text in (
        ("perf_script", _PERF_SCRIPT), ("dumper", HEAD + ROWS), ("precise", _PRECISE),
    ):  # fmt: skip
        yield target, "utf_8", text.encode()
        yield target, "utf_16", text.encode("utf-16")
    yield "precise", "commas", _PRECISE.replace(",", ";").replace(".0", ",0").encode()


def _symbols(folder: Path) -> Iterator[tuple[str, str, bytes]]:
    """PDB files of programs that the Rust toolchain builds, their streams, a DLL, and a dump."""
    for name, debug in (("lines", 2), ("names", 0)):
        pdb = windows_program.built(folder, debug=debug, name=name).pdb.read_bytes()
        for place in map(bytes, (folder, ROOT, Path.home())):
            pdb = pdb.replace(place, b"/".ljust(len(place), b"x"))
        streams = windows_program.streams(pdb)
        packed = b"".join(map(_part, streams))
        yield "pdb_streams", name, packed
        yield "pdb_file", name, windows_program.container(streams, page=256)
    yield "exports", "dll", windows_library.built(folder).path.read_bytes()
    yield "jit_dump", "all", jit_bytes.dump()


def _buffers(etl: bytes) -> Iterator[tuple[int, bytes]]:
    """CPU and bytes of each buffer's records, after the header's buffer."""
    at = struct.unpack_from("<I", etl)[0]
    while at < len(etl):
        size, filled = struct.unpack_from("<I", etl, at)[0], struct.unpack_from("<I", etl, at + 48)
        yield struct.unpack_from("<H", etl, at + 40)[0], etl[at + _BUFFER_HEADER : at + filled[0]]
        at += size


def _sections(perf: bytes) -> bytes:
    """The feature sections, as the target perf_features takes them."""
    offset, size = struct.unpack_from("<QQ", perf, 40)
    bits = int.from_bytes(perf[72:104], "little")
    numbers = [bit for bit in range(256) if bits >> bit & 1]
    found = b""
    for rank, number in enumerate(numbers):
        start, length = struct.unpack_from("<QQ", perf, offset + size + 16 * rank)
        if number != 1:
            found += bytes([number]) + _part(perf[start : start + length])
    return found


def _formats(perf: bytes) -> bytes:
    offset, size = struct.unpack_from("<QQ", perf, 40)
    start, length = struct.unpack_from("<QQ", perf, offset + size)
    return perf[start : start + length]


def seeds(folder: Path) -> Iterator[tuple[str, str, bytes]]:
    """Target, name, and bytes of each first input."""
    perf = _perf()
    etl = _etl(folder, merged=True)
    yield from _dats()
    yield from _texts()
    with tempfile.TemporaryDirectory() as made:
        yield from _symbols(Path(made))
    yield "perf_file", "sound", perf
    offset, size = struct.unpack_from("<QQ", perf, 40)
    yield "perf_records", "sound", perf[offset : offset + size]
    yield "perf_features", "sound", _sections(perf)
    yield "perf_formats", "sound", _formats(perf)
    yield "etl_file", "merged", etl
    yield "etl_file", "plain", _etl(folder, pointer=4, clock="system_time")
    yield "etl_file", "xpress", _etl(folder, compression="xpress", merged=True)
    packed = _etl(folder, compression="lznt1", merged=True)
    yield "etl_file", "lznt1", packed
    records = b"".join(bytes([cpu, 0]) + _part(part) for cpu, part in _buffers(etl))
    yield "etl_buffers", "merged", b"\0" + records
    yield "etl_schedule", "merged", b"\0" + records
    stacks = bytes(2) + _part(etl_bytes.Buffer(_STACKS).content())
    yield "etl_buffers", "stacks", b"\0" + stacks
    yield "etl_schedule", "stacks", b"\0" + stacks
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as written:
        written.writestr("a.etl", etl)
    yield "etl_zip", "deflated", archive.getvalue()[4:]
    yield "lznt1", "text", struct.pack("<H", 12) + bytes.fromhex("09b0006162636461031803650000")
    yield (
        "xpress",
        "text",
        struct.pack("<H", 300) + bytes.fromhex("ffffff1f6162631700 0fff2601".replace(" ", "")),
    )
    lengths = bytearray(256)
    lengths[0x61 // 2 : 0x64 // 2] = b"\x30\x23"
    lengths[128] = 0x02
    yield "xpress_huffman", "codes", struct.pack("<H", 300) + bytes(lengths) + bytes(16)
    for rank in range(0, 300, 7):
        payload = bytes(range(1, 65)) + "text\0".encode("utf-16-le") + b"ansi\0"
        yield "kernel_event", f"rank{rank}", struct.pack("<HB", rank, rank % 5) + payload
    info = bytearray(160)
    info[32:35] = b"\1\0\1"
    struct.pack_into("<II", info, 100, 2, 2)
    struct.pack_into("<IIHHIHHI", info, 112, 0, 0, 6, 0, 0, 1, 2, 0)
    struct.pack_into("<IIHHIHHI", info, 136, 4, 0, 1, 0, 0, 0, 0, 0)
    yield "event_info", "counted", _part(bytes(info)) + b"\2\0a\0\0\0b\0\0\0"
    text = b"\0Event\0text\0\2wide\0\x81\1list\0\x46pair\0\x98\2a\0\4b\0\3last\0\x0d"
    values = b"hi\0w\0\0\0\2\0\1\0\2\0\x09\xff\1\0\0\0"
    yield "tracelogging", "all", _part(struct.pack("<H", len(text) + 2) + text) + values
    yield "manifest", "all", _part(b"\2\0x\0\0\0\1\0\0\0\2\0\0\0ab") + _MANIFEST.encode()
    yield "winsat", "text", _WINSAT.encode()
    wide = _WINSAT.encode("utf-16-le")[:4000]
    plain = struct.pack("<II", 1, len(wide)) + struct.pack("<H", 0x3000 | (len(wide) - 1)) + wide
    yield "winsat", "record", plain
    mask = struct.pack("<QH6x", 3, 0)
    core = struct.pack("<IIBB20xH", 0, 48, 1, 1, 1) + mask
    group = struct.pack("<IIHH20x", 4, 76, 1, 1) + struct.pack("<BB38xQ", 2, 2, 3)
    cache = struct.pack("<IIBBHII18xH", 2, 56, 2, 8, 64, 1 << 20, 0, 1) + mask
    yield "processors", "one_core", core + group + cache
    yield "processors", "list", b"0-3,8"
    sample = struct.pack("<IHHIIqqqq", 3, 5, 6, 1, 0, 1000, 1500, 77, 88)
    yield "samples", "one", b"SLSAMP1\0" + sample + b"torn"
    yield "states", "empty", bytes(24)
    yield "states", "switches", bytes(range(200))
    for kind in range(8):
        yield "intervals", f"kind{kind}", bytes([kind, 0, 200, 3]) + bytes(range(1, 200)) * 3
    yield "tables", "sound", bytes(3) + bytes(range(200))
    yield "tables", "damaged", b"\0\2\2" + b"\0\x80\1" * 2 + bytes(range(100))
    yield "tables", "manifest", b"\0\xff\1\0\x80\1" + bytes(range(100))
    yield "tables", "file", b"\1\2\0" + _threads()


def _threads() -> bytes:
    """A file of the table `thread`, the third of the folder."""
    ids = [(7 << 32) + number for number in range(3)]
    rows = pa.table(
        {
            "trace_id": pa.array([7] * 3, pa.int64()),
            "utid": pa.array(ids, pa.int64()),
            "tid": pa.array([0, 0, 9], pa.int64()),
            "is_idle": [True, True, False],
        }
    )
    out = io.BytesIO()
    with pa.ipc.new_file(out, rows.schema) as file:
        file.write_table(rows)
    return out.getvalue()


def main(folder: Path) -> None:
    """Writes them all."""
    folder.mkdir(parents=True, exist_ok=True)
    for target, name, content in seeds(folder):
        (folder / target).mkdir(exist_ok=True)
        (folder / target / f"seed-{name}").write_bytes(content)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
