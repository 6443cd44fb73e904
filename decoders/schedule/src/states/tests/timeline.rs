//! Timelines built by code.

use std::sync::Arc;

use arrow_array::types::UInt8Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray,
    UInt8Array,
};
use arrow_schema::DataType;

use super::super::{End, Settings, Source, StateMachine};
use super::answer::Answer;
use crate::chunk::{Chunk, Output};
use crate::schema;

/// Trace id of all timelines.
pub(crate) const TRACE: i64 = 7;

/// The utid of a thread of a timeline.
pub(crate) fn utid(thread: i64) -> i64 {
    (TRACE << 32) + thread
}

/// A value of a row of a timeline.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Long(i64),
    Bool(bool),
    Text(&'static str),
}

/// A row: columns by name; columns not named are NULL.
pub(crate) type Row = Vec<(&'static str, Value)>;

/// What a recorder would have seen. Threads 0 to 9 are the idle threads of CPUs 0 to 9.
#[derive(Clone)]
pub(crate) struct Timeline {
    pub(crate) settings: Settings,
    pub(crate) tables: Vec<(&'static str, Row)>,
    pub(crate) threads: Vec<Row>,
    pub(crate) cpus: Vec<Row>,
    pub(crate) snapshot: Vec<Row>,
    pub(crate) first: i64,
    pub(crate) last: i64,
    seq: i64,
}

/// A record batch of a declared table.
pub(crate) fn batch(table: &str, rows: &[Row]) -> RecordBatch {
    let schema = schema::table(table).expect("declared");
    let columns = schema
        .fields()
        .iter()
        .map(|field| {
            let cell = |row: &Row| {
                row.iter().find(|(name, _)| name == field.name()).map(|(_, value)| value.clone())
            };
            let long = |row: &Row| match cell(row) {
                _ if field.name() == "trace_id" => Some(TRACE),
                Some(Value::Long(value)) => Some(value),
                _ => None,
            };
            let text = |row: &Row| match cell(row) {
                Some(Value::Text(text)) => Some(text),
                _ => None,
            };
            let column: ArrayRef = match field.data_type() {
                DataType::Int64 => Arc::new(rows.iter().map(long).collect::<Int64Array>()),
                DataType::Int32 => Arc::new(
                    rows.iter()
                        .map(|row| long(row).map(|value| value as i32))
                        .collect::<Int32Array>(),
                ),
                DataType::Boolean => Arc::new(
                    rows.iter()
                        .map(|row| match cell(row) {
                            Some(Value::Bool(value)) => Some(value),
                            _ => None,
                        })
                        .collect::<BooleanArray>(),
                ),
                DataType::Utf8 => Arc::new(rows.iter().map(text).collect::<StringArray>()),
                DataType::Dictionary(..) => {
                    let words: Vec<&str> = {
                        let mut words: Vec<&str> = rows.iter().filter_map(text).collect();
                        words.sort_unstable();
                        words.dedup();
                        words
                    };
                    let keys: UInt8Array = rows
                        .iter()
                        .map(|row| text(row).and_then(|t| words.binary_search(&t).ok()))
                        .map(|place| place.map(|place| place as u8))
                        .collect();
                    let values = Arc::new(StringArray::from(words));
                    Arc::new(DictionaryArray::<UInt8Type>::new(keys, values))
                }
                other => panic!("{table}.{}: {other}", field.name()),
            };
            column
        })
        .collect();
    RecordBatch::try_new(schema, columns).expect(table)
}

impl Timeline {
    /// A Linux recording with these CPUs, from 0 to `last`; wakeups, no yields, a tick of 100.
    pub(crate) fn linux(cpus: i32, last: i64) -> Self {
        let settings = Settings {
            trace_id: TRACE,
            source: Source::Perf,
            tick_ns: Some(100),
            yields_recorded: false,
            has_wakings: true,
            of_chosen_threads: None,
        };
        let mut timeline = Self {
            settings,
            tables: Vec::new(),
            threads: Vec::new(),
            cpus: Vec::new(),
            snapshot: Vec::new(),
            first: 0,
            last,
            seq: 0,
        };
        for cpu in 0..cpus {
            let number = i64::from(cpu);
            timeline.threads.push(vec![
                ("utid", Value::Long(utid(number))),
                ("tid", Value::Long(0)),
                ("is_idle", Value::Bool(true)),
            ]);
            timeline.cpus.push(vec![("cpu", Value::Long(number)), ("online", Value::Bool(true))]);
        }
        timeline
    }

    /// The same for Windows.
    pub(crate) fn windows(cpus: i32, last: i64) -> Self {
        let mut timeline = Self::linux(cpus, last);
        timeline.settings.source = Source::Etw;
        timeline.settings.tick_ns = None;
        timeline
    }

    /// A thread that existed when the recording began.
    pub(crate) fn thread(self, thread: i64) -> Self {
        self.life(thread, None, None)
    }

    /// A thread with a start or an end.
    pub(crate) fn life(mut self, thread: i64, start: Option<i64>, end: Option<i64>) -> Self {
        let mut row = vec![
            ("utid", Value::Long(utid(thread))),
            ("tid", Value::Long(thread)),
            ("is_idle", Value::Bool(false)),
        ];
        row.extend(start.map(|start| ("start_ns", Value::Long(start))));
        row.extend(end.map(|end| ("end_ns", Value::Long(end))));
        self.threads.push(row);
        self
    }

    /// Any row; `cpu` and `ts` are among its columns.
    pub(crate) fn row(mut self, table: &'static str, row: Row) -> Self {
        self.tables.push((table, row));
        self
    }

    fn next(&mut self) -> Value {
        self.seq += 1;
        Value::Long(self.seq)
    }

    /// `sched_switch`.
    pub(crate) fn switch(mut self, ts: i64, cpu: i64, prev: i64, next: i64, state: i64) -> Self {
        let seq = self.next();
        self.row(
            "context_switch",
            vec![
                ("ts", Value::Long(ts)),
                ("cpu", Value::Long(cpu)),
                ("seq", seq),
                ("prev_utid", Value::Long(utid(prev))),
                ("next_utid", Value::Long(utid(next))),
                ("prev_state", Value::Long(state)),
                ("prev_priority", Value::Long(100 + prev)),
                ("next_priority", Value::Long(100 + next)),
                ("source", Value::Text("switch")),
            ],
        )
    }

    /// A pair of `PERF_RECORD_SWITCH`.
    pub(crate) fn event(
        mut self,
        ts: i64,
        cpu: i64,
        prev: Option<i64>,
        next: Option<i64>,
        preempted: bool,
    ) -> Self {
        let seq = self.next();
        let mut row = vec![
            ("ts", Value::Long(ts)),
            ("cpu", Value::Long(cpu)),
            ("seq", seq),
            ("prev_preempted", Value::Bool(preempted)),
            ("source", Value::Text("switch_event")),
        ];
        row.extend(prev.map(|prev| ("prev_utid", Value::Long(utid(prev)))));
        row.extend(next.map(|next| ("next_utid", Value::Long(utid(next)))));
        self.row("context_switch", row)
    }

    /// CSwitch.
    pub(crate) fn cswitch(
        mut self,
        ts: i64,
        cpu: i64,
        (prev, next): (i64, i64),
        (state, reason): (i64, i64),
    ) -> Self {
        let seq = self.next();
        self.row(
            "context_switch",
            vec![
                ("ts", Value::Long(ts)),
                ("cpu", Value::Long(cpu)),
                ("seq", seq),
                ("prev_utid", Value::Long(utid(prev))),
                ("next_utid", Value::Long(utid(next))),
                ("prev_state", Value::Long(state)),
                ("prev_wait_reason", Value::Long(reason)),
                ("prev_priority", Value::Long(8)),
                ("next_priority", Value::Long(9)),
                ("source", Value::Text("switch")),
            ],
        )
    }

    /// A wakeup: `kind`, written on `cpu` by `waker`; the thread was last on CPU 0.
    pub(crate) fn wake(
        mut self,
        ts: i64,
        cpu: i64,
        kind: &'static str,
        thread: i64,
        waker: i64,
    ) -> Self {
        let seq = self.next();
        let mut row = vec![
            ("ts", Value::Long(ts)),
            ("cpu", Value::Long(cpu)),
            ("seq", seq),
            ("utid", Value::Long(utid(thread))),
            ("waker_utid", Value::Long(utid(waker))),
            ("kind", Value::Text(kind)),
        ];
        match kind {
            "waking" => row.push(("prev_cpu", Value::Long(0))),
            "wakeup" | "wakeup_new" => row.push(("target_cpu", Value::Long(1))),
            _ => {}
        }
        self.row("wakeup", row)
    }

    /// `sched_migrate_task`.
    pub(crate) fn migrate(mut self, ts: i64, cpu: i64, thread: i64, to: i64) -> Self {
        let seq = self.next();
        self.row(
            "migration",
            vec![
                ("ts", Value::Long(ts)),
                ("cpu", Value::Long(cpu)),
                ("seq", seq),
                ("utid", Value::Long(utid(thread))),
                ("orig_cpu", Value::Long(0)),
                ("dest_cpu", Value::Long(to)),
            ],
        )
    }

    /// `sched_yield`.
    pub(crate) fn yields(mut self, ts: i64, cpu: i64, thread: i64) -> Self {
        let seq = self.next();
        self.settings.yields_recorded = true;
        self.row(
            "sched_yield",
            vec![
                ("ts", Value::Long(ts)),
                ("cpu", Value::Long(cpu)),
                ("seq", seq),
                ("utid", Value::Long(utid(thread))),
            ],
        )
    }

    /// An interrupt.
    pub(crate) fn interrupt(mut self, ts: i64, cpu: i64, dur: i64) -> Self {
        let seq = self.next();
        self.row(
            "interrupt_slice",
            vec![
                ("ts", Value::Long(ts)),
                ("cpu", Value::Long(cpu)),
                ("seq", seq),
                ("dur", Value::Long(dur)),
                ("kind", Value::Text("softirq")),
            ],
        )
    }

    /// A reported gap.
    pub(crate) fn lost(self, cpu: i64, start: Option<i64>, end: Option<i64>) -> Self {
        let mut row = vec![
            ("cpu", Value::Long(cpu)),
            ("signalled_by", Value::Text("PERF_RECORD_LOST")),
            ("ts", Value::Long(end.unwrap_or(0))),
        ];
        row.extend(start.map(|start| ("start_ns", Value::Long(start))));
        row.extend(end.map(|end| ("end_ns", Value::Long(end))));
        self.row("loss", row)
    }

    /// A counter value read at a switch.
    pub(crate) fn count(self, ts: i64, cpu: i64, outgoing: i64, value: i64) -> Self {
        self.row(
            "counter_sample",
            vec![
                ("ts", Value::Long(ts)),
                ("cpu", Value::Long(cpu)),
                ("utid", Value::Long(utid(outgoing))),
                ("counter", Value::Text("cycles")),
                ("value", Value::Long(value)),
            ],
        )
    }

    /// A thread in both snapshots, on the same CPU.
    pub(crate) fn snapshots(
        mut self,
        thread: i64,
        cpu: i64,
        (begin, end): (i64, i64),
        grown: i64,
    ) -> Self {
        for (edge, ts, user) in [("begin", begin, 1000), ("end", end, 1000 + grown)] {
            self.snapshot.push(vec![
                ("ts", Value::Long(ts)),
                ("edge", Value::Text(edge)),
                ("utid", Value::Long(utid(thread))),
                ("tid", Value::Long(thread)),
                ("pid", Value::Long(thread)),
                ("cpu", Value::Long(cpu)),
                ("user_ns", Value::Long(user)),
                ("system_ns", Value::Long(0)),
            ]);
        }
        self
    }

    /// The answer to the timeline as one chunk.
    pub(crate) fn run(&self) -> Answer {
        self.run_cut(&[])
    }

    /// The answer when the chunks are cut before each of these times.
    pub(crate) fn run_cut(&self, cuts: &[i64]) -> Answer {
        let (machine, mut outputs) = self.push_cut(cuts);
        let end = End {
            first_ns: self.first,
            last_ns: self.last,
            threads: batch("thread", &self.threads),
            cpus: batch("cpu", &self.cpus),
            snapshot_thread: (!self.snapshot.is_empty())
                .then(|| batch("snapshot_thread", &self.snapshot)),
        };
        outputs.extend(machine.finish(&end).expect("finish"));
        Answer { outputs }
    }

    /// The machine that has taken all chunks, cut before each of these times, and what it gave.
    pub(crate) fn push_cut(&self, cuts: &[i64]) -> (StateMachine, Vec<Output>) {
        let mut machine = StateMachine::new(self.settings.clone());
        let mut outputs = Vec::new();
        let mut from = i64::MIN;
        for (place, until) in cuts.iter().copied().chain([i64::MAX]).enumerate() {
            let mut batches: Vec<(&'static str, RecordBatch)> = Vec::new();
            if place == 0 {
                batches.push(("thread", batch("thread", &self.threads)));
                let rows = self.tables.iter().filter(|(name, _)| *name == "loss");
                let losses: Vec<Row> = rows.map(|(_, row)| row.clone()).collect();
                if !losses.is_empty() {
                    batches.push(("loss", batch("loss", &losses)));
                }
            }
            for table in [
                "context_switch",
                "wakeup",
                "migration",
                "sched_yield",
                "interrupt_slice",
                "counter_sample",
                "cpu_idle",
            ] {
                let rows: Vec<Row> = self
                    .tables
                    .iter()
                    .filter(|(name, _)| *name == table)
                    .map(|(_, row)| row)
                    .filter(|row| (from..until).contains(&long(row, "ts")))
                    .cloned()
                    .collect();
                if !rows.is_empty() {
                    batches.push((table, batch(table, &rows)));
                }
            }
            let chunk = Chunk { batches, until_ns: until };
            outputs.extend(machine.push(&chunk).expect("push"));
            from = until;
        }
        (machine, outputs)
    }
}

/// A number in a row of a timeline.
pub(crate) fn long(row: &Row, column: &str) -> i64 {
    match row.iter().find(|(name, _)| *name == column) {
        Some((_, Value::Long(value))) => *value,
        _ => 0,
    }
}
