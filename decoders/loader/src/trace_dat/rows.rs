//! Turns records into rows of the base tables.

use schedlens_schedule::pool::Pools;
use schedlens_schedule::tables::{Loss, Moment};
use schedlens_trace_dat::{Merged, Recording};

use crate::linux::rows as linux;
use crate::linux::tracepoints::Around;

/// The open state of a CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    seq: i64,
    /// Time of the last record.
    last: Option<i64>,
}

/// The rows of the current chunk, and the state they depend on.
pub(super) struct Rows<'a> {
    recording: &'a Recording,
    pub(super) linux: linux::Rows,
    start: u64,
    cpus: Vec<Cpu>,
}

impl<'a> Rows<'a> {
    /// Starts with the losses: a gap must be known before its start is reached.
    pub(super) fn new(recording: &'a Recording, trace_id: i64, pools: &Pools) -> Self {
        let mut rows = Self {
            recording,
            linux: linux::Rows::new(trace_id, pools),
            start: recording.first.unwrap_or_default(),
            cpus: Vec::new(),
        };
        for cpu in recording.cpus() {
            rows.linux.threads.idle(cpu);
        }
        for gap in &recording.gaps {
            let loss = Loss {
                cpu: Some(gap.cpu),
                start_ns: gap.before.map(|before| rows.since(before)),
                end_ns: gap.until.map(|until| rows.since(until)),
                events: gap.events.and_then(|events| i64::try_from(events).ok()),
                signalled_by: gap.signalled_by,
            };
            rows.linux.current.loss(loss);
        }
        rows
    }

    /// Time since the start of the recording.
    #[inline]
    pub(super) fn since(&self, time: u64) -> i64 {
        time.wrapping_sub(self.start).cast_signed()
    }

    /// Each CPU and the time of its last record so far.
    pub(super) fn ends(&self) -> Vec<(i32, i64)> {
        let lasts = (0..).zip(&self.cpus).map(|(cpu, here)| (cpu, here.last));
        lasts.filter_map(|(cpu, last)| Some((cpu, last?))).collect()
    }

    /// Processes a record.
    #[inline(always)]
    pub(super) fn record(&mut self, merged: &Merged<'_>, ts: i64) {
        let at = merged.cpu.max(0) as usize;
        if self.cpus.len() <= at {
            self.cpus.resize(at + 1, Cpu::default());
        }
        let cpu = &mut self.cpus[at];
        let moment = Moment { ts, cpu: merged.cpu, seq: cpu.seq };
        cpu.seq += 1;
        let before = cpu.last.replace(ts);
        if merged.after_gap {
            self.linux.lost(before, moment);
        } else if before.is_none() {
            self.linux.begins(moment);
        }
        let recording = self.recording;
        let Some(event) = recording.events.get(merged.event) else { return };
        let around = Around { raw: merged.raw, ids: None, moment };
        if self.linux.tracepoint(event, around).is_none() {
            self.linux.odd.damaged_samples += 1;
        }
    }

    /// Names threads that no record names, as they were called when the recording ended.
    pub(super) fn name_the_rest(&mut self) {
        for (tid, name) in &self.recording.names {
            self.linux.threads.named_at_the_end(*tid, name);
        }
    }
}
