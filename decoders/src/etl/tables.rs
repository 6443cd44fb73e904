//! The base tables of one frame that all Windows recordings fill, row by row.

use super::switches::{Switch, Switches};
use super::wakeups::{Wakeup, Wakeups};
use crate::columns::{Batcher, Column, Words};
use crate::error::DecodeError;
use crate::frame::Batches;
use crate::shelf::Shelves;

/// Time, CPU and position in the CPU's stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) ts: i64,
    pub(super) cpu: i32,
    pub(super) seq: i64,
}

#[derive(Debug, Default)]
struct Moments {
    ts: Column<i64>,
    cpu: Column<i32>,
    seq: Column<i64>,
}

impl Moments {
    #[inline]
    fn push(&mut self, moment: Moment) {
        self.ts.push(moment.ts);
        self.cpu.push(moment.cpu);
        self.seq.push(moment.seq);
    }
}

#[derive(Debug, Default)]
struct Migrations {
    moments: Moments,
    utid: Column<i64>,
    orig: Column<i32>,
    dest: Column<i32>,
}

#[derive(Debug, Default)]
struct Idles {
    ts: Column<i64>,
    cpu: Column<i32>,
    dur: Column<i64>,
    state: Column<i32>,
}

#[derive(Debug, Default)]
struct Counters {
    ts: Column<i64>,
    cpu: Column<i32>,
    utid: Column<i64>,
    counter: Words,
    core_type: Words,
    value: Column<i64>,
}

/// A stretch in which records were lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loss {
    pub(super) cpu: Option<i32>,
    pub(super) start_ns: Option<i64>,
    pub(super) end_ns: Option<i64>,
    pub(super) events: Option<i64>,
    pub(super) signalled_by: &'static str,
}

#[derive(Debug, Default)]
struct Losses {
    cpu: Column<i32>,
    start: Column<i64>,
    end: Column<i64>,
    events: Column<i64>,
    signalled_by: Words,
}

#[derive(Debug, Default)]
struct Priorities {
    ts: Column<i64>,
    cpu: Column<i32>,
    utid: Column<i64>,
    old: Column<i32>,
    new: Column<i32>,
    kind: Words,
}

#[derive(Debug, Default)]
struct Frequencies {
    ts: Column<i64>,
    cpu: Column<i32>,
    khz: Column<i64>,
}

/// All tables that grow while records are read.
#[derive(Debug, Default)]
pub(super) struct Tables {
    switches: Switches,
    pub(super) wakeups: Wakeups,
    migrations: Migrations,
    idles: Idles,
    frequencies: Frequencies,
    counters: Counters,
    priorities: Priorities,
    losses: Losses,
    rows: usize,
}

impl Tables {
    /// Without rows.
    pub(super) fn new(shelves: &Shelves) -> Self {
        Self {
            switches: Switches::new(shelves),
            wakeups: Wakeups::new(shelves),
            migrations: Migrations::default(),
            idles: Idles::default(),
            frequencies: Frequencies::default(),
            counters: Counters::default(),
            priorities: Priorities::default(),
            losses: Losses::default(),
            rows: 0,
        }
    }

    /// Rows of all tables.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    #[inline(always)]
    pub(super) fn switch(&mut self, moment: Moment, row: Switch) {
        self.switches.put(moment, row);
        self.rows += 1;
    }

    #[inline(always)]
    pub(super) fn wakeup(&mut self, moment: Moment, row: Wakeup) {
        self.wakeups.put(moment, row);
        self.rows += 1;
    }

    pub(super) fn migration(&mut self, moment: Moment, utid: Option<i64>, orig: i32, dest: i32) {
        self.migrations.moments.push(moment);
        self.migrations.utid.push_option(utid);
        self.migrations.orig.push(orig);
        self.migrations.dest.push(dest);
        self.rows += 1;
    }

    pub(super) fn idle(&mut self, ts: i64, cpu: i32, dur: Option<i64>, state: i32) {
        self.idles.ts.push(ts);
        self.idles.cpu.push(cpu);
        self.idles.dur.push_option(dur);
        self.idles.state.push(state);
        self.rows += 1;
    }

    pub(super) fn frequency(&mut self, ts: i64, cpu: i32, khz: i64) {
        self.frequencies.ts.push(ts);
        self.frequencies.cpu.push(cpu);
        self.frequencies.khz.push(khz);
        self.rows += 1;
    }

