//! Rows that only Windows records: interrupts recorded at their end, parking, presents, changes to
//! a thread's CPUs and QoS class.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, ListArray};
use arrow_schema::ArrowError;
use schedlens_schedule::batcher::Batcher;
use schedlens_schedule::chunk::Batches;
use schedlens_schedule::columns::{Column, Words, texts};
use schedlens_schedule::tables::Moment;

/// Words of `interrupt_slice.kind` and the matching `name`.
pub(super) const INTERRUPTS: [(&str, Option<&str>); 6] = [
    ("dpc", None),
    ("dpc", Some("timer")),
    ("dpc", Some("threaded")),
    ("isr", None),
    ("isr", Some("message_signaled")),
    ("isr", Some("passive")),
];

/// A DPC or ISR.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interrupt {
    /// Its start, with the position of its record, which is written at the end.
    pub(super) at: Moment,
    pub(super) dur: i64,
    /// Index in [`INTERRUPTS`].
    pub(super) kind: u8,
}

/// A row of `cpu_parking`.
#[derive(Clone, Debug)]
pub(super) struct Parking {
    pub(super) ts: Option<i64>,
    pub(super) cpu: i32,
    pub(super) parked: Option<bool>,
    pub(super) soft_parked: Option<bool>,
    pub(super) reason: Option<String>,
}

/// A row of `frame`.
#[derive(Clone, Debug)]
pub(super) struct Presented {
    pub(super) frame: i64,
    pub(super) upid: i64,
    pub(super) utid: Option<i64>,
    pub(super) process: Option<String>,
    pub(super) start_ns: i64,
    pub(super) dur_ns: i64,
    pub(super) cpu_busy_ns: Option<i64>,
    pub(super) dialect: &'static str,
}

/// A row of `affinity_change`.
#[derive(Clone, Debug)]
pub(super) struct AffinityChange {
    pub(super) at: Moment,
    pub(super) utid: i64,
    pub(super) cpus: Vec<i32>,
    pub(super) setter: Option<i64>,
}

/// A row of `ideal_cpu_change` or `qos_change`: the number before, if known, and after.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) at: Moment,
    pub(super) utid: i64,
    pub(super) old: Option<u8>,
    pub(super) new: u8,
}

/// A row of `mark`.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) ts: i64,
    pub(super) name: String,
}

/// A row of `wait_event`.
#[derive(Clone, Debug)]
pub(super) struct WaitEvent {
    pub(super) at: Moment,
    pub(super) kind: &'static str,
    pub(super) utid: Option<i64>,
    pub(super) operation: Option<&'static str>,
    pub(super) request: Option<i64>,
    pub(super) device: Option<i64>,
    pub(super) sector: Option<i64>,
    pub(super) bytes: Option<i64>,
    pub(super) dur: Option<i64>,
    pub(super) address: Option<i64>,
    pub(super) file: Option<Arc<str>>,
}

impl WaitEvent {
    /// A row of which nothing else is known.
    pub(super) fn new(kind: &'static str, at: Moment) -> Self {
        Self {
            at,
            kind,
            utid: None,
            operation: None,
            request: None,
            device: None,
            sector: None,
            bytes: None,
            dur: None,
            address: None,
            file: None,
        }
    }
}

/// Rows of one chunk.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) interrupts: Vec<Interrupt>,
    pub(super) parking: Vec<Parking>,
    pub(super) presented: Vec<Presented>,
    pub(super) affinity: Vec<AffinityChange>,
    pub(super) ideal: Vec<Change>,
    pub(super) qos: Vec<Change>,
    pub(super) marks: Vec<Mark>,
    pub(super) waits: Vec<WaitEvent>,
}

fn longs(values: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    let mut column = Column::default();
    values.for_each(|value| column.push_option(value));
    column.array()
}

fn ints(values: impl Iterator<Item = Option<i32>>) -> ArrayRef {
    let mut column = Column::default();
    values.for_each(|value| column.push_option(value));
    column.array()
}

fn flags(values: impl Iterator<Item = Option<bool>>) -> ArrayRef {
    let mut column = Column::default();
    values.for_each(|value| column.push_option(value));
    column.array()
}

/// A column with lists of CPUs.
pub(super) fn cpu_lists<'a>(lists: impl Iterator<Item = &'a [i32]>) -> ArrayRef {
    let rows = lists.map(|list| Some(list.iter().copied().map(Some).collect::<Vec<_>>()));
    Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows))
}

impl Rows {
    /// Number of rows in all tables.
    pub(super) fn len(&self) -> usize {
        self.interrupts.len()
            + self.parking.len()
            + self.presented.len()
            + self.affinity.len()
            + self.ideal.len()
            + self.qos.len()
            + self.marks.len()
            + self.waits.len()
    }

    /// Appends the tables that have rows.
    pub(super) fn finish(
        mut self,
        batcher: &Batcher,
        batches: &mut Batches,
    ) -> Result<(), ArrowError> {
        let mut add = |table: &'static str, rows: usize, columns| -> Result<(), ArrowError> {
            if rows > 0 {
                batches.push((table, batcher.batch(table, rows, columns)?));
            }
            Ok(())
        };

