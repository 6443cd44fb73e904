//! The base tables of one chunk, filled row by row. Switches and wakeups have the columns that the
//! reader's system records.

use arrow_array::{Array, ArrayRef};
use arrow_schema::ArrowError;

use crate::batcher::Batcher;
use crate::chunk::Batches;
use crate::columns::{Column, Named, Words};
use crate::pool::Pools;

mod interrupts;

use self::interrupts::Interrupts;
pub use self::interrupts::LateInterrupt;

/// Time, CPU and position in the CPU's stream.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Time in ns from the start of the recording.
    pub ts: i64,
    /// Logical CPU.
    pub cpu: i32,
    /// Position among the records of that CPU.
    pub seq: i64,
}

impl Moment {
    /// A copy for a rarely called function, so that the original can remain in registers.
    #[inline(always)]
    pub fn apart(self) -> Self {
        Self { ts: self.ts, cpu: self.cpu, seq: self.seq }
    }
}

/// A table with a row for nearly every record. Its columns differ from system to system.
pub trait Busy {
    /// Empty, reusing the memory of earlier chunks.
    fn new(pools: &Pools) -> Self;

    /// Number of rows.
    fn rows(&self) -> usize;

    /// All columns.
    fn columns(self, pools: &Pools) -> Result<Vec<Named>, ArrowError>;
}

/// A column that knows its Arrow type.
trait Finish {
    fn finish(self) -> Result<ArrayRef, ArrowError>;
}

impl Finish for Column<i64> {
    fn finish(self) -> Result<ArrayRef, ArrowError> {
        Ok(self.array())
    }
}

impl Finish for Column<i32> {
    fn finish(self) -> Result<ArrayRef, ArrowError> {
        Ok(self.array())
    }
}

impl Finish for Words {
    fn finish(self) -> Result<ArrayRef, ArrowError> {
        self.array()
    }
}

/// Declares the columns of a table, by their names in the schema.
macro_rules! table {
    ($table:ident { $($column:ident: $kind:ty),* $(,)? }) => {
        #[derive(Debug, Default)]
        struct $table {
            $($column: $kind),*
        }

        impl $table {
            fn columns(self) -> Result<Vec<Named>, ArrowError> {
                Ok(vec![$((stringify!($column), self.$column.finish()?)),*])
            }
        }
    };
}

table!(Migrations {
    ts: Column<i64>,
    cpu: Column<i32>,
    seq: Column<i64>,
    utid: Column<i64>,
    orig_cpu: Column<i32>,
    dest_cpu: Column<i32>,
});
table!(Yields { ts: Column<i64>, cpu: Column<i32>, seq: Column<i64>, utid: Column<i64> });
table!(AffinityCalls {
    ts: Column<i64>,
    cpu: Column<i32>,
    utid: Column<i64>,
    setter_utid: Column<i64>,
});
table!(WaitEvents {
    ts: Column<i64>,
    cpu: Column<i32>,
    seq: Column<i64>,
    utid: Column<i64>,
    kind: Words,
    device: Column<i64>,
    sector: Column<i64>,
    bytes: Column<i64>,
});
table!(InterruptRows {
    ts: Column<i64>,
    cpu: Column<i32>,
    seq: Column<i64>,
    dur: Column<i64>,
    kind: Words,
    name: Words,
});
table!(Idles { ts: Column<i64>, cpu: Column<i32>, dur: Column<i64>, state: Column<i32> });
table!(Frequencies { ts: Column<i64>, cpu: Column<i32>, khz: Column<i64> });
table!(Counters {
    ts: Column<i64>,
    cpu: Column<i32>,
    utid: Column<i64>,
    counter: Words,
    core_type: Words,
    value: Column<i64>,
});
table!(Priorities {
    ts: Column<i64>,
    cpu: Column<i32>,
    utid: Column<i64>,
    old_priority: Column<i32>,
    new_priority: Column<i32>,
    kind: Words,
});
table!(Samples {
    ts: Column<i64>,
    cpu: Column<i32>,
    seq: Column<i64>,
    utid: Column<i64>,
    event: Words,
    period: Column<i64>,
    stack_id: Column<i64>,
});
table!(Losses {
    cpu: Column<i32>,
    start_ns: Column<i64>,
    end_ns: Column<i64>,
    events: Column<i64>,
    signalled_by: Words,
});

