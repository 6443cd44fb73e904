//! Speed of the state machine: `cargo test --release -- --ignored speed --nocapture`.

use std::sync::Arc;
use std::time::Instant;

use arrow_array::types::UInt8Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray,
    UInt8Array,
};

use super::schedule::Dice;
use super::timeline::{TRACE, Timeline, batch, utid};
use crate::chunk::Chunk;
use crate::schema;
use crate::states::{End, StateMachine};

const CPUS: i64 = 4;
const THREADS: i64 = 200;
const FRAMES: i64 = 4;
const ROWS: usize = 1 << 20;

#[derive(Default)]
struct Columns {
    ts: Vec<i64>,
    cpu: Vec<i32>,
    seq: Vec<i64>,
    first: Vec<Option<i64>>,
    second: Vec<Option<i64>>,
    state: Vec<Option<i32>>,
}

fn words(rows: usize, word: &str) -> ArrayRef {
    let values = Arc::new(StringArray::from(vec![word.to_owned()]));
    Arc::new(DictionaryArray::<UInt8Type>::new(UInt8Array::from_value(0, rows), values))
}

fn table(name: &str, columns: &Columns, word: &str) -> RecordBatch {
    let schema = schema::table(name).expect("declared");
    let rows = columns.ts.len();
    let ints = |value: Option<i32>| -> ArrayRef {
        Arc::new((0..rows).map(|_| value).collect::<Int32Array>())
    };
    let arrays = schema
        .fields()
        .iter()
        .map(|field| -> ArrayRef {
            match field.name().as_str() {
                "trace_id" => Arc::new(Int64Array::from_value(TRACE, rows)),
                "ts" => Arc::new(Int64Array::from(columns.ts.clone())),
                "cpu" => Arc::new(Int32Array::from(columns.cpu.clone())),
                "seq" => Arc::new(Int64Array::from(columns.seq.clone())),
                "prev_utid" | "utid" => Arc::new(Int64Array::from(columns.first.clone())),
                "next_utid" | "waker_utid" => Arc::new(Int64Array::from(columns.second.clone())),
                "prev_state" => Arc::new(Int32Array::from(columns.state.clone())),
                "prev_priority" | "next_priority" => ints(Some(120)),
                "source" | "kind" => words(rows, word),
                "prev_preempted" | "in_interrupt" | "effective" => {
                    Arc::new((0..rows).map(|_| None::<bool>).collect::<BooleanArray>())
                }
                "prev_cpu" | "target_cpu" if name == "wakeup" => ints(Some(0)),
                _ => ints(None),
            }
        })
        .collect();
    RecordBatch::try_new(schema, arrays).expect(name)
}

/// CPU time of this thread in s; it excludes other programs.
fn on_cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = text.split(' ').next().and_then(|word| word.parse::<f64>().ok());
    ns.unwrap_or(f64::NAN) / 1e9
}

#[test]
#[ignore = "measures time"]
fn speed() {
    let mut dice = Dice::new(1);
    let mut timeline = Timeline::linux(CPUS as i32, 0);
    for thread in 10..10 + THREADS {
        timeline = timeline.thread(thread);
    }
    let mut off: Vec<(i64, bool)> = (10..10 + THREADS).map(|thread| (thread, true)).collect();
    let mut on: Vec<i64> = (0..CPUS).collect();
    let (mut ts, mut seq) = (0, 0);
    let mut chunks = Vec::new();
    for _ in 0..FRAMES {
        let (mut switches, mut wakings) = (Columns::default(), Columns::default());
        while switches.ts.len() < ROWS {
            ts += 100 + dice.roll(3000) as i64;
            seq += 2;
            let cpu = dice.roll(CPUS as u64) as usize;
            let outgoing = on[cpu];
            let place = dice.roll(off.len() as u64) as usize;
            let next = if outgoing >= 10 && dice.roll(3) == 0 {
                cpu as i64
            } else {
                let (thread, blocked) = off.swap_remove(place);
                if blocked {
                    wakings.ts.push(ts - 50);
                    wakings.cpu.push(cpu as i32);
                    wakings.seq.push(seq);
                    wakings.first.push(Some(utid(thread)));
                    wakings.second.push(Some(utid(outgoing)));
                }
                thread
            };
            let blocks = dice.roll(4) > 0;
            if outgoing >= 10 {
                off.push((outgoing, blocks));
            }
            on[cpu] = next;
            switches.ts.push(ts);
            switches.cpu.push(cpu as i32);
            switches.seq.push(seq + 1);
            switches.first.push(Some(utid(outgoing)));
            switches.second.push(Some(utid(next)));
            switches.state.push(Some(i32::from(outgoing >= 10 && blocks)));
        }
        let batches = vec![
            ("thread", batch("thread", &timeline.threads)),
            ("context_switch", table("context_switch", &switches, "switch")),
            ("wakeup", table("wakeup", &wakings, "waking")),
        ];
        chunks.push(Chunk { batches, until_ns: ts + 1 });
    }
    let (begin, on_cpu) = (Instant::now(), on_cpu_s());
    let mut machine = StateMachine::new(timeline.settings.clone());
    let mut rows = 0;
    for chunk in &chunks {
        rows +=
            machine.push(chunk).expect("push").iter().map(|o| o.batch.num_rows()).sum::<usize>();
    }
    let end = End {
        first_ns: 0,
        last_ns: ts,
        threads: batch("thread", &timeline.threads),
        cpus: batch("cpu", &timeline.cpus),
        snapshot_thread: None,
    };
    rows += machine.finish(&end).expect("finish").iter().map(|o| o.batch.num_rows()).sum::<usize>();
    let (seconds, on_cpu) = (begin.elapsed().as_secs_f64(), on_cpu_s() - on_cpu);
    let switches = FRAMES as f64 * ROWS as f64;
    let rate = switches / on_cpu / 1e6;
    println!(
        "{rate:.1} M switches per s on the CPU ({on_cpu:.3} s of {seconds:.3} s), {rows} rows"
    );
}
