//! The state machine with arbitrary base tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::types::UInt8Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray,
    UInt8Array,
};
use arrow_schema::DataType;
use schedlens_schedule::chunk::{Chunk, Output};
use schedlens_schedule::schema;
use schedlens_schedule::states::{End, Settings, Source, StateMachine};

use crate::bytes::Bytes;
use crate::{laws, show};

const TRACE: i64 = 7;
const BASE: i64 = TRACE << 32;
const MOST_EVENTS: usize = 400;
/// Times remain far from the limits of their type, so that sums of them are exact.
const FARTHEST: i64 = 1 << 60;

const KINDS: [&str; 4] = ["waking", "wakeup", "wakeup_new", "ready"];
const SOURCES: [&str; 2] = ["switch", "switch_event"];

#[derive(Clone, Copy)]
enum Cell {
    Long(Option<i64>),
    Word(&'static str),
}

type Row = Vec<(&'static str, Cell)>;

fn long(value: i64) -> Cell {
    Cell::Long(Some(value))
}

/// A batch of a declared table; columns that a row lacks are NULL.
fn batch(table: &str, rows: &[Row]) -> RecordBatch {
    let declared = schema::table(table).expect(table);
    let columns = declared.fields().iter().map(|field| -> ArrayRef {
        let cell = |row: &Row| row.iter().find(|(name, _)| name == field.name()).map(|(_, c)| *c);
        let number = |row: &Row| match cell(row) {
            _ if field.name() == "trace_id" => Some(TRACE),
            Some(Cell::Long(value)) => value,
            _ => None,
        };
        let text = |row: &Row| match cell(row) {
            Some(Cell::Word(word)) => Some(word),
            _ => None,
        };
        match field.data_type() {
            DataType::Int64 => Arc::new(rows.iter().map(number).collect::<Int64Array>()),
            DataType::Int32 => {
                let all = rows.iter().map(|row| number(row).map(|value| value as i32));
                Arc::new(all.collect::<Int32Array>())
            }
            DataType::Boolean => {
                let all = rows.iter().map(|row| number(row).map(|value| value & 1 == 1));
                Arc::new(all.collect::<BooleanArray>())
            }
            DataType::Utf8 => Arc::new(rows.iter().map(text).collect::<StringArray>()),
            DataType::Dictionary(..) => {
                let mut words: Vec<&str> = rows.iter().filter_map(text).collect();
                words.sort_unstable();
                words.dedup();
                let place = |row: &Row| words.binary_search(&text(row)?).ok();
                let keys: UInt8Array =
                    rows.iter().map(|row| place(row).map(|place| place as u8)).collect();
                let values = Arc::new(StringArray::from(words));
                Arc::new(DictionaryArray::<UInt8Type>::new(keys, values))
            }
            other => panic!("{table}.{}: {other}", field.name()),
        }
    });
    let columns = columns.collect();
    let rows = RecordBatch::try_new(declared, columns).expect(table);
    show::rows(table, &rows);
    rows
}

/// Rows of the base tables, made from the fuzzer's bytes.
struct Script<'a> {
    bytes: Bytes<'a>,
    now: i64,
    seq: i64,
    cpus: u8,
    /// Times never step back, and all ids are of this recording.
    is_sound: bool,
    /// Earliest and latest time so far.
    window: Option<(i64, i64)>,
    tables: BTreeMap<&'static str, Vec<Row>>,
}

impl Script<'_> {
    fn cover(&mut self, ts: i64) -> i64 {
        let (first, last) = self.window.unwrap_or((ts, ts));
        self.window = Some((first.min(ts), last.max(ts)));
        ts
    }

    /// A time after the last one; seldom the same, long after, or before it.
    fn time(&mut self) -> i64 {
        let step = i64::from(self.bytes.u8());
        self.now += match step {
            0..200 => step,
            200..230 => (step - 199) * 1_000_000,
            _ if self.is_sound => 0,
            230..240 => -(step - 229) * 7,
            240..250 => -(step - 239) * 5_000_000,
            _ => 0,
        };
        self.now = self.now.clamp(-FARTHEST, FARTHEST);
        self.cover(self.now)
    }

    fn cpu(&mut self) -> i64 {
        match self.bytes.u8() {
            255 => -1,
            254 => 1 << 16,
            any => i64::from(any % self.cpus),
        }
    }

