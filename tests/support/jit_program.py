"""A program that writes machine code and says so: in a perf map, or in a dump of its compiler."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

# `spin(n)`: counts down, with a frame pointer. `first` and `second` are at one address, one after
# the other; `later` is at another.
SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#define KEPT __attribute__((noinline, noipa))
static const unsigned char SPIN[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xcf, 0x75, 0xfc, 0x5d, 0xc3};
static volatile unsigned long rounds;
static FILE *out;
static int as_dump;
static uint64_t read_clock(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}
static uint64_t now(void) { return read_clock(CLOCK_MONOTONIC); }
static uint64_t ran(void) { return read_clock(CLOCK_THREAD_CPUTIME_ID); }
static void put(const void *bytes, size_t size) { fwrite(bytes, 1, size, out); }
static void word(uint32_t value) { put(&value, 4); }
static void wide(uint64_t value) { put(&value, 8); }
static void begin(void) {
    char path[64];
    snprintf(path, sizeof path, as_dump ? "jit-%d.dump" : "/tmp/perf-%d.map", getpid());
    out = fopen(path, "w+");
    if (!as_dump) return;
    word(0x4A695444); word(1); word(40); word(62); word(0); word(getpid()); wide(now()); wide(0);
    fflush(out);
    mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(out), 0);
}
static void made(const char *name, const unsigned char *code, int line) {
    size_t size = sizeof SPIN, length = strlen(name) + 1;
    if (as_dump) {
        static const char file[] = "made.js";
        word(2); word(16 + 16 + 16 + sizeof file); wide(now());
        wide((uint64_t)code); wide(1);
        wide((uint64_t)code); word(line); word(0); put(file, sizeof file);
        word(0); word(16 + 40 + length + size); wide(now());
        word(getpid()); word(getpid()); wide((uint64_t)code); wide((uint64_t)code); wide(size);
        wide(line); put(name, length); put(code, size);
    } else {
        fprintf(out, "%lx %zx %s\n", (unsigned long)code, size, name);
    }
    fflush(out);
}
#define CALLER(name) \
    KEPT void call_##name(void (*code)(int), uint64_t ns) { \
        for (uint64_t end = ran() + ns; ran() < end;) { code(2000000); rounds++; } rounds++; }
CALLER(first) CALLER(second) CALLER(later)
int main(int count, char **arguments) {
    as_dump = count > 1 && !strcmp(arguments[1], "dump");
    unsigned char *page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    begin();
    memcpy(page, SPIN, sizeof SPIN);
    memcpy(page + 64, SPIN, sizeof SPIN);
    made("first", page, 10);
    call_first((void (*)(int))page, 200000000);
    usleep(20000);
    if (as_dump) made("second", page, 20);
    call_second((void (*)(int))page, 200000000);
    made("later", page + 64, 30);
    call_later((void (*)(int))(page + 64), 200000000);
    return 0;
}
"""


def built(folder: Path) -> Path:
    """The program, or a skip without a compiler or on another processor."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or platform.machine() != "x86_64":
        pytest.skip("no C compiler, or not x86-64: the program that writes code cannot be built")
    source, program = folder / "jit.c", folder / "jit"
    source.write_text(SOURCE)
    flags = ("-O1", "-g", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls")
    subprocess.run([compiler, *flags, "-o", program, source], check=True)
    return program
