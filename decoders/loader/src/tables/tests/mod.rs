//! Folders written by these tests: they give the rows of the recording that they were made from,
//! or are refused.

mod damage;
mod whole;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch};
use arrow_ipc::writer::FileWriter;
use arrow_schema::DataType;
use arrow_select::concat::concat_batches;
use schedlens_perf_data::Recording;
use schedlens_schedule::batcher::Batcher;
use schedlens_schedule::columns::{Column, Words, texts};
use schedlens_schedule::states::{End, Settings, Source, StateMachine};
use serde_json::json;

use super::chunks::Chunks;
use super::folder::Folder;
use super::texts::unpacked;
use crate::error::DecodeError;
use crate::reader::{ChunkSource, Reader};

/// Rows of each table, as texts in their order.
type Rows = BTreeMap<&'static str, Vec<String>>;
type Tables = BTreeMap<&'static str, RecordBatch>;

/// A recording of `fixtures/perf`, unpacked into a folder.
fn fixture(name: &str, home: &Path) -> PathBuf {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../../fixtures/perf/{name}.perf.data.xz"));
    let mut bytes = Vec::new();
    let mut packed = std::io::BufReader::new(File::open(packed).expect("fixture"));
    lzma_rs::xz_decompress(&mut packed, &mut bytes).expect("unpacked");
    let path = home.join(name);
    std::fs::write(&path, bytes).expect("written");
    path
}

/// All base tables of a recording, each as one batch.
fn base_tables(recording: &Recording) -> Tables {
    let batcher = Batcher::new(1);
    let mut chunks = recording.chunks(&batcher, 1, Default::default());
    let mut parts: BTreeMap<&'static str, Vec<RecordBatch>> = BTreeMap::new();
    while let Some(chunk) = chunks.next_chunk(&mut |_| true).expect("chunk") {
        for (table, rows) in chunk.batches.into_iter().filter(|(table, _)| *table != "thread") {
            parts.entry(table).or_default().push(rows);
        }
    }
    for (table, rows) in chunks.finish().expect("finished").batches {
        parts.entry(table).or_default().push(rows);
    }
    parts.insert("cpu", vec![recording.cpu_batch(&batcher).expect("cpus")]);
    parts
        .into_iter()
        .map(|(table, parts)| {
            (table, concat_batches(parts[0].schema_ref(), &parts).expect("one schema"))
        })
        .collect()
}

/// Writes one table's file.
fn write_table(folder: &Path, table: &str, rows: &RecordBatch, batch_rows: usize) {
    let file = File::create(folder.join(format!("{table}.arrow"))).expect("created");
    let mut writer = FileWriter::try_new(file, rows.schema_ref()).expect("begun");
    for start in (0..rows.num_rows()).step_by(batch_rows) {
        let count = batch_rows.min(rows.num_rows() - start);
        writer.write(&rows.slice(start, count)).expect("written");
    }
    writer.finish().expect("finished");
}

/// Writes a folder with batches of so many rows.
fn write_folder(folder: &Path, tables: &Tables, window: (i64, i64), batch_rows: usize) {
    std::fs::create_dir_all(folder).expect("created");
    for (table, rows) in tables {
        write_table(folder, table, rows, batch_rows);
    }
    let counts: BTreeMap<_, _> =
        tables.iter().map(|(table, rows)| (table, rows.num_rows())).collect();
    let manifest = json!({
        "format": "schedlens-tables", "format_version": 1, "source": "perf",
        "trace": {"first_ns": window.0, "duration_ns": window.1}, "tables": counts,
    });
    std::fs::write(folder.join("tables.json"), manifest.to_string()).expect("written");
}

