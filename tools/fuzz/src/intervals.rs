//! The passes over derived tables, with arbitrary rows in them.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Int8Array, Int32Array, Int64Array, RecordBatch, RecordBatchOptions,
};
use arrow_schema::{DataType, Field, Schema};
use schedlens_schedule::intervals::{
    Batches, Facts, Group, Inputs, Intervals, RunnableInputs, Window, critical_path, summarize,
};

use crate::bytes::Bytes;
use crate::{laws, show};

const TRACE: i64 = 3;
const MOST_ROWS: usize = 60;

/// How the values of a column are made.
#[derive(Clone, Copy)]
enum Made {
    /// A time: near the last one, and sorted by it.
    Time,
    /// The same, or NULL.
    MaybeTime,
    /// A length; seldom none or negative.
    Length,
    /// A small number, the id of a CPU, a core, or a thread.
    Small,
    /// The same, or NULL.
    MaybeSmall,
}

use Made::{Length, MaybeSmall, MaybeTime, Small, Time};

/// A column: its name, its type, and its values.
type Column = (&'static str, DataType, Made);

struct Maker<'a> {
    bytes: Bytes<'a>,
    now: i64,
}

impl Maker<'_> {
    fn value(&mut self, made: Made) -> Option<i64> {
        match made {
            Time => {
                self.now += i64::from(self.bytes.u8() >> 1);
                Some(self.now)
            }
            MaybeTime => match self.bytes.u8() {
                0..100 => None,
                any => Some(i64::from(any) * 20),
            },
            Length => Some(match self.bytes.u8() {
                0..4 => -5,
                240..250 => i64::MAX / 2,
                any => i64::from(any),
            }),
            Small => Some(match self.bytes.u8() {
                255 => -1,
                254 => 70_000,
                any => i64::from(any % 6),
            }),
            MaybeSmall => match self.bytes.u8() {
                0..40 => None,
                any => Some(i64::from(any % 6)),
            },
        }
    }

    /// Up to [`MOST_ROWS`] rows, in up to two batches.
    fn rows(&mut self, name: &str, columns: &[Column]) -> Batches {
        let count = usize::from(self.bytes.u8()) % MOST_ROWS;
        self.now = 0;
        let rows: Vec<Vec<Option<i64>>> = (0..count)
            .map(|_| columns.iter().map(|(_, _, made)| self.value(*made)).collect())
            .collect();
        let cut = usize::from(self.bytes.u8()) % (count + 1);
        let parts = [&rows[..cut], &rows[cut..]].map(|rows| batch(columns, rows));
        parts.iter().for_each(|part| show::rows(name, part));
        Box::new(parts.into_iter().map(Ok))
    }
}

fn batch(columns: &[Column], rows: &[Vec<Option<i64>>]) -> RecordBatch {
    let fields = columns.iter().map(|(name, kind, _)| Field::new(*name, kind.clone(), true));
    let arrays = columns.iter().enumerate().map(|(at, (_, kind, _))| -> ArrayRef {
        let cells = rows.iter().map(|row| row[at]);
        match kind {
            DataType::Int8 => Arc::new(cells.map(|v| Some(v? as i8)).collect::<Int8Array>()),
            DataType::Int32 => Arc::new(cells.map(|v| Some(v? as i32)).collect::<Int32Array>()),
            DataType::Boolean => {
                Arc::new(cells.map(|v| Some(v? & 1 == 1)).collect::<BooleanArray>())
            }
            _ => Arc::new(cells.collect::<Int64Array>()),
        }
    });
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(
        Arc::new(Schema::new(fields.collect::<Vec<_>>())),
        arrays.collect(),
        &options,
    )
    .expect("columns of one length")
}

const LONG: DataType = DataType::Int64;
const INT: DataType = DataType::Int32;
const TINY: DataType = DataType::Int8;
const FLAG: DataType = DataType::Boolean;

fn states(kind: Made) -> [Column; 5] {
    [
        ("ts", LONG, Time),
        ("dur", LONG, Length),
        ("cpu", INT, Small),
        ("state", TINY, kind),
        ("utid", LONG, MaybeSmall),
    ]
}

/// Makes tables and runs one of the passes.
pub fn target(data: &[u8]) {
    let mut make = Maker { bytes: Bytes(data), now: 0 };
    match make.bytes.u8() % 8 {
        0 => paths(make),
        1 => shares(make),
        kind => sweep(make, kind),
    }
}