    /// A thread, seldom none or one of another recording.
    fn thread(&mut self) -> Cell {
        match self.bytes.u8() {
            255 => Cell::Long(None),
            254 if !self.is_sound => long(12),
            any => long(BASE + i64::from(any % 12)),
        }
    }

    fn option(&mut self) -> Cell {
        match self.bytes.u8() {
            255 => Cell::Long(None),
            any => long(any.into()),
        }
    }

    fn row(&mut self, table: &'static str, cells: Row) {
        self.tables.entry(table).or_default().push(cells);
    }

    /// A record of a CPU: its first columns.
    fn placed(&mut self) -> Row {
        self.seq += 1;
        vec![("ts", long(self.time())), ("cpu", long(self.cpu())), ("seq", long(self.seq))]
    }

    fn event(&mut self, kind: u8) {
        match kind % 16 {
            0..6 => {
                let mut row = self.placed();
                row.push(("prev_utid", self.thread()));
                row.push(("next_utid", self.thread()));
                row.push(("prev_state", self.state()));
                row.push(("prev_wait_reason", self.option()));
                row.push(("prev_preempted", self.flag()));
                row.push(("source", Cell::Word(SOURCES[usize::from(kind >> 7)])));
                self.row("context_switch", row);
            }
            6..10 => {
                let mut row = self.placed();
                row.push(("utid", self.thread()));
                row.push(("waker_utid", self.thread()));
                row.push(("kind", Cell::Word(KINDS[usize::from(kind >> 6)])));
                row.push(("prev_cpu", long(self.cpu())));
                row.push(("target_cpu", long(self.cpu())));
                self.row("wakeup", row);
            }
            10 => {
                let mut row = self.placed();
                row.push(("utid", self.thread()));
                row.push(("orig_cpu", long(0)));
                row.push(("dest_cpu", long(self.cpu())));
                self.row("migration", row);
            }
            11 => {
                let mut row = self.placed();
                row.push(("utid", self.thread()));
                self.row("sched_yield", row);
            }
            12 => {
                let mut row = self.placed();
                row.push(("dur", long(i64::from(self.bytes.u16()) - 100)));
                row.push(("kind", Cell::Word("irq")));
                self.row("interrupt_slice", row);
            }
            13 => {
                let mut row = self.placed();
                row.push(("dur", long(i64::from(self.bytes.u16()) - 100)));
                row.push(("state", long(1)));
                self.row("cpu_idle", row);
            }
            14 => {
                let mut row = self.placed();
                row.push(("utid", self.thread()));
                row.push(("counter", Cell::Word("cycles")));
                row.push(("value", long(i64::from(self.bytes.u16()) * 1_000)));
                self.row("counter_sample", row);
            }
            _ => self.lost(),
        }
    }

    /// Lost records: from before or after the last time, to some time after that; either unknown.
    fn lost(&mut self) {
        let start = self.now.saturating_add(i64::from(self.bytes.u8()) - 100);
        let end = start.saturating_add(i64::from(self.bytes.u8()) - 20);
        let unknown = self.bytes.u8();
        let (start, end) = (self.cover(start), self.cover(end));
        let mut row = vec![("cpu", long(self.cpu())), ("signalled_by", Cell::Word("damaged"))];
        if unknown & 3 != 3 {
            row.push(("start_ns", long(start)));
        }
        if unknown & 12 != 12 {
            row.push(("end_ns", long(end.max(start))));
        }
        self.row("loss", row);
    }

    fn state(&mut self) -> Cell {
        match self.bytes.u8() {
            255 => Cell::Long(None),
            254 => long(0x100),
            any => long((any & 0x3f).into()),
        }
    }

    fn flag(&mut self) -> Cell {
        match self.bytes.u8() % 3 {
            0 => Cell::Long(None),
            other => long((other - 1).into()),
        }
    }

    fn chunk(&mut self, until_ns: i64) -> Chunk {
        let tables = std::mem::take(&mut self.tables);
        let batches = tables.iter().map(|(table, rows)| (*table, batch(table, rows))).collect();
        Chunk { batches, until_ns }
    }

