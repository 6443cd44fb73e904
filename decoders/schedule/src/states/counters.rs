//! Counter values read at switches, and the difference between two of them.

use std::sync::Arc;

use arrow_array::builder::{Int32Builder, Int64Builder, UInt8Builder};
use arrow_array::{ArrayRef, RecordBatch};

use super::StateError;
use super::input::{Cursor, Ints, Longs, numbered};
use super::problem::{ProblemKind, Problems};
use super::rows::{BATCH_ROWS, batch};
use super::switches::Switch;
use super::words::Words;
use crate::chunk::Output;

#[derive(Clone, Copy)]
struct Read {
    ts: i64,
    value: i64,
    /// Number of the switch at which it was read.
    switch: u64,
}

#[derive(Default)]
struct PerCpu {
    /// Switches so far. A gap counts too, so that no interval spans it.
    switches: u64,
    latest_ts: i64,
    /// Outgoing thread and number of the switches at `latest_ts`: of a coarse clock, many.
    latest: Vec<(Option<u32>, u64)>,
    /// They are in order.
    is_sorted: bool,
    /// Last value by counter.
    reads: Vec<Option<Read>>,
}

/// Builds `counter_delta`.
#[derive(Default)]
pub(super) struct Counters {
    cpus: Vec<PerCpu>,
    names: Words,
    core_types: Words,
    cpu: Int32Builder,
    utid: Int64Builder,
    ts: Int64Builder,
    dur: Int64Builder,
    counter: UInt8Builder,
    core_type: UInt8Builder,
    delta: Int64Builder,
    len: usize,
    /// Counter values exist; otherwise switches need not be noted.
    in_use: bool,
}

/// Rows of `counter_sample` in a chunk.
pub(super) struct Samples<'a> {
    pub(super) cursor: Cursor<'a>,
    ts: Longs<'a>,
    cpu: Ints<'a>,
    utid: Longs<'a>,
    value: Longs<'a>,
    counter: Vec<Option<u8>>,
    core_type: Vec<Option<u8>>,
}

impl PerCpu {
    /// The first switch of a time that is later than number `after` and whose outgoing thread is
    /// `prev`.
    fn switch(&mut self, ts: i64, prev: Option<u32>, after: u64) -> Option<u64> {
        if self.latest_ts != ts {
            return None;
        }
        if !self.is_sorted {
            self.latest.sort_unstable();
            self.is_sorted = true;
        }
        let place = self.latest.partition_point(|entry| *entry <= (prev, after));
        self.latest.get(place).filter(|entry| entry.0 == prev).map(|entry| entry.1)
    }
}

impl Counters {
    /// Opens a batch of `counter_sample`.
    pub(super) fn open<'a>(&mut self, batch: &'a RecordBatch) -> Result<Samples<'a>, StateError> {
        const TABLE: &str = "counter_sample";
        self.in_use |= batch.num_rows() > 0;
        let ts = Longs::of(TABLE, "ts", batch)?;
        let cpu = Ints::of(TABLE, "cpu", batch)?;
        Ok(Samples {
            cursor: Cursor::new(&ts, &cpu, None),
            ts,
            cpu,
            utid: Longs::of(TABLE, "utid", batch)?,
            value: Longs::of(TABLE, "value", batch)?,
            counter: numbered(TABLE, "counter", batch, |word| {
                word.and_then(|word| self.names.number(word))
            })?,
            core_type: numbered(TABLE, "core_type", batch, |word| {
                word.and_then(|word| self.core_types.number(word))
            })?,
        })
    }

    fn place(&mut self, cpu: i32) -> &mut PerCpu {
        let place = cpu.max(0) as usize;
        if self.cpus.len() <= place {
            self.cpus.resize_with(place + 1, PerCpu::default);
        }
        &mut self.cpus[place]
    }

    /// Notes a switch.
    #[inline]
    pub(super) fn switched(&mut self, switch: &Switch) {
        if !self.in_use {
            return;
        }
        let place = self.place(switch.cpu);
        place.switches += 1;
        if place.latest_ts != switch.ts {
            place.latest_ts = switch.ts;
            place.latest.clear();
        }
        place.latest.push((switch.prev, place.switches));
        place.is_sorted = place.latest.len() == 1;
    }

    /// Notes a gap.
    pub(super) fn interrupt(&mut self, cpu: i32) {
        if self.in_use {
            self.place(cpu).switches += 1;
        }
    }

    /// Reads the value in a row; `number` is its thread. The interval since the previous value is
    /// charged to the outgoing thread, unless there is a switch without a value in between.
    pub(super) fn sample(
        &mut self,
        samples: &Samples<'_>,
        row: usize,
        (utid, number): (Option<i64>, Option<u32>),
        problems: &mut Problems,
    ) {
        let Some(counter) = samples.counter[row] else { return };
        let (ts, cpu, value) = (samples.ts.at(row), samples.cpu.at(row), samples.value.at(row));
        let place = self.place(cpu);
        if place.reads.len() <= usize::from(counter) {
            place.reads.resize(usize::from(counter) + 1, None);
        }
        let before = place.reads[usize::from(counter)].take();
        let after = before.map_or(0, |read| read.switch);
        let Some(switch) = place.switch(ts, number, after) else { return };
        place.reads[usize::from(counter)] = Some(Read { ts, value, switch });
        let (Some(before), Some(utid)) = (before, utid) else { return };
        if before.switch + 1 != switch {
            return;
        }
        let delta = value.wrapping_sub(before.value);
        if delta < 0 {
            problems.add(ProblemKind::CounterFell);
            return;
        }
        self.cpu.append_value(cpu);
        self.utid.append_value(utid);
        self.ts.append_value(before.ts);
        self.dur.append_value(ts.saturating_sub(before.ts));
        self.counter.append_value(counter);
        self.core_type.append_option(samples.core_type[row]);
        self.delta.append_value(delta);
        self.len += 1;
    }

    /// Hands out the rows; without `all`, only full batches.
    pub(super) fn take(
        &mut self,
        trace_id: i64,
        all: bool,
        out: &mut Vec<Output>,
    ) -> Result<(), StateError> {
        if self.len < BATCH_ROWS && !(all && self.len > 0) {
            return Ok(());
        }
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.cpu.finish()),
            Arc::new(self.utid.finish()),
            Arc::new(self.ts.finish()),
            Arc::new(self.dur.finish()),
            self.names.column(self.counter.finish()),
            self.core_types.column(self.core_type.finish()),
            Arc::new(self.delta.finish()),
        ];
        out.push(batch("counter_delta", trace_id, std::mem::take(&mut self.len), columns)?);
        Ok(())
    }

    /// Reads the utid of a row.
    pub(super) fn utid(samples: &Samples<'_>, row: usize) -> (Option<i64>, i32) {
        (samples.utid.get(row), samples.cpu.at(row))
    }
}