    pub(super) fn counter(
        &mut self,
        moment: Moment,
        utid: Option<i64>,
        counter: &str,
        core_type: Option<&str>,
        value: u64,
    ) {
        let table = &mut self.counters;
        table.ts.push(moment.ts);
        table.cpu.push(moment.cpu);
        table.utid.push_option(utid);
        table.counter.push(Some(counter));
        table.core_type.push(core_type);
        table.value.push(value.cast_signed());
        self.rows += 1;
    }

    /// A change of priority: `dynamic` or `base`, and what it was before and is after.
    pub(super) fn priority(
        &mut self,
        kind: &str,
        moment: Moment,
        utid: Option<i64>,
        (old, new): (Option<i32>, Option<i32>),
    ) {
        let table = &mut self.priorities;
        table.ts.push(moment.ts);
        table.cpu.push(moment.cpu);
        table.utid.push_option(utid);
        table.old.push_option(old);
        table.new.push_option(new);
        table.kind.push(Some(kind));
        self.rows += 1;
    }

    pub(super) fn loss(&mut self, row: Loss) {
        let table = &mut self.losses;
        table.cpu.push_option(row.cpu);
        table.start.push_option(row.start_ns);
        table.end.push_option(row.end_ns);
        table.events.push_option(row.events);
        table.signalled_by.push(Some(row.signalled_by));
        self.rows += 1;
    }

    /// The tables that have rows; `tells_ideal`: whether switches tell ideal processors.
    pub(super) fn finish(
        self,
        batcher: &Batcher,
        shelves: &Shelves,
        tells_ideal: bool,
    ) -> Result<Batches, DecodeError> {
        let mut batches = Batches::new();
        let mut add = |table: &'static str, rows: usize, columns| -> Result<(), DecodeError> {
            if rows > 0 {
                batches.push((table, batcher.batch(table, rows, columns)?));
            }
            Ok(())
        };
        let positioned = |moments: Moments, mut columns: Vec<crate::columns::Named>| {
            columns.push(("ts", moments.ts.array()));
            columns.push(("cpu", moments.cpu.array()));
            columns.push(("seq", moments.seq.array()));
            columns
        };

        let rows = self.switches.len();
        add("context_switch", rows, self.switches.columns(shelves, tells_ideal)?)?;
        let rows = self.wakeups.len();
        add("wakeup", rows, self.wakeups.columns(shelves)?)?;

        let t = self.migrations;
        let rows = t.utid.len();
        let columns = vec![
            ("utid", t.utid.array()),
            ("orig_cpu", t.orig.array()),
            ("dest_cpu", t.dest.array()),
        ];
        add("migration", rows, positioned(t.moments, columns))?;

        let t = self.idles;
        let rows = t.ts.len();
        let columns = vec![
            ("ts", t.ts.array()),
            ("cpu", t.cpu.array()),
            ("dur", t.dur.array()),
            ("state", t.state.array()),
        ];
        add("cpu_idle", rows, columns)?;

        let t = self.frequencies;
        let rows = t.ts.len();
        let columns = vec![("ts", t.ts.array()), ("cpu", t.cpu.array()), ("khz", t.khz.array())];
        add("cpu_frequency", rows, columns)?;

        let t = self.counters;
        let rows = t.ts.len();
        let columns = vec![
            ("ts", t.ts.array()),
            ("cpu", t.cpu.array()),
            ("utid", t.utid.array()),
            ("counter", t.counter.array()?),
            ("core_type", t.core_type.array()?),
            ("value", t.value.array()),
        ];
        add("counter_sample", rows, columns)?;

        let t = self.priorities;
        let rows = t.ts.len();
        let columns = vec![
            ("ts", t.ts.array()),
            ("cpu", t.cpu.array()),
            ("utid", t.utid.array()),
            ("old_priority", t.old.array()),
            ("new_priority", t.new.array()),
            ("kind", t.kind.array()?),
        ];
        add("priority_change", rows, columns)?;

        let t = self.losses;
        let rows = t.start.len();
        let columns = vec![
            ("cpu", t.cpu.array()),
            ("start_ns", t.start.array()),
            ("end_ns", t.end.array()),
            ("events", t.events.array()),
            ("signalled_by", t.signalled_by.array()?),
        ];
        add("loss", rows, columns)?;
        Ok(batches)
    }
}
