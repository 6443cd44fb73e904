//! The rows of the current chunk, and the state they depend on.

use std::collections::{HashMap, VecDeque};

use schedlens_schedule::pool::Pools;
use schedlens_schedule::tables::Moment;

use super::Tables;
use super::interrupts::{Filling, Interrupts, Which};
use super::pending::Pending;
use super::threads::Threads;

/// `PWR_EVENT_EXIT` of `power:cpu_idle`.
const IDLE_EXIT: i64 = 0xffff_ffff;

/// Maximum rows that wait for the ends of their interrupts.
const PENDING_ROWS: usize = 1 << 20;

/// Incomplete records, counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Odd {
    pub(crate) damaged_samples: i64,
    pub(crate) placeless: i64,
    pub(crate) namespace_switches: i64,
}

/// The rows of the current chunk, and the state they depend on.
pub(crate) struct Rows {
    pub(crate) threads: Threads,
    pub(crate) current: Tables,
    pub(crate) interrupts: Interrupts,
    pub(crate) odd: Odd,
    pub(super) chunk: u64,
    pending: VecDeque<Pending>,
    /// Start and state of the idle period of each CPU.
    idle: Vec<Option<(i64, i32)>>,
    /// The thread whose affinity each thread is setting, both unique in the database.
    pub(super) setting: HashMap<i64, i64>,
}

impl Rows {
    /// Starts empty.
    pub(crate) fn new(trace_id: i64, pools: &Pools) -> Self {
        Self {
            threads: Threads::new(trace_id),
            current: Tables::new(pools),
            interrupts: Interrupts::default(),
            odd: Odd::default(),
            chunk: 0,
            pending: VecDeque::new(),
            idle: Vec::new(),
            setting: HashMap::new(),
        }
    }

    /// Ends the chunk at that time and starts the next one.
    pub(super) fn cut(&mut self, until_ns: i64, pools: &Pools) {
        let tables = std::mem::replace(&mut self.current, Tables::new(pools));
        self.pending.push_back(Pending { number: self.chunk, tables, until_ns });
        self.chunk += 1;
    }

    /// Returns the first pending chunk once its interrupts have ended or too many rows wait for
    /// that; at the end, in any case.
    pub(super) fn release(&mut self, at_the_end: bool) -> Option<Pending> {
        let first = self.pending.front()?;
        let complete = self.interrupts.earliest_open().is_none_or(|open| open > first.number);
        let waiting: usize = self.pending.iter().map(|chunk| chunk.tables.rows()).sum();
        let due = at_the_end || complete || waiting > PENDING_ROWS;
        if due { self.pending.pop_front() } else { None }
    }

    /// Closes whatever is still open at the end of the recording; `ends`: each CPU and the time of
    /// its last record.
    pub(super) fn close_open(&mut self, ends: &[(i32, i64)]) {
        let mut filling =
            Filling { chunk: self.chunk, current: &mut self.current, pending: &mut self.pending };
        for &(cpu, last) in ends {
            self.interrupts.last_until(cpu, last, &mut filling);
        }
        for (number, idle) in self.idle.iter_mut().enumerate() {
            if let Some((ts, state)) = idle.take() {
                self.current.idle(ts, number as i32, None, state);
            }
        }
    }

    /// Whatever is open on a CPU may have ended in its lost records.
    #[inline(never)]
    pub(crate) fn lost(&mut self, before: Option<i64>, after: Moment) {
        self.idle_of(after.cpu).take();
        let filling =
            Filling { chunk: self.chunk, current: &mut self.current, pending: &mut self.pending };
        self.interrupts.lost(before, after, filling);
    }

    /// The first record of a CPU.
    #[inline(never)]
    pub(crate) fn begins(&mut self, first: Moment) {
        self.interrupts.resume(first, self.chunk);
    }

    pub(super) fn interrupt_end(&mut self, which: Which<'_>, moment: Moment) {
        let (chunk, current) = (self.chunk, &mut self.current);
        let filling = Filling { chunk, current, pending: &mut self.pending };
        self.interrupts.end(which, moment, filling);
    }

    fn idle_of(&mut self, cpu: i32) -> &mut Option<(i64, i32)> {
        let at = cpu.max(0) as usize;
        if self.idle.len() <= at {
            self.idle.resize(at + 1, None);
        }
        &mut self.idle[at]
    }

    pub(super) fn idle(&mut self, state: i64, number: i32, ts: i64) {
        let before = self.idle_of(number).take();
        if let Some((from, state)) = before {
            self.current.idle(from, number, Some(ts - from), state);
        }
        if state != IDLE_EXIT
            && let Ok(state) = i32::try_from(state)
        {
            *self.idle_of(number) = Some((ts, state));
        }
    }
}
