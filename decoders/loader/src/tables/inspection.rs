//! The contents of a folder of tables as JSON, for `schedlens inspect`.

use std::collections::HashSet;

use arrow_array::{Array, Int32Array, Int64Array, RecordBatch, StringArray};
use schedlens_schedule::batcher::Batcher;
use serde_json::{Map, Value, json};

use super::error::{Error, TableFault};
use super::folder::{CHUNK_ROWS, Folder};
use super::order::column;

/// A question, the table that answers it, and a column that needs at least one known value.
const QUESTIONS: [(&str, &str, Option<&str>); 11] = [
    ("which thread ran where", "context_switch", None),
    ("why a thread left its CPU (state, priority)", "context_switch", Some("prev_state")),
    ("who shared a core with whom", "cpu", Some("core")),
    ("how long threads waited for a CPU, and who woke them", "wakeup", None),
    ("core types", "cpu", Some("core_type")),
    ("interrupt work on CPUs that look idle", "interrupt_slice", None),
    ("parked CPUs", "cpu_parking", None),
    ("idle states", "cpu_idle", None),
    ("frequencies", "cpu_frequency", None),
    ("cycles and instructions of each slice", "counter_sample", None),
    ("frames", "frame", None),
];

/// The facts about a folder. Reads the tables that they depend on.
///
/// # Errors
/// One of these tables cannot be read.
pub fn inspect(folder: &Folder) -> Result<Value, Error> {
    let manifest = &folder.manifest;
    let whole = |table: &'static str| folder.whole(table, &Batcher::new(0));
    let (first, last) = (manifest.number("first_ns"), manifest.number("duration_ns"));
    let texts = ["path", "host", "os", "cpu_model"].into_iter();
    let header: Map<String, Value> =
        texts.map(|name| (name.to_owned(), json!(manifest.text(name)))).collect();
    let cpus = whole("cpu")?.map(|rows| cpus(&rows).map_err(|fault| fault.of("cpu")));
    let processes =
        whole("process")?.map(|rows| processes(&rows).map_err(|fault| fault.of("process")));
    let problems =
        whole("problem")?.map(|rows| problems(&rows).map_err(|fault| fault.of("problem")));
    let mut answers = Vec::new();
    for question in QUESTIONS {
        answers.push(answer(folder, question)?);
    }
    Ok(json!({
        "format": "folder of tables",
        "source": manifest.source_name,
        "written_by": manifest.written_by,
        "header": header,
        "clock": manifest.text("clock_name"),
        "cpus": cpus.transpose()?.unwrap_or_default(),
        "start_clock": manifest.number("start_clock"),
        "duration_ns": first.and_then(|first| last?.checked_sub(first)),
        "start_time_utc_ns": manifest.number("start_time_utc_ns"),
        "records": manifest.all_rows(),
        "records_by_event": manifest.rows,
        "processes": processes.transpose()?.unwrap_or_default(),
        "loss": {
            "events": manifest.number("events_lost"),
            "buffers": manifest.number("buffers_lost"),
        },
        "problems": problems.transpose()?.unwrap_or_default(),
        "can_answer": answers,
    }))
}

fn cpus(rows: &RecordBatch) -> Result<usize, TableFault> {
    let numbers: &Int32Array = column(rows, "cpu")?;
    Ok(numbers.values().iter().collect::<HashSet<_>>().len())
}

fn processes(rows: &RecordBatch) -> Result<Vec<Value>, TableFault> {
    let (pids, names): (&Int64Array, &StringArray) = (column(rows, "pid")?, column(rows, "name")?);
    let name = |row: usize| names.is_valid(row).then(|| names.value(row));
    let process = |row: usize| json!({"pid": pids.value(row), "name": name(row)});
    Ok((0..rows.num_rows()).map(process).collect())
}

fn problems(rows: &RecordBatch) -> Result<Vec<Value>, TableFault> {
    let (places, whats): (&StringArray, &StringArray) =
        (column(rows, "place")?, column(rows, "what")?);
    let counts: &Int64Array = column(rows, "count")?;
    let problem = |row: usize| {
        json!({
            "place": places.value(row), "what": whats.value(row), "count": counts.value(row),
        })
    };
    Ok((0..rows.num_rows()).map(problem).collect())
}

fn answer(
    folder: &Folder,
    (question, table, column): (&str, &'static str, Option<&str>),
) -> Result<Value, Error> {
    let why = match folder.manifest.rows.get(table) {
        None => Some(format!("the table {table} is not in the folder")),
        Some(0) => Some(format!("the table {table} is empty")),
        Some(_) => match column {
            Some(column) if !has_value(folder, table, column)? => {
                Some(format!("{table}.{column} is always NULL"))
            }
            _ => None,
        },
    };
    let answerable = why.is_none();
    Ok(json!({
        "question": question, "answerable": answerable, "why": why, "record_with": null,
    }))
}

/// Whether a column has a known value.
fn has_value(folder: &Folder, table: &'static str, column: &str) -> Result<bool, Error> {
    let Some(mut table) = folder.table(table, CHUNK_ROWS)? else { return Ok(false) };
    while let Some(part) = table.next_part()? {
        let values = part.column_by_name(column);
        if values.is_some_and(|values| values.logical_null_count() < part.num_rows()) {
            return Ok(true);
        }
    }
    Ok(false)
}
