//! The base tables of one frame that all Windows recordings fill, row by row.

use crate::columns::{Batcher, Column, Words};
use crate::error::DecodeError;
use crate::frame::Batches;

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
    fn with_capacity(rows: usize) -> Self {
        Self {
            ts: Column::with_capacity(rows),
            cpu: Column::with_capacity(rows),
            seq: Column::with_capacity(rows),
        }
    }

    #[inline]
    fn push(&mut self, moment: Moment) {
        self.ts.push(moment.ts);
        self.cpu.push(moment.cpu);
        self.seq.push(moment.seq);
    }
}

/// A row of `context_switch` without its moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Switch {
    pub(super) prev: Option<i64>,
    pub(super) next: Option<i64>,
    pub(super) prev_state: Option<i32>,
    pub(super) prev_priority: Option<i32>,
    pub(super) next_priority: Option<i32>,
}

/// What a record of Windows says beside a [`Switch`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Leaver {
    /// `KWAIT_REASON`
    pub(super) wait_reason: i32,
    /// `KPROCESSOR_MODE`
    pub(super) wait_mode: i32,
    pub(super) ideal_cpu: Option<i32>,
    /// Of the CPU, where its idle thread leaves.
    pub(super) cstate: Option<i32>,
}

#[derive(Debug, Default)]
struct Leavers {
    wait_reason: Column<i32>,
    wait_mode: Column<i32>,
    ideal_cpu: Column<i32>,
    cstate: Column<i32>,
}

impl Leavers {
    fn with_capacity(rows: usize) -> Self {
        Self {
            wait_reason: Column::with_capacity(rows),
            wait_mode: Column::with_capacity(rows),
            ideal_cpu: Column::with_capacity(rows),
            cstate: Column::with_capacity(rows),
        }
    }
}

#[derive(Debug, Default)]
struct Switches {
    moments: Moments,
    prev: Column<i64>,
    next: Column<i64>,
    prev_state: Column<i32>,
    prev_priority: Column<i32>,
    next_priority: Column<i32>,
    source: Words,
    leavers: Leavers,
}

/// A row of `wakeup` without its moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wakeup {
    pub(super) utid: Option<i64>,
    pub(super) waker: Option<i64>,
    pub(super) in_interrupt: bool,
}

#[derive(Debug, Default)]
struct Wakeups {
    moments: Moments,
    utid: Column<i64>,
    waker: Column<i64>,
    kind: Words,
    in_interrupt: Column<bool>,
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
    wakeups: Wakeups,
    migrations: Migrations,
    idles: Idles,
    frequencies: Frequencies,
    counters: Counters,
    priorities: Priorities,
    losses: Losses,
    rows: usize,
}

impl Tables {
    /// With room for about as many rows as the frame before had.
    pub(super) fn like(other: &Self) -> Self {
        let switches = other.switches.prev.len();
        let wakeups = other.wakeups.utid.len();
        Self {
            switches: Switches {
                moments: Moments::with_capacity(switches),
                prev: Column::with_capacity(switches),
                next: Column::with_capacity(switches),
                prev_state: Column::with_capacity(switches),
                prev_priority: Column::with_capacity(switches),
                next_priority: Column::with_capacity(switches),
                source: Words::default(),
                leavers: Leavers::with_capacity(switches),
            },
            wakeups: Wakeups {
                moments: Moments::with_capacity(wakeups),
                utid: Column::with_capacity(wakeups),
                waker: Column::with_capacity(wakeups),
                kind: Words::default(),
                in_interrupt: Column::with_capacity(wakeups),
            },
            ..Self::default()
        }
    }

    /// Rows of all tables.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    #[inline]
    pub(super) fn switch(&mut self, moment: Moment, row: Switch, leaver: Leaver) {
        let table = &mut self.switches;
        table.leavers.wait_reason.push(leaver.wait_reason);
        table.leavers.wait_mode.push(leaver.wait_mode);
        table.leavers.ideal_cpu.push_option(leaver.ideal_cpu);
        table.leavers.cstate.push_option(leaver.cstate);
        table.moments.push(moment);
        table.prev.push_option(row.prev);
        table.next.push_option(row.next);
        table.prev_state.push_option(row.prev_state);
        table.prev_priority.push_option(row.prev_priority);
        table.next_priority.push_option(row.next_priority);
        table.source.push_number(0);
        self.rows += 1;
    }

    /// Times of the wakeups so far.
    pub(super) fn wakeup_times(&self) -> &[i64] {
        self.wakeups.moments.ts.values()
    }

    /// CPU that wrote a wakeup.
    pub(super) fn wakeup_cpu(&self, row: usize) -> Option<i32> {
        self.wakeups.moments.cpu.values().get(row).copied()
    }

    /// Whether the waker of a row is not known.
    pub(super) fn waker_unknown(&self, row: usize) -> bool {
        self.wakeups.waker.is_unknown(row)
    }

    /// Puts another waker in the place of the one assumed.
    pub(super) fn mend_waker(&mut self, row: usize, waker: i64) {
        self.wakeups.waker.set(row, waker);
    }

    /// Rows of `wakeup` so far.
    pub(super) fn wakeup_rows(&self) -> usize {
        self.wakeups.utid.len()
    }

    #[inline]
    pub(super) fn wakeup(&mut self, moment: Moment, row: Wakeup) {
        let table = &mut self.wakeups;
        table.moments.push(moment);
        table.utid.push_option(row.utid);
        table.waker.push_option(row.waker);
        table.kind.push_number(0);
        table.in_interrupt.push(row.in_interrupt);
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

    /// The tables that have rows.
    pub(super) fn finish(self, batcher: &Batcher) -> Result<Batches, DecodeError> {
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

        let t = self.switches;
        let rows = t.prev.len();
        let columns = vec![
            ("prev_utid", t.prev.array()),
            ("next_utid", t.next.array()),
            ("prev_state", t.prev_state.array()),
            ("prev_priority", t.prev_priority.array()),
            ("next_priority", t.next_priority.array()),
            ("prev_wait_reason", t.leavers.wait_reason.array()),
            ("prev_wait_mode", t.leavers.wait_mode.array()),
            ("prev_ideal_cpu", t.leavers.ideal_cpu.array()),
            ("prev_cstate", t.leavers.cstate.array()),
            ("source", t.source.array_of(&["switch"])?),
        ];
        add("context_switch", rows, positioned(t.moments, columns))?;

        let t = self.wakeups;
        let rows = t.utid.len();
        let columns = vec![
            ("utid", t.utid.array()),
            ("waker_utid", t.waker.array()),
            ("kind", t.kind.array_of(&["ready"])?),
            ("in_interrupt", t.in_interrupt.array()),
        ];
        add("wakeup", rows, positioned(t.moments, columns))?;

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
