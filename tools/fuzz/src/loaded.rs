//! A recording through the driver's steps: base tables, the state machine, and the checks of both.

use std::collections::HashMap;

use arrow_array::RecordBatch;
use schedlens_loader::error::DecodeError;
use schedlens_loader::reader::{Finished, Reader, TraceFacts};
use schedlens_loader::tables::Folder;
use schedlens_schedule::batcher::Batcher;
use schedlens_schedule::chunk::Output;
use schedlens_schedule::states::{End, Settings, StateMachine};

use crate::{laws, show};

const TRACE: i64 = 1;
const TICK_NS: i64 = 4_000_000;
/// Tables that the state machine emits itself.
const THROUGH_THE_MACHINE: [&str; 4] = ["context_switch", "wakeup", "loss", "thread"];

/// Loads a recording and checks all rows; a reader of one file must not fail.
pub fn check(recording: &dyn Reader) {
    let (outputs, threads, window) = read(recording).expect("rows");
    let Some(window) = window else { return };
    lives(&threads, window);
    times(&outputs, window);
    laws::check(&outputs, window);
}

/// Loads a folder of tables, which may be refused, and checks the derived rows. Its other rows are
/// those of the files, which may contradict the window that the manifest states.
pub fn check_folder(folder: &Folder) -> Result<(), DecodeError> {
    let (mut outputs, _, window) = read(folder)?;
    outputs.retain(|output| output.table != "loss");
    laws::check(&outputs, window.expect("a folder states its window"));
    Ok(())
}

/// The rows of all tables, those of `thread`, and the first and the last time.
type Rows = (Vec<Output>, RecordBatch, Option<(i64, i64)>);

fn read(recording: &dyn Reader) -> Result<Rows, DecodeError> {
    let batcher = Batcher::new(TRACE);
    let mut machine = StateMachine::new(Settings {
        trace_id: TRACE,
        source: recording.source(),
        tick_ns: Some(TICK_NS),
        yields_recorded: recording.has_yields(),
        has_wakings: recording.has_wakings(),
        of_chosen_threads: recording.of_chosen_threads(),
    });
    let mut outputs = Vec::new();
    let mut chunks = recording.chunks(&batcher, TRACE, HashMap::new());
    while let Some(chunk) = chunks.next_chunk(&mut |_| true)? {
        outputs.extend(machine.push(&chunk).expect("declared tables"));
        for (table, batch) in chunk.batches {
            if !THROUGH_THE_MACHINE.contains(&table) {
                outputs.push(Output { table, batch });
            }
        }
    }
    let finished = chunks.finish()?;
    let window = (finished.first_ns.unwrap_or_default(), finished.last_ns.unwrap_or_default());
    let facts = TraceFacts {
        label: "fuzz",
        path: "fuzz",
        window: (finished.first_ns, finished.last_ns),
        events_lost: finished.events_lost,
    };
    recording.trace_batch(&batcher, facts).expect("a row of trace");
    let end = End {
        first_ns: window.0,
        last_ns: window.1,
        threads: table(&finished, "thread"),
        cpus: recording.cpu_batch(&batcher)?,
        snapshot_thread: None,
    };
    outputs.extend(machine.finish(&end).expect("declared tables"));
    show::rows("thread", &end.threads);
    finished.batches.iter().for_each(|(table, batch)| show::rows(table, batch));
    outputs.iter().for_each(|output| show::rows(output.table, &output.batch));
    Ok((outputs, end.threads, finished.first_ns.map(|_| window)))
}

fn table(finished: &Finished, name: &str) -> RecordBatch {
    let found = finished.batches.iter().find(|(table, _)| *table == name);
    found.map(|(_, batch)| batch.clone()).expect(name)
}

/// Threads start and end within the recording, and no thread ends before it starts.
fn lives(threads: &RecordBatch, (first, last): (i64, i64)) {
    for row in 0..threads.num_rows() {
        let start = laws::number(threads, "start_ns", row);
        let end = laws::number(threads, "end_ns", row);
        for time in [start, end].into_iter().flatten() {
            assert!((first..=last).contains(&time), "a life at {time}, not {first} to {last}");
        }
        if let (Some(start), Some(end)) = (start, end) {
            assert!(start <= end, "a life from {start} to {end}");
        }
    }
}

/// Rows of all base tables are within the recording.
fn times(outputs: &[Output], (first, last): (i64, i64)) {
    for Output { table, batch } in outputs {
        let derived =
            matches!(*table, "thread_state_other" | "cpu_state_other" | "sched_slice" | "frame");
        if derived || batch.column_by_name("ts").is_none() {
            continue;
        }
        for row in 0..batch.num_rows() {
            if let Some(ts) = laws::number(batch, "ts", row) {
                assert!((first..=last).contains(&ts), "{table} at {ts}, not {first} to {last}");
            }
        }
    }
}
