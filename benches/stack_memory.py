"""Memory of decoding a Windows recording with many stacks, by its number of samples.

`python benches/stack_memory.py [--samples 200000 800000] [--depth 24] [--different 20000]` writes
a synthetic .etl of samples, each with the addresses of its stack, and prints the peak of a process
that decodes it. `different` is the number of distinct stacks.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from etl_bytes import BUFFER_HEADER, Buffer, Log, image, sampled_profile, stack_walk
from etl_drawn import at, life

BASE = 0x7FF6_0000_0000
IMAGE_SIZE = 1 << 24
BUFFER_SIZE = 1 << 20
DECODE = """
import re, sys
from pathlib import Path
from schedlens import _decoders
rows = 0
with _decoders.load(sys.argv[1], 1, None, None, "made") as loader:
    for table, batch in loader:
        rows += batch.num_rows if table == "sample" else 0
print(rows, re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])
"""


def buffers(samples: int, depth: int, different: int) -> Iterator[Buffer]:
    """Samples 1 us apart, each followed by its stack."""
    chosen = random.Random(1)
    outer = [BASE + chosen.randrange(IMAGE_SIZE) for _ in range(depth // 2)]
    chains = [
        [BASE + chosen.randrange(IMAGE_SIZE) for _ in range(depth - depth // 2)] + outer
        for _ in range(different)
    ]
    records = [*life(), image(at(0), 100, BASE, IMAGE_SIZE, r"C:\made.exe")]
    size = sum(map(len, records))
    for number in range(samples):
        chain = chains[chosen.randrange(different)]
        ts = at(10 + number)
        pair = [sampled_profile(ts, 8, chain[0]), stack_walk(ts + 1, ts, (100, 8), chain)]
        size += sum(map(len, pair)) + 16
        if size > BUFFER_SIZE - BUFFER_HEADER:
            yield Buffer(records)
            records, size = [], sum(map(len, pair)) + 16
        records += pair
    yield Buffer(records)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--samples", type=int, nargs="+", default=[200_000, 800_000])
    options.add_argument("--depth", type=int, default=24)
    options.add_argument("--different", type=int, default=20_000)
    given = options.parse_args()
    print("samples  file, MB  peak, MB")
    for samples in given.samples:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "made.etl"
            log = Log(list(buffers(samples, given.depth, given.different)), buffer_size=BUFFER_SIZE)
            path.write_bytes(log.encoded())
            done = subprocess.run(
                [sys.executable, "-c", DECODE, str(path)],
                capture_output=True,
                text=True,
                check=True,
            )
            rows, peak = map(int, done.stdout.split())
            assert rows == samples, done.stdout
            print(f"{samples:7}  {path.stat().st_size / 1e6:8.0f}  {peak / 1024:8.0f}")


if __name__ == "__main__":
    main()
