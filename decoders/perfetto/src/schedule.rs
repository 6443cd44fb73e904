//! The schedule: slices of each CPU, wakings, idle states and frequencies, as ftrace bundles.
//!
//! `trace_processor` keeps a queue for each CPU and each of three kinds of events: switches in
//! columns, events, wakings in columns. It takes events of the same time by queue, in the order in
//! which it met the kinds (set by the first packets of a trace), then by CPU; but first those of the
//! queue that had the event before. Where the order matters, a waking of the idle thread of the last
//! CPU, 1 ns earlier, is that event (`Order`): its queue is the last one. A thread that moves at once
//! to a CPU of a lower number enters it before it leaves the other one, in the order of CPUs; then
//! that switch is written as an event (`late`).

use std::collections::HashMap;

use crate::bundle::{Bundle, Switch, Waking};

/// What a row of the schedule is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A slice begins; the slice before it on this CPU ends.
    Slice {
        /// The thread.
        utid: i64,
        /// Its priority.
        priority: i32,
        /// `prev_state` of its switch-out.
        end_state: u16,
        /// Why it waits after its switch-out, if that has a name.
        reason: Option<String>,
        /// Its end, ns. A slice of a negative `utid` stands for lost time: slices of length 0 do
        /// not end it.
        until: i64,
        /// Whether the thread left another CPU at the same time, and `trace_processor` would take
        /// that switch later.
        late: bool,
    },
    /// A thread becomes ready.
    Waking {
        /// The thread.
        utid: i64,
        /// The thread that wakes it.
        waker: i64,
        /// Where it is sent.
        target_cpu: i32,
        /// Whether an interrupt wakes it.
        in_interrupt: bool,
    },
    /// The CPU enters an idle state; `u32::MAX`: it leaves it.
    Idle(u32),
    /// The frequency in kHz from now on.
    Frequency(u32),
    /// Makes `trace_processor` take the events of the next nanosecond in the order of queues.
    Order,
}

/// A row: CPU, time in ns of the trace that is written, and event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Logical CPU.
    pub cpu: i32,
    /// Time, ns.
    pub ts: i64,
    /// What happens.
    pub event: Event,
}

/// Turns rows in the order of CPU and time into packets.
#[derive(Debug)]
pub struct Schedule {
    threads: HashMap<i64, (i32, String)>,
    last_cpu: i32,
    prologue: Vec<u8>,
    bundle: Bundle,
    cpu: Option<i32>,
    ts: i64,
    group: Vec<Event>,
    running: Option<Running>,
    gap: Option<Running>,
}

/// The slice that is open on the CPU.
#[derive(Clone, Debug)]
struct Running {
    utid: i64,
    priority: i32,
    end_state: u16,
    reason: Option<String>,
    until: i64,
}

const IDLE: (i32, &str, i32) = (0, "swapper", 0);

impl Schedule {
    /// `threads`: id and name of each thread by its `utid`. Others are written as the idle thread.
    /// `last_cpu`: the highest number of a CPU in the rows. `first_ns`: the start of the trace.
    #[must_use]
    pub fn new(threads: HashMap<i64, (i32, String)>, last_cpu: i32, first_ns: i64) -> Self {
        let mut bundle = Bundle::default();
        let mut prologue = Vec::new();
        bundle.begin_cpu(last_cpu, &mut prologue);
        bundle.switch(Switch { ts: first_ns, prev_state: 0, next: IDLE }, &mut prologue);
        bundle.no_reason(first_ns, &mut prologue);
        bundle.flush(&mut prologue);
        bundle.waking(nothing(first_ns), &mut prologue);
        bundle.flush(&mut prologue);
        Self {
            threads,
            last_cpu,
            prologue,
            bundle,
            cpu: None,
            ts: 0,
            group: Vec::new(),
            running: None,
            gap: None,
        }
    }

    /// Adds a row; appends packets to `trace` whenever some are complete.
    pub fn push(&mut self, row: Row, trace: &mut Vec<u8>) {
        if self.cpu != Some(row.cpu) {
            self.finish(trace);
            self.bundle.begin_cpu(row.cpu, trace);
            self.cpu = Some(row.cpu);
            (self.running, self.gap) = (None, None);
        } else if row.ts != self.ts {
            self.write_group(trace);
        }
        self.ts = row.ts;
        self.group.push(row.event);
    }

    /// Writes what is left.
    pub fn finish(&mut self, trace: &mut Vec<u8>) {
        trace.append(&mut self.prologue);
        self.write_group(trace);
        self.bundle.flush(trace);
    }

