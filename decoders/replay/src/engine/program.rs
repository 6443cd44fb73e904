//! What the threads do: their programs, the gates between them, and presented frames.

use super::{Event, Replay, Why};
use crate::plan::Op;
use crate::thread::{FOREVER, State, TICK_NS};

/// Cost of waking another thread, paid by the waker, in ticks.
const SIGNAL_TICKS: f64 = 5.0;
const FRAMES_IN_FLIGHT: usize = 2;

enum Action {
    End,
    Run(f64),
    Open(Vec<u32>),
    Wait(u32),
    Spin(u32),
    Until(i64),
    Present(i64),
}

impl Replay {
    /// The next thing that a thread does.
    fn next(&mut self, thread: u32) -> Action {
        loop {
            let known = &mut self.threads[thread as usize];
            let program = &self.plan.programs[thread as usize];
            let Some(&op) = program.ops.get(known.next_op) else { return Action::End };
            if let Op::Take(gate) = op {
                let place = gate as usize;
                if std::mem::take(&mut known.in_job) {
                    self.undone[place] -= 1;
                    if self.undone[place] == 0 {
                        return Action::Open(vec![gate]);
                    }
                }
                if let Some(job) = self.jobs[place].pop() {
                    known.in_job = true;
                    return Action::Run(job);
                }
                known.next_op += 1;
                continue;
            }
            known.next_op += 1;
            match op {
                Op::Run(work) => return Action::Run(work),
                Op::Wait(gate) => return Action::Wait(gate),
                Op::Spin(gate) => return Action::Spin(gate),
                Op::Sleep(ns) => return Action::Until(self.now.saturating_add(ns)),
                Op::Until(at) => return Action::Until(at),
                Op::Present(gpu_ns) => return Action::Present(gpu_ns),
                Op::Mark => self.outcome.marks[thread as usize].push(self.now),
                Op::Open(first, end) => {
                    let mut opened = Vec::new();
                    for &gate in &program.gates[first as usize..end as usize] {
                        let left = &mut self.left[gate as usize];
                        *left -= 1;
                        if *left == 0 {
                            opened.push(gate);
                        }
                    }
                    if !opened.is_empty() {
                        return Action::Open(opened);
                    }
                }
                Op::Take(_) => {}
            }
        }
    }

    /// A thread begins. One that waits first has not run for that: it was waiting before.
    pub(super) fn begin(&mut self, thread: u32) {
        let index = thread as usize;
        let at = match self.plan.programs[index].ops.first() {
            Some(&Op::Wait(gate))
                if self.gates[gate as usize].count == 0 && self.linux.is_none() =>
            {
                self.gates[gate as usize].waiting.push_back(thread);
                FOREVER
            }
            Some(&Op::Sleep(ns)) => self.now.saturating_add(ns),
            Some(&Op::Until(at)) => at,
            _ => 0,
        };
        if at <= self.now || self.linux.is_some() {
            self.wake(thread, 0);
            return;
        }
        if self.threads[index].is_watched {
            // What it did before its first wait, which is the first of its responses.
            self.outcome.responses[index].push(0);
        }
        self.threads[index].next_op = 1;
        self.threads[index].state = State::Waiting;
        if at < FOREVER {
            self.at(at, Event::Alarm(thread));
        }
    }

    /// Runs a thread's program until something takes time or the thread leaves the CPU.
    pub(super) fn step(&mut self, cpu: usize, thread: u32) {
        while self.cpus.cores[cpu].running == Some(thread) {
            let index = thread as usize;
            match self.next(thread) {
                Action::End => self.leave(cpu, thread, Why::Ended),
                Action::Run(work) => self.threads[index].work = work / TICK_NS as f64,
                Action::Open(gates) => {
                    self.threads[index].work = SIGNAL_TICKS;
                    self.waker = Some(cpu);
                    for gate in gates {
                        self.open(gate);
                    }
                    self.waker = None;
                }
                Action::Wait(gate) => {
                    let gate = &mut self.gates[gate as usize];
                    if gate.count > 0 {
                        gate.count -= 1;
                    } else {
                        gate.waiting.push_back(thread);
                        self.leave(cpu, thread, Why::Blocked);
                    }
                }
                Action::Spin(gate) => {
                    let gate = &mut self.gates[gate as usize];
                    if gate.count > 0 {
                        gate.count -= 1;
                    } else {
                        gate.spinning.push_back(thread);
                        self.threads[index].spins = true;
                    }
                }
                Action::Until(at) => {
                    if at > self.now {
                        self.at(at, Event::Alarm(thread));
                        self.leave(cpu, thread, Why::Blocked);
                    }
                }
                Action::Present(gpu_ns) => self.present(cpu, thread, gpu_ns),
            }
            if self.threads[index].work > 0.0 || self.threads[index].spins {
                break;
            }
        }
        if self.cpus.cores[cpu].running == Some(thread) {
            self.reschedule(cpu);
        }
    }

    fn open(&mut self, gate: u32) {
        let known = &mut self.gates[gate as usize];
        if let Some(woken) = known.waiting.pop_front() {
            self.wake(woken, self.plan.wake_boost);
        } else if let Some(passed) = known.spinning.pop_front() {
            self.threads[passed as usize].spins = false;
            // One that is not running notices when it runs next.
            let on = self.cpus.cores.iter().position(|core| core.running == Some(passed));
            if let Some(cpu) = on {
                let version = self.cpus.cores[cpu].version;
                self.at(self.now, Event::Finished(cpu, passed, version));
            }
        } else {
            known.count += 1;
        }
    }

    /// The GPU renders frames in order, and blocks a thread that is too far ahead.
    fn present(&mut self, cpu: usize, thread: u32, gpu_ns: i64) {
        let begin = self.gpu_free.max(self.now);
        let end = begin.saturating_add(gpu_ns.div_euclid(TICK_NS) * TICK_NS);
        self.gpu_free = end;
        let flight = &mut self.in_flight[self.plan.programs[thread as usize].process];
        flight.push_back(end);
        while flight.front().is_some_and(|&done| done <= self.now) {
            flight.pop_front();
        }
        let back = if flight.len() > FRAMES_IN_FLIGHT {
            flight[flight.len() - 1 - FRAMES_IN_FLIGHT]
        } else {
            self.now
        };
        let known = &mut self.threads[thread as usize];
        let start = std::mem::replace(&mut known.frame_start, back);
        known.work = SIGNAL_TICKS;
        self.outcome.frames[thread as usize].push(back - start);
        if back > self.now {
            self.at(back, Event::Alarm(thread));
            self.leave(cpu, thread, Why::Blocked);
        }
    }
}