fn sweep(mut make: Maker<'_>, kind: u8) {
    let first_ns = i64::from(make.bytes.u8());
    let end_ns = first_ns + i64::from(make.bytes.u16());
    let facts = Facts {
        trace_id: TRACE,
        first_ns,
        end_ns,
        parking_needed: kind & 1 == 1,
        by_tick: kind & 2 == 2,
        tick_ns: 1 + i64::from(make.bytes.u8()),
        yields_recorded: kind & 4 == 4,
        lossy: kind & 3 == 3,
    };
    let place = [
        ("cpu", INT, Small),
        ("core", INT, MaybeSmall),
        ("type_id", INT, MaybeSmall),
        ("band", TINY, Small),
        ("online", FLAG, MaybeSmall),
        ("valid_from_ns", LONG, MaybeTime),
    ];
    let allowed = [("utid", LONG, Small), ("valid_from_ns", LONG, MaybeTime), ("cpu", INT, Small)];
    let parked = [
        ("ts", LONG, MaybeTime),
        ("cpu", INT, Small),
        ("parked", FLAG, MaybeSmall),
        ("soft_parked", FLAG, MaybeSmall),
    ];
    let slices = [
        ("ts", LONG, Time),
        ("dur", LONG, Length),
        ("cpu", INT, Small),
        ("utid", LONG, Small),
        ("ready_from_ns", LONG, MaybeTime),
        ("ended", TINY, Small),
    ];
    let ready = [
        ("ts", LONG, Time),
        ("dur", LONG, Length),
        ("utid", LONG, Small),
        ("entered_cpu", INT, MaybeSmall),
        ("left_cpu", INT, MaybeSmall),
        ("cut", FLAG, Small),
        ("left_censored", FLAG, Small),
        ("rate_controlled", FLAG, Small),
        ("unseen", FLAG, Small),
    ];
    let throttled = [("utid", LONG, Small), ("unread", FLAG, Small)];
    let inputs = Inputs {
        cpu: make.rows("cpu", &place),
        affinity: make.rows("affinity", &allowed),
        seen: make.rows("seen", &[("utid", LONG, Small), ("cpu", INT, Small)]),
        parking: make.rows("parking", &parked),
        throttled: make.rows("throttled", &throttled),
        short_idle: make.rows("short_idle", &[("ts", LONG, Time), ("dur", LONG, Length)]),
        not_running: make.rows("not_running", &states(Small)),
        slices: make.rows("slices", &slices),
        cpu_state: make.rows("cpu_state", &states(Small)),
        ready: make.rows("ready", &ready),
    };
    let mut covered = first_ns;
    for output in Intervals::new(facts, inputs).expect("inputs in order") {
        let output = output.expect("inputs in order");
        show::rows(output.table, &output.batch);
        for row in 0..output.batch.num_rows() {
            let number = |name: &str| laws::number(&output.batch, name, row).expect(name);
            let (ts, dur) = (number("ts"), number("dur"));
            assert!(dur >= 0, "{}: a length of {dur}", output.table);
            // A chain and a ready period may be longer than the window.
            if matches!(output.table, "quantum_chain" | "ready_slice") {
                continue;
            }
            let end = ts + dur;
            let within = first_ns <= ts && end <= end_ns;
            assert!(within, "{} from {ts} to {end}, not {first_ns} to {end_ns}", output.table);
            if output.table == "concurrency_slice" {
                assert_eq!(ts, covered, "the rows of concurrency_slice follow each other");
                covered = end;
            }
        }
    }
    assert_eq!(covered, end_ns, "concurrency_slice covers the window");
}

fn paths(mut make: Maker<'_>) {
    let frames = [
        ("upid", LONG, Small),
        ("frame", LONG, Small),
        ("utid", LONG, Small),
        ("start_ns", LONG, Time),
        ("end_ns", LONG, Time),
    ];
    let states = [
        ("utid", LONG, Small),
        ("ts", LONG, Time),
        ("dur", LONG, Length),
        ("state", TINY, Small),
        ("waker_utid", LONG, MaybeSmall),
    ];
    let (frames, states) = (make.rows("frames", &frames), make.rows("states", &states));
    let Some(found) = critical_path(TRACE, frames, states).expect("inputs in order") else {
        return;
    };
    show::rows(found.table, &found.batch);
    for row in 0..found.batch.num_rows() {
        let dur = laws::number(&found.batch, "dur", row).expect("dur");
        assert!(dur >= 0, "a hop of {dur}");
    }
}

fn shares(mut make: Maker<'_>) {
    let start_ns = i64::from(make.bytes.u8());
    let end_ns = start_ns + i64::from(make.bytes.u16());
    let window = Window { trace_id: TRACE, start_ns, end_ns };
    let cpus = i64::from(make.bytes.u8() % 5);
    let sharing = (0..make.bytes.u8() % 5).map(|_| Group {
        parent: usize::from(make.bytes.u8() % 5),
        weight: f64::from(make.bytes.u8()),
    });
    let sharing = sharing.collect();
    let weights = [
        ("utid", LONG, Small),
        ("weight", INT, Small),
        ("is_unclear", FLAG, Small),
        ("group", INT, Small),
    ];
    let runnable = [
        ("ts", LONG, Time),
        ("dur", LONG, Length),
        ("utid", LONG, Small),
        ("is_ready", FLAG, Small),
    ];
    let groups = [("utid", LONG, Small), ("pool", LONG, Small), ("process", LONG, Small)];
    let inputs = RunnableInputs {
        sharing,
        weights: make.rows("weights", &weights),
        groups: make.rows("groups", &groups),
        runnable: make.rows("runnable", &runnable),
    };
    for found in summarize(window, Some(cpus), inputs).expect("inputs in order") {
        show::rows(found.table, &found.batch);
        if found.table != "fair_share_sum" {
            continue;
        }
        for row in 0..found.batch.num_rows() {
            let number = |column: &str| laws::number(&found.batch, column, row);
            let [run, ready, crowded] = ["run_ns", "ready_ns", "crowded_ready_ns"]
                .map(|column| number(column).expect(column));
            assert!((0..=ready).contains(&crowded), "crowded {crowded} of {ready}");
            let fair = number("fair_ready_ns");
            assert_eq!(fair.is_some(), number("weight").is_some(), "fair without a weight");
            let fair = fair.unwrap_or_default();
            assert!((0..=run + ready).contains(&fair), "fair {fair} of {run} and {ready}");
        }
    }
}