    /// Threads; the first ones are the idle threads of the CPUs.
    fn threads(&mut self) -> Vec<Row> {
        let idle = (0..i64::from(self.cpus))
            .map(|cpu| vec![("utid", long(BASE + cpu)), ("tid", long(0)), ("is_idle", long(1))]);
        let mut rows: Vec<Row> = idle.collect();
        for number in i64::from(self.cpus)..i64::from(self.cpus + self.bytes.u8() % 8) {
            let known = self.bytes.u8();
            let mut row =
                vec![("utid", long(BASE + number)), ("tid", long(number)), ("is_idle", long(0))];
            let start = i64::from(self.bytes.u16());
            let end = start + i64::from(self.bytes.u16());
            if known & 1 != 0 {
                row.push(("start_ns", long(self.cover(start))));
            }
            if known & 2 != 0 {
                row.push(("end_ns", long(self.cover(end))));
            }
            rows.push(row);
        }
        rows
    }
}

/// A table without rows.
pub fn no_rows(table: &str) -> RecordBatch {
    batch(table, &[])
}

/// Base tables whose rows are in time order, and the first and the last time.
pub fn base_tables(data: &[u8]) -> (BTreeMap<&'static str, RecordBatch>, (i64, i64)) {
    let mut bytes = Bytes(data);
    let cpus = bytes.u8() % 4 + 1;
    let tables = BTreeMap::new();
    let mut script =
        Script { bytes, now: 0, seq: 0, cpus, is_sound: true, window: Some((0, 0)), tables };
    let threads = script.threads();
    let places = (0..cpus).map(|cpu| vec![("cpu", long(cpu.into())), ("online", long(1))]);
    let mut events = 0;
    while !script.bytes.is_empty() && events < MOST_EVENTS {
        let kind = script.bytes.u8();
        script.event(kind);
        events += 1;
    }
    script.tables.insert("thread", threads);
    script.tables.insert("cpu", places.collect());
    let batches = script.tables.iter().map(|(table, rows)| (*table, batch(table, rows)));
    (batches.collect(), script.window.unwrap_or_default())
}

/// Builds tables, runs them through the machine, and checks what it returns.
pub fn target(data: &[u8]) {
    let mut bytes = Bytes(data);
    let (kind, cpus) = (bytes.u8(), bytes.u8() % 4 + 1);
    let tables = BTreeMap::new();
    let mut script = Script { bytes, now: 0, seq: 0, cpus, is_sound: false, window: None, tables };
    let source = [Source::Perf, Source::Etw, Source::Perfetto][usize::from(kind % 3)];
    let mut machine = StateMachine::new(Settings {
        trace_id: TRACE,
        source,
        tick_ns: (kind & 4 == 0).then_some(1_000),
        yields_recorded: kind & 8 == 0,
        has_wakings: kind & 16 == 0,
        of_chosen_threads: (kind & 32 != 0).then_some(kind & 64 != 0),
    });
    let threads = script.threads();
    let mut cpu_rows: Vec<Row> = Vec::new();
    for cpu in 0..cpus {
        cpu_rows.push(vec![("cpu", long(cpu.into())), ("online", long(1))]);
        if script.bytes.u8() == 1 {
            let from = i64::from(script.bytes.u16());
            let from = script.cover(from);
            let row =
                vec![("cpu", long(cpu.into())), ("online", long(0)), ("valid_from_ns", long(from))];
            cpu_rows.push(row);
        }
    }
    let mut outputs: Vec<Output> = Vec::new();
    if kind & 32 == 0 {
        script.tables.insert("thread", threads.clone());
    }
    let mut events = 0;
    while !script.bytes.is_empty() && events < MOST_EVENTS {
        let kind = script.bytes.u8();
        if kind == 0xff {
            let chunk = script.chunk(script.now);
            outputs.extend(machine.push(&chunk).expect("declared tables"));
        } else {
            script.event(kind);
        }
        events += 1;
    }
    let chunk = script.chunk(i64::MAX);
    outputs.extend(machine.push(&chunk).expect("declared tables"));
    let window = script.window.unwrap_or_default();
    let end = End {
        first_ns: window.0,
        last_ns: window.1,
        threads: batch("thread", &threads),
        cpus: batch("cpu", &cpu_rows),
        snapshot_thread: None,
    };
    outputs.extend(machine.finish(&end).expect("declared tables"));
    outputs.iter().for_each(|output| show::rows(output.table, &output.batch));
    laws::check(&outputs, window);
}