        // They are recorded at their end, so they are not in start order.
        self.interrupts.sort_unstable_by_key(|row| (row.at.ts, row.at.cpu, row.at.seq));
        let rows = &self.interrupts;
        let (mut kind, mut name) = (Words::default(), Words::default());
        for row in rows {
            let (word, detail) = INTERRUPTS[usize::from(row.kind)];
            kind.push(Some(word));
            name.push(detail);
        }
        let columns = vec![
            ("ts", longs(rows.iter().map(|row| Some(row.at.ts)))),
            ("cpu", ints(rows.iter().map(|row| Some(row.at.cpu)))),
            ("seq", longs(rows.iter().map(|row| Some(row.at.seq)))),
            ("dur", longs(rows.iter().map(|row| Some(row.dur)))),
            ("kind", kind.array()?),
            ("name", name.array()?),
        ];
        add("interrupt_slice", rows.len(), columns)?;

        let rows = &self.parking;
        let columns = vec![
            ("ts", longs(rows.iter().map(|row| row.ts))),
            ("cpu", ints(rows.iter().map(|row| Some(row.cpu)))),
            ("parked", flags(rows.iter().map(|row| row.parked))),
            ("soft_parked", flags(rows.iter().map(|row| row.soft_parked))),
            ("reason", texts(rows.iter().map(|row| row.reason.as_deref()))),
        ];
        add("cpu_parking", rows.len(), columns)?;

        let rows = &self.presented;
        let columns = vec![
            ("frame", longs(rows.iter().map(|row| Some(row.frame)))),
            ("upid", longs(rows.iter().map(|row| Some(row.upid)))),
            ("utid", longs(rows.iter().map(|row| row.utid))),
            ("process", texts(rows.iter().map(|row| row.process.as_deref()))),
            ("start_ns", longs(rows.iter().map(|row| Some(row.start_ns)))),
            ("dur_ns", longs(rows.iter().map(|row| Some(row.dur_ns)))),
            ("cpu_busy_ns", longs(rows.iter().map(|row| row.cpu_busy_ns))),
            ("dialect", texts(rows.iter().map(|row| Some(row.dialect)))),
            ("clock_residual_ns", longs(rows.iter().map(|_| Some(0)))),
        ];
        add("frame", rows.len(), columns)?;

        let rows = &self.affinity;
        let columns = vec![
            ("ts", longs(rows.iter().map(|row| Some(row.at.ts)))),
            ("cpu", ints(rows.iter().map(|row| Some(row.at.cpu)))),
            ("utid", longs(rows.iter().map(|row| Some(row.utid)))),
            ("cpus", cpu_lists(rows.iter().map(|row| &*row.cpus))),
            ("setter_utid", longs(rows.iter().map(|row| row.setter))),
        ];
        add("affinity_change", rows.len(), columns)?;

        let rows = &self.ideal;
        let columns = vec![
            ("ts", longs(rows.iter().map(|row| Some(row.at.ts)))),
            ("cpu", ints(rows.iter().map(|row| Some(row.at.cpu)))),
            ("utid", longs(rows.iter().map(|row| Some(row.utid)))),
            ("ideal_cpu", ints(rows.iter().map(|row| Some(row.new.into())))),
        ];
        add("ideal_cpu_change", rows.len(), columns)?;

        let rows = &self.qos;
        let columns = vec![
            ("ts", longs(rows.iter().map(|row| Some(row.at.ts)))),
            ("cpu", ints(rows.iter().map(|row| Some(row.at.cpu)))),
            ("utid", longs(rows.iter().map(|row| Some(row.utid)))),
            ("old_qos", texts(rows.iter().map(|row| row.old.map(|old| old.to_string())))),
            ("new_qos", texts(rows.iter().map(|row| Some(row.new.to_string())))),
        ];
        add("qos_change", rows.len(), columns)?;

        let rows = &self.marks;
        let columns = vec![
            ("ts", longs(rows.iter().map(|row| Some(row.ts)))),
            ("dur", longs(rows.iter().map(|_| Some(0)))),
            ("name", texts(rows.iter().map(|row| Some(row.name.as_str())))),
            ("kind", texts(rows.iter().map(|_| Some("user")))),
        ];
        add("mark", rows.len(), columns)?;

        let rows = &self.waits;
        let mut kind = Words::default();
        rows.iter().for_each(|row| kind.push(Some(row.kind)));
        let columns = vec![
            ("ts", longs(rows.iter().map(|row| Some(row.at.ts)))),
            ("cpu", ints(rows.iter().map(|row| Some(row.at.cpu)))),
            ("seq", longs(rows.iter().map(|row| Some(row.at.seq)))),
            ("utid", longs(rows.iter().map(|row| row.utid))),
            ("kind", kind.array()?),
            ("device", longs(rows.iter().map(|row| row.device))),
            ("sector", longs(rows.iter().map(|row| row.sector))),
            ("bytes", longs(rows.iter().map(|row| row.bytes))),
            ("operation", texts(rows.iter().map(|row| row.operation))),
            ("request", longs(rows.iter().map(|row| row.request))),
            ("dur", longs(rows.iter().map(|row| row.dur))),
            ("address", longs(rows.iter().map(|row| row.address))),
            ("file", texts(rows.iter().map(|row| row.file.as_deref()))),
        ];
        add("wait_event", rows.len(), columns)
    }
}