/// A request to a disk, which its device and first sector identify until it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskRequest {
    /// Number of the device.
    pub device: i64,
    /// First sector, of 512 bytes.
    pub sector: i64,
    /// Length.
    pub bytes: i64,
}

/// A gap in which records were lost.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// Logical CPU; `None` if unknown.
    pub cpu: Option<i32>,
    /// Time of the last record before the gap.
    pub start_ns: Option<i64>,
    /// Time of the first record after the gap.
    pub end_ns: Option<i64>,
    /// Number of lost records, if known.
    pub events: Option<i64>,
    /// How the loss was detected, as in `loss.signalled_by`.
    pub signalled_by: &'static str,
}

/// All tables that grow while records are read.
#[derive(Debug)]
pub struct Tables<S, W> {
    /// `context_switch`
    pub switches: S,
    /// `wakeup`
    pub wakeups: W,
    migrations: Migrations,
    yields: Yields,
    affinity_calls: AffinityCalls,
    wait_events: WaitEvents,
    interrupts: Interrupts,
    idles: Idles,
    frequencies: Frequencies,
    counters: Counters,
    priorities: Priorities,
    losses: Losses,
    samples: Samples,
    /// Rows of all tables except the two busy ones.
    rows: usize,
}

impl<S: Busy, W: Busy> Tables<S, W> {
    /// Empty, reusing the memory of earlier chunks.
    pub fn new(pools: &Pools) -> Self {
        Self {
            switches: S::new(pools),
            wakeups: W::new(pools),
            migrations: Migrations::default(),
            yields: Yields::default(),
            affinity_calls: AffinityCalls::default(),
            wait_events: WaitEvents::default(),
            interrupts: Interrupts::default(),
            idles: Idles::default(),
            frequencies: Frequencies::default(),
            counters: Counters::default(),
            priorities: Priorities::default(),
            losses: Losses::default(),
            samples: Samples::default(),
            rows: 0,
        }
    }

    /// Rows of all tables.
    pub fn rows(&self) -> usize {
        self.switches.rows() + self.wakeups.rows() + self.rows
    }

    /// Adds a row of `migration`.
    pub fn migration(&mut self, moment: Moment, utid: Option<i64>, orig: i32, dest: i32) {
        let table = &mut self.migrations;
        table.ts.push(moment.ts);
        table.cpu.push(moment.cpu);
        table.seq.push(moment.seq);
        table.utid.push_option(utid);
        table.orig_cpu.push(orig);
        table.dest_cpu.push(dest);
        self.rows += 1;
    }

    /// Adds a row of `sched_yield`.
    pub fn sched_yield(&mut self, moment: Moment, utid: Option<i64>) {
        let table = &mut self.yields;
        table.ts.push(moment.ts);
        table.cpu.push(moment.cpu);
        table.seq.push(moment.seq);
        table.utid.push_option(utid);
        self.rows += 1;
    }

    /// A thread has set the affinity of another, or its own.
    pub fn affinity_set(&mut self, moment: Moment, utid: i64, setter: Option<i64>) {
        let table = &mut self.affinity_calls;
        table.ts.push(moment.ts);
        table.cpu.push(moment.cpu);
        table.utid.push(utid);
        table.setter_utid.push_option(setter);
        self.rows += 1;
    }

    /// Adds a row of `wait_event`: a `page_fault`, or a `disk_issue` or `disk_done` with its request.
    pub fn wait_event(
        &mut self,
        kind: &str,
        moment: Moment,
        utid: Option<i64>,
        request: Option<DiskRequest>,
    ) {
        let table = &mut self.wait_events;
        table.ts.push(moment.ts);
        table.cpu.push(moment.cpu);
        table.seq.push(moment.seq);
        table.utid.push_option(utid);
        table.kind.push(Some(kind));
        table.device.push_option(request.map(|request| request.device));
        table.sector.push_option(request.map(|request| request.sector));
        table.bytes.push_option(request.map(|request| request.bytes));
        self.rows += 1;
    }

    /// The start of an interrupt; returns its row for [`Tables::interrupt_end`].
    pub fn interrupt(&mut self, moment: Moment, kind: &str, name: Option<&str>) -> usize {
        self.interrupts.push(moment, None, Some(kind), name);
        self.rows += 1;
        self.interrupts.rows.dur.len() - 1
    }

