"""A program whose threads wait, run, and wake each other in functions with known names."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <time.h>
#include <unistd.h>
#define KEPT __attribute__((noinline, noipa))
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, own = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ready = PTHREAD_COND_INITIALIZER;
static int pipes[2], jobs;
static volatile int stop;
static volatile unsigned long rounds;
static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}
KEPT void spin_inner(long ns) { for (long end = now() + ns; now() < end;) rounds++; rounds++; }
KEPT void spin_outer(long ns) { spin_inner(ns); rounds++; }
KEPT void sleep_inner(void) { struct timespec t = {0, 3000000}; nanosleep(&t, 0); rounds++; }
KEPT void sleep_outer(void) { sleep_inner(); rounds++; }
KEPT void hold_inner(void) { pthread_mutex_unlock(&lock); rounds++; }
KEPT void hold_outer(void) { pthread_mutex_lock(&lock); sleep_outer(); hold_inner(); rounds++; }
KEPT void take_inner(void) { pthread_mutex_lock(&lock); rounds++; }
KEPT void take_outer(void) { take_inner(); pthread_mutex_unlock(&lock); rounds++; }
KEPT void read_inner(void) { char c; if (read(pipes[0], &c, 1) < 1) stop = 1; rounds++; }
KEPT void read_outer(void) { read_inner(); rounds++; }
KEPT void write_inner(void) { if (write(pipes[1], "x", 1) < 1) stop = 1; rounds++; }
KEPT void write_outer(void) { write_inner(); rounds++; }
KEPT void wait_inner(void) {
    pthread_mutex_lock(&own);
    while (!jobs) pthread_cond_wait(&ready, &own);
    jobs = 0;
    pthread_mutex_unlock(&own);
    rounds++;
}
KEPT void wait_outer(void) { wait_inner(); rounds++; }
KEPT void signal_inner(void) {
    pthread_mutex_lock(&own);
    jobs = 1;
    pthread_mutex_unlock(&own);
    pthread_cond_signal(&ready);
    rounds++;
}
KEPT void signal_outer(void) { signal_inner(); rounds++; }
#define THREAD(name, body) \
    KEPT void *name##_main(void *x) { pthread_setname_np(pthread_self(), #name); \
    while (!stop) { body; rounds++; } return x; }
THREAD(spinner, spin_outer(5000000))
THREAD(sleeper, sleep_outer())
THREAD(holder, hold_outer(); sleep_outer())
THREAD(taker, take_outer(); sleep_outer())
THREAD(reader, read_outer())
THREAD(writer, write_outer(); sleep_outer())
THREAD(waiter, wait_outer())
THREAD(caller, signal_outer(); sleep_outer())
int main(void) {
    void *(*mains[])(void *) = {spinner_main, sleeper_main, holder_main, taker_main,
                                reader_main, writer_main, waiter_main, caller_main};
    pthread_t threads[8];
    if (pipe(pipes)) return 1;
    for (int n = 0; n < 8; n++) pthread_create(&threads[n], 0, mains[n], 0);
    usleep(800000);
    stop = 1;
    usleep(20000);
    signal_outer();
    write_outer();
    for (int n = 0; n < 8; n++) pthread_join(threads[n], 0);
    return 0;
}
"""

WITH_FRAME_POINTERS = ("-O1", "-g", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls")
WITHOUT_FRAME_POINTERS = ("-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls")


def built(folder: Path, flags: tuple[str, ...], name: str = "stacks") -> Path:
    """The program, or a skip without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler: the program with known stacks cannot be built")
    source, program = folder / f"{name}.c", folder / name
    source.write_text(SOURCE)
    subprocess.run([compiler, *flags, "-o", program, source, "-lpthread"], check=True)
    return program
