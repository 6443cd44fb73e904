"""A Rust program whose threads wait in functions with known names: a mutex, a channel, sleep."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = """\
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, sleep};
use std::time::Duration;
struct JobQueue<T> { jobs: SyncSender<T>, lock: Mutex<u64> }
impl<T> JobQueue<T> {
    #[inline(never)]
    fn push(&self, job: T) -> bool { let sent = self.jobs.send(job).is_ok(); after(); sent }
    #[inline(never)]
    fn hold(&self) { let held = self.lock.lock().unwrap(); pause(4); drop(held); after(); }
    #[inline(never)]
    fn take(&self) -> u64 { let held = self.lock.lock().unwrap(); *held * 2 }
}
#[inline(never)]
fn pop(jobs: &Receiver<u64>) -> Option<u64> { let job = jobs.recv().ok(); after(); job }
// No call is the last thing that a function does, so that each one is on the stack.
#[inline(always)]
fn after() { std::hint::black_box(0); }
#[inline(never)]
fn pause(ms: u64) { sleep(Duration::from_millis(ms)); after(); }
fn main() {
    let (jobs, taken) = sync_channel(8);
    let queue = Arc::new(JobQueue { jobs, lock: Mutex::new(0) });
    let run = |name: &str, mut body: Box<dyn FnMut(&JobQueue<u64>) -> u64 + Send>| {
        let queue = Arc::clone(&queue);
        let main = move || for _ in 0..120 { std::hint::black_box(body(&queue)); };
        Builder::new().name(name.to_owned()).spawn(main).unwrap()
    };
    let threads = [
        run("pusher", Box::new(|queue| { pause(3); queue.push(7).into() })),
        run("popper", Box::new(move |_| pop(&taken).unwrap_or(0))),
        run("holder", Box::new(|queue| { queue.hold(); pause(2); 0 })),
        run("taker", Box::new(|queue| { pause(1); queue.take() })),
    ];
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
"""


def built(folder: Path) -> Path:
    """The program, or a skip without the toolchain."""
    rustc = shutil.which("rustc")
    if rustc is None:
        pytest.skip("no Rust toolchain: the program with known stacks cannot be built")
    source, program = folder / "jobs.rs", folder / "jobs"
    source.write_text(SOURCE)
    flags = ("-C", "opt-level=2", "-C", "debuginfo=2", "--edition=2021")
    subprocess.run([rustc, *flags, "-o", program, source], check=True)
    return program