    /// Writes the events of one CPU at one time: switches, then wakings, then the others.
    fn write_group(&mut self, trace: &mut Vec<u8>) {
        let group = std::mem::take(&mut self.group);
        let mut is_late = false;
        let mut switched = false;
        for event in &group {
            let Event::Slice { utid, priority, end_state, reason, until, late } = event else {
                continue;
            };
            (switched, is_late) = (true, is_late || *late);
            let (utid, priority) = (*utid, *priority);
            let (end_state, reason, until) = (*end_state, reason.clone(), *until);
            self.enter(Running { utid, priority, end_state, reason, until }, is_late, trace);
            if utid < 0 {
                self.gap.clone_from(&self.running);
            }
        }
        self.resume_gap(is_late, trace);
        for event in &group {
            match event {
                Event::Slice { .. } => {}
                Event::Waking { .. } => self.wake(event, switched, trace),
                Event::Idle(state) => self.bundle.idle(self.ts, *state, trace),
                Event::Frequency(khz) => self.bundle.frequency(self.ts, *khz, trace),
                Event::Order => self.bundle.waking(nothing(self.ts), trace),
            }
        }
    }

    /// Continues lost time after slices of length 0 within it.
    fn resume_gap(&mut self, is_late: bool, trace: &mut Vec<u8>) {
        let (Some(running), Some(gap)) = (&self.running, &self.gap) else { return };
        if running.utid >= 0 && running.until <= self.ts && gap.until > self.ts {
            self.enter(gap.clone(), is_late, trace);
        }
    }

    fn enter(&mut self, entered: Running, is_late: bool, trace: &mut Vec<u8>) {
        let ts = self.ts;
        let (tid, name) = thread(&self.threads, entered.utid);
        let next = (tid, name, entered.priority);
        if let Some(left) = &self.running {
            let (tid, name) = thread(&self.threads, left.utid);
            let switch = Switch { ts, prev_state: left.end_state, next };
            if is_late {
                self.bundle.late_switch((tid, name, left.priority), switch, trace);
            } else {
                self.bundle.switch(switch, trace);
            }
            if let Some(reason) = &left.reason {
                // After the switch, in whatever order events of one time are taken.
                self.bundle.blocked_reason(ts + 1, tid, reason, trace);
            }
        } else if is_late {
            self.bundle.late_switch(IDLE, Switch { ts, prev_state: 0, next }, trace);
        } else {
            // trace_processor takes the first switch of a CPU only to learn who runs there.
            if self.cpu != Some(self.last_cpu) {
                self.bundle.switch(Switch { ts, prev_state: 0, next: IDLE }, trace);
            }
            self.bundle.switch(Switch { ts, prev_state: 0, next }, trace);
        }
        self.running = Some(entered);
    }

    fn wake(&mut self, event: &Event, switched: bool, trace: &mut Vec<u8>) {
        let Event::Waking { utid, waker, target_cpu, in_interrupt } = event else { return };
        let (tid, name) = thread(&self.threads, *utid);
        let (ts, target_cpu, in_interrupt) = (self.ts, *target_cpu, *in_interrupt);
        let waking = Waking { ts, tid, name, target_cpu, in_interrupt };
        let (waker, _) = thread(&self.threads, *waker);
        let running = self.running.as_ref().map(|running| thread(&self.threads, running.utid).0);
        // A waking in columns is by the thread that runs. At a switch it may be either of two.
        if running == Some(waker) && !switched {
            self.bundle.waking(waking, trace);
        } else {
            self.bundle.waking_by(waker, waking, trace);
        }
    }
}

/// A waking without effect: that of the idle thread.
fn nothing(ts: i64) -> Waking<'static> {
    let (tid, name, target_cpu) = IDLE;
    Waking { ts, tid, name, target_cpu, in_interrupt: false }
}

