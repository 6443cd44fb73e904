"""Reads FILE from disk in two ways, COUNT pages each, and prints what the kernel counted, as JSON.

First by system call, then by page faults. The pages are far apart, and the cache is emptied before.
"""

from __future__ import annotations

import json
import mmap
import os
import resource
import sys

PAGE = 4096
APART = 64


def main(path: str, count: int) -> None:
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.write(handle, os.urandom(PAGE) * (APART * (count + 1)))
    os.fsync(handle)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_RANDOM)
    start = resource.getrusage(resource.RUSAGE_SELF)
    for number in range(count):
        os.pread(handle, PAGE, number * APART * PAGE)
    read = resource.getrusage(resource.RUSAGE_SELF)
    mapped = mmap.mmap(handle, 0, prot=mmap.PROT_READ)
    mapped.madvise(mmap.MADV_RANDOM)
    for number in range(count):
        assert mapped[(number * APART + APART // 2) * PAGE] >= 0
    faulted = resource.getrusage(resource.RUSAGE_SELF)
    print(
        json.dumps(
            {
                "major_faults": faulted.ru_majflt - read.ru_majflt,
                "waits_in_reads": read.ru_nvcsw - start.ru_nvcsw,
                "waits_in_faults": faulted.ru_nvcsw - read.ru_nvcsw,
                "blocks_read": read.ru_inblock,
                "blocks_faulted": faulted.ru_inblock - read.ru_inblock,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