/// A thread on CPU 0 that is switched in and out, one row per time.
fn small_tables(times: &[i64]) -> Tables {
    let batcher = Batcher::new(1);
    let longs = |values: Vec<i64>| {
        let mut column = Column::default();
        column.extend(&values);
        column.array()
    };
    let ints = |value: i32, count: usize| {
        let mut column = Column::default();
        column.extend(&vec![value; count]);
        column.array()
    };
    let mut is_idle = Column::default();
    [true, false].iter().for_each(|idle| is_idle.push(*idle));
    let mut sources = Words::default();
    times.iter().for_each(|_| sources.push(Some("switch")));
    let threads = (0..times.len() as i64).map(|row| (1 << 32) + row % 2);
    let others = threads.clone().map(|utid| (1 << 32) + ((utid + 1) & 1));
    let count = times.len();
    let switches = vec![
        ("ts", longs(times.to_vec())),
        ("cpu", ints(0, count)),
        ("seq", longs((0..count as i64).collect())),
        ("prev_utid", longs(threads.collect())),
        ("next_utid", longs(others.collect())),
        ("source", sources.array().expect("few words")),
    ];
    let threads = vec![
        ("utid", longs(vec![1 << 32, (1 << 32) + 1])),
        ("tid", longs(vec![0, 7])),
        ("name", texts([Some("swapper"), Some("game")].into_iter())),
        ("is_idle", is_idle.array()),
    ];
    let batch = |table, rows, columns| batcher.batch(table, rows, columns).expect("declared");
    BTreeMap::from([
        ("context_switch", batch("context_switch", count, switches)),
        ("thread", batch("thread", 2, threads)),
        ("cpu", batch("cpu", 1, vec![("cpu", ints(0, 1))])),
    ])
}

/// Columns that are corrected after their rows have been passed on, in tables of their own.
const CORRECTED: [&str; 4] = ["effective", "target_cpu", "next_utid", "next_priority"];

/// The rows of a batch, one text per row.
fn rows_of(batch: &RecordBatch) -> Vec<String> {
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns());
    let columns: Vec<ArrayRef> = columns
        .filter(|(field, _)| !CORRECTED.contains(&field.name().as_str()))
        .map(|(_, column)| match column.data_type() {
            DataType::Dictionary(..) => unpacked(std::slice::from_ref(column), "x").expect("texts"),
            _ => column.clone(),
        })
        .collect();
    let cell = |column: &ArrayRef, row: usize| format!("{:?}", column.slice(row, 1));
    (0..batch.num_rows())
        .map(|row| columns.iter().map(|column| cell(column, row)).collect())
        .collect()
}

/// Everything that the state machine makes of a reader's chunks.
fn answers(
    reader: &dyn Reader,
    chunks: &mut dyn ChunkSource,
    cpus: RecordBatch,
) -> Result<Rows, DecodeError> {
    let mut machine = StateMachine::new(Settings {
        trace_id: 1,
        source: reader.source(),
        tick_ns: None,
        yields_recorded: reader.has_yields(),
        has_wakings: reader.has_wakings(),
        of_chosen_threads: reader.of_chosen_threads(),
    });
    let mut outputs = Vec::new();
    while let Some(chunk) = chunks.next_chunk(&mut |_| true)? {
        outputs.extend(machine.push(&chunk)?);
    }
    let finished = chunks.finish()?;
    let threads = finished.batches.iter().find(|(table, _)| *table == "thread");
    let end = End {
        first_ns: finished.first_ns.unwrap_or_default(),
        last_ns: finished.last_ns.unwrap_or_default(),
        threads: threads.expect("threads").1.clone(),
        cpus,
        snapshot_thread: None,
    };
    outputs.extend(machine.finish(&end)?);
    let mut rows = Rows::new();
    for output in outputs.into_iter().filter(|output| !output.table.ends_with("_mend")) {
        rows.entry(output.table).or_default().extend(rows_of(&output.batch));
    }
    rows.values_mut().for_each(|rows| rows.sort());
    Ok(rows)
}

/// Everything that the state machine makes of a folder, in chunks of so many rows.
fn answers_of_folder(path: &Path, chunk_rows: usize) -> Result<Rows, DecodeError> {
    let folder = Folder::open(path)?;
    let batcher = Batcher::new(1);
    let cpus = folder.cpu_batch(&batcher)?;
    answers(&folder, &mut Chunks::new(&folder, &batcher, chunk_rows), cpus)
}