/// Id and name of a thread; a thread that is not listed is the idle thread.
fn thread(threads: &HashMap<i64, (i32, String)>, utid: i64) -> (i32, &str) {
    threads.get(&utid).map_or((0, "swapper"), |(tid, name)| (*tid, name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(cpu: i32, ts: i64, utid: i64, late: bool) -> Row {
        let (priority, end_state, reason, until) = (120, 1, None, ts + 300);
        Row { cpu, ts, event: Event::Slice { utid, priority, end_state, reason, until, late } }
    }

    fn written(rows: Vec<Row>) -> Vec<u8> {
        let threads = HashMap::from([(7, (70, "a".to_owned())), (8, (80, "b".to_owned()))]);
        let mut schedule = Schedule::new(threads, 1, 1000);
        let mut trace = Vec::new();
        for row in rows {
            schedule.push(row, &mut trace);
        }
        schedule.finish(&mut trace);
        trace
    }

    fn packed(field: u8, values: &[u8]) -> Vec<u8> {
        [&[field << 3 | 2, values.len() as u8][..], values].concat()
    }

    /// A packet with a bundle; `flags` 1 for the first one.
    fn packet(flags: u8, cpu: u8, fields: &[Vec<u8>]) -> Vec<u8> {
        let bundle = [vec![8, cpu], fields.concat()].concat();
        let body = [vec![0x50, 1, 0x68, flags], packed(1, &bundle)].concat();
        packed(1, &body)
    }

    /// A switch, an event, and a waking: they set the order of kinds.
    fn prologue() -> Vec<u8> {
        let swapper = [&[0x2a, 7][..], b"swapper"].concat();
        let one = [0xe8, 7];
        let event = packed(2, &[8, 0xe8, 7, 0x10, 0, 0x92, 1, 2, 8, 0]);
        let switch = [
            swapper.clone(),
            packed(1, &one),
            packed(2, &[0]),
            packed(3, &[0]),
            packed(4, &[0]),
            packed(6, &[0]),
        ];
        let waking = [
            swapper,
            packed(7, &one),
            packed(8, &[0]),
            packed(9, &[0]),
            packed(10, &[0]),
            packed(11, &[0]),
            packed(12, &[0]),
        ];
        let first = packet(1, 1, &[event, packed(4, &switch.concat())]);
        [first, packet(2, 1, &[packed(4, &waking.concat())])].concat()
    }

    #[test]
    fn first_slice_of_a_cpu_takes_two_switches() {
        let trace = written(vec![slice(0, 1000, 7, false), slice(0, 1300, 8, false)]);
        let columns = [
            [&[0x2a, 7][..], b"swapper", &[0x2a, 1, b'a', 0x2a, 1, b'b']].concat(),
            packed(1, &[0xe8, 7, 0, 0xac, 2]),
            packed(2, &[0, 0, 1]),
            packed(3, &[0, 70, 80]),
            packed(4, &[0, 120, 120]),
            packed(6, &[0, 1, 2]),
        ];
        let bundle = packet(2, 0, &[packed(4, &columns.concat())]);
        assert_eq!(trace, [prologue(), bundle].concat());
    }

    #[test]
    fn late_switch_is_an_event_that_names_both_threads() {
        let trace = written(vec![slice(1, 1000, 7, false), slice(1, 1300, 8, true)]);
        let fields = [
            &[0x0a, 1, b'a', 0x10, 70, 0x18, 120, 0x20, 1][..],
            &[0x2a, 1, b'b', 0x30, 80, 0x38, 120],
        ];
        let event = [&[8, 0x94, 10, 0x10, 70][..], &packed(4, &fields.concat())].concat();
        assert!(trace.windows(event.len()).any(|found| found == event));
    }

    #[test]
    fn waking_at_a_switch_names_its_waker() {
        let event = Event::Waking { utid: 8, waker: 7, target_cpu: 1, in_interrupt: false };
        let trace = written(vec![slice(1, 1100, 7, false), Row { cpu: 1, ts: 1100, event }]);
        let fields = [0x0a, 1, b'b', 0x10, 80, 0x28, 1];
        let event = [&[8, 0xcc, 8, 0x10, 70][..], &[0xa2, 1, 7], &fields].concat();
        assert!(trace.windows(event.len()).any(|found| found == event));
    }

    #[test]
    fn waking_by_another_thread_than_the_running_one_names_it() {
        let woken = |waker| {
            let event = Event::Waking { utid: 8, waker, target_cpu: 1, in_interrupt: false };
            written(vec![slice(1, 1000, 7, false), Row { cpu: 1, ts: 1100, event }])
        };
        let fields = [0x0a, 1, b'b', 0x10, 80, 0x28, 1];
        let event = [&[8, 0xcc, 8, 0x10, 80][..], &[0xa2, 1, 7], &fields].concat();
        let has_event = |trace: Vec<u8>| trace.windows(event.len()).any(|found| found == event);
        assert!(has_event(woken(8)));
        assert!(!has_event(woken(7)));
    }
}