    /// An interrupt that began earlier than the rows before it.
    pub fn late_interrupt(&mut self, row: LateInterrupt) {
        self.interrupts.late.push(row);
        self.rows += 1;
    }

    /// Sets the duration of an interrupt, by its row.
    pub fn interrupt_end(&mut self, row: usize, dur: i64) {
        self.interrupts.rows.dur.set(row, dur);
    }

    /// Adds a row of `cpu_idle`; without a duration, the idle state lasts to the end.
    pub fn idle(&mut self, ts: i64, cpu: i32, dur: Option<i64>, state: i32) {
        self.idles.ts.push(ts);
        self.idles.cpu.push(cpu);
        self.idles.dur.push_option(dur);
        self.idles.state.push(state);
        self.rows += 1;
    }

    /// Adds a row of `cpu_frequency`.
    pub fn frequency(&mut self, ts: i64, cpu: i32, khz: i64) {
        self.frequencies.ts.push(ts);
        self.frequencies.cpu.push(cpu);
        self.frequencies.khz.push(khz);
        self.rows += 1;
    }

    /// Adds a row of `counter_sample`.
    pub fn counter(
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

    /// A change of the `dynamic` or `base` priority, with the values before and after.
    pub fn priority(
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
        table.old_priority.push_option(old);
        table.new_priority.push_option(new);
        table.kind.push(Some(kind));
        self.rows += 1;
    }

    /// Adds a row of `sample`: an event with its period, and the stack.
    pub fn sample(
        &mut self,
        moment: Moment,
        utid: Option<i64>,
        (event, period): (&str, Option<i64>),
        stack: Option<i64>,
    ) {
        let table = &mut self.samples;
        table.ts.push(moment.ts);
        table.cpu.push(moment.cpu);
        table.seq.push(moment.seq);
        table.utid.push_option(utid);
        table.event.push(Some(event));
        table.period.push_option(period);
        table.stack_id.push_option(stack);
        self.rows += 1;
    }

    /// Times of the rows of `sample`.
    pub fn sample_times(&self) -> &[i64] {
        self.samples.ts.values()
    }

    /// The CPU of a row of `sample`, its thread, and its stack.
    pub fn sample_at(&self, row: usize) -> (Option<i32>, Option<i64>, Option<i64>) {
        let table = &self.samples;
        (table.cpu.get(row), table.utid.get(row), table.stack_id.get(row))
    }

    /// The stack of a row of `sample` that had none, or not all of it.
    pub fn stack_of_sample(&mut self, row: usize, stack: i64) {
        self.samples.stack_id.set(row, stack);
    }

    /// Adds a row of `loss`.
    pub fn loss(&mut self, row: Loss) {
        let table = &mut self.losses;
        table.cpu.push_option(row.cpu);
        table.start_ns.push_option(row.start_ns);
        table.end_ns.push_option(row.end_ns);
        table.events.push_option(row.events);
        table.signalled_by.push(Some(row.signalled_by));
        self.rows += 1;
    }

    /// The tables that have rows.
    pub fn finish(self, batcher: &Batcher, pools: &Pools) -> Result<Batches, ArrowError> {
        let mut batches = Batches::new();
        let mut add = |table: &'static str, columns: Vec<Named>| -> Result<(), ArrowError> {
            let rows = columns.first().map_or(0, |(_, array)| array.len());
            if rows > 0 {
                batches.push((table, batcher.batch(table, rows, columns)?));
            }
            Ok(())
        };
        add("context_switch", self.switches.columns(pools)?)?;
        add("wakeup", self.wakeups.columns(pools)?)?;
        add("migration", self.migrations.columns()?)?;
        add("sched_yield", self.yields.columns()?)?;
        add("affinity_change", self.affinity_calls.columns()?)?;
        add("wait_event", self.wait_events.columns()?)?;
        add("interrupt_slice", self.interrupts.in_order().columns()?)?;
        add("cpu_idle", self.idles.columns()?)?;
        add("cpu_frequency", self.frequencies.columns()?)?;
        add("counter_sample", self.counters.columns()?)?;
        add("priority_change", self.priorities.columns()?)?;
        add("loss", self.losses.columns()?)?;
        add("sample", self.samples.columns()?)?;
        Ok(batches)
    }
}

impl<S: Busy, W: Busy> Default for Tables<S, W> {
    fn default() -> Self {
        Self::new(&Pools::default())
    }
}
