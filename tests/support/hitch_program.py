"""A program with a planted hitch: a real-time thread keeps another from its CPU."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

# `render` sleeps 1 ms and works 0.2 ms on CPU 0. Every PERIOD seconds, `indexer`, of real-time
# priority, runs `rebuild_index` there for LENGTH seconds. Each hitch is a line: its times in ns.
_SOURCE = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long period_ns, length_ns;

static long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000L + t.tv_nsec;
}
static void pin(void) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(0, &set);
  sched_setaffinity(0, sizeof set, &set);
}
static void rest(long ns) {
  struct timespec t = {ns / 1000000000L, ns % 1000000000L};
  nanosleep(&t, NULL);
}
__attribute__((noinline)) long rebuild_index(long until) {
  volatile long n = 0;
  while (now() < until) n++;
  return n;
}
static void *indexer(void *argument) {
  struct sched_param real_time = {.sched_priority = 5};
  pthread_setname_np(pthread_self(), "indexer");
  pin();
  if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &real_time)) exit(3);
  for (;;) {
    rest(period_ns);
    long begin = now();
    rebuild_index(begin + length_ns);
    printf("%ld %ld\n", begin, now());
    fflush(stdout);
  }
  return argument;
}
int main(int count, char **arguments) {
  if (count < 3) return 2;
  period_ns = (long)(1e9 * atof(arguments[1]));
  length_ns = (long)(1e9 * atof(arguments[2]));
  pin();
  pthread_t thread;
  pthread_create(&thread, NULL, indexer, NULL);
  pthread_setname_np(pthread_self(), "render");
  volatile long n = 0;
  for (;;) {
    rest(1000000);
    long end = now() + 200000;
    while (now() < end) n++;
  }
}
"""


def built(folder: Path) -> Path:
    """The compiled program. Skips without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    source, program = folder / "hitch.c", folder / "hitch"
    source.write_text(_SOURCE, encoding="utf-8")
    flags = ["-O1", "-g", "-fno-omit-frame-pointer", "-pthread"]
    subprocess.run([compiler, *flags, "-o", str(program), str(source)], check=True)
    return program
