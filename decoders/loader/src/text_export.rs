//! Texts that other programs printed: what they are, and their rows as Arrow batches.

use std::fs::File;
use std::io::{BufWriter, Read};
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Int32Builder, Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use schedlens_text::windows::{Dumper, Facts, Precise, Row};
use schedlens_text::{Kind, Problem, perf_script};
use serde_json::{Value, json};

use crate::error::DecodeError;

/// Bytes by which a text is recognized.
const BEGIN: u64 = 1 << 16;
/// Rows of a batch.
const BATCH_ROWS: usize = 1 << 16;

/// What a file is; `None` if it is none of these texts.
///
/// # Errors
/// It cannot be read.
pub fn kind(path: &Path) -> Result<Option<Kind>, DecodeError> {
    // Reading from a fifo consumes the data.
    if !path.is_file() {
        return Ok(None);
    }
    let mut begin = Vec::new();
    File::open(path)?.take(BEGIN).read_to_end(&mut begin)?;
    Ok(schedlens_text::kind(&begin))
}

/// Writes a text of perf script as a perf.data; returns the problems and the resolution of its
/// times as JSON.
///
/// # Errors
/// The text has no events, or a file cannot be read or written.
pub fn perf_data(
    text: &Path,
    out: &Path,
    on_progress: impl FnMut(u64) -> bool,
) -> Result<Value, DecodeError> {
    let out = BufWriter::with_capacity(1 << 18, File::create(out)?);
    let found = perf_script::convert(File::open(text)?, out, on_progress)?;
    Ok(json!({
        "records": found.records,
        "step_ns": found.step_ns,
        "problems": problems(&found.problems),
    }))
}

fn problems(found: &[Problem]) -> Vec<Value> {
    let row = |p: &Problem| json!({"line": p.line, "what": p.what, "count": p.count});
    found.iter().map(row).collect()
}

enum Source {
    Dumper(Box<Dumper<File>>),
    Precise(Box<Precise<File>>),
}

/// The rows of a text of Windows, in batches.
pub struct TextRows {
    source: Source,
    schema: SchemaRef,
}

/// Columns of a thread, with these in front.
const PEOPLE: [&str; 3] = ["new", "old", "by"];
/// Columns of a thread that leaves, with these in front.
const LEAVERS: [&str; 2] = ["old", "new"];

impl TextRows {
    /// Opens a file.
    ///
    /// # Errors
    /// It cannot be read, lacks a column, or is no such text.
    pub fn open(path: &Path) -> Result<Self, DecodeError> {
        let source = match kind(path)? {
            Some(Kind::Dumper) => Source::Dumper(Box::new(Dumper::new(File::open(path)?)?)),
            Some(Kind::Precise) => Source::Precise(Box::new(Precise::new(File::open(path)?)?)),
            _ => {
                return Err(schedlens_text::Error::Nothing {
                    wanted: "table of xperf or wpaexporter",
                    advice: "export it again",
                }
                .into());
            }
        };
        Ok(Self { source, schema: schema() })
    }

    /// Columns of the batches.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// What the text stated and what could not be read, once all rows are read, as JSON.
    pub fn summary(&self) -> Value {
        let (facts, found): (&Facts, _) = match &self.source {
            Source::Dumper(text) => (text.facts(), text.problems()),
            Source::Precise(text) => (text.facts(), text.problems()),
        };
        json!({
            "os": facts.os,
            "events_lost": facts.events_lost,
            "buffers_lost": facts.buffers_lost,
            "start": facts.start,
            "reliable_from": facts.reliable_from,
            "has_ready": facts.has_ready,
            "problems": problems(found),
        })
    }

    /// Bytes read so far.
    pub fn read(&self) -> u64 {
        match &self.source {
            Source::Dumper(text) => text.read(),
            Source::Precise(text) => text.read(),
        }
    }

    /// The next batch; `None` after the last.
    ///
    /// # Errors
    /// Reading fails.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, DecodeError> {
        let mut columns = Columns::default();
        while columns.rows < BATCH_ROWS {
            let row = match &mut self.source {
                Source::Dumper(text) => text.next_row()?,
                Source::Precise(text) => text.next_row()?,
            };
            let Some(row) = row else { break };
            columns.push(&row);
        }
        if columns.rows == 0 {
            return Ok(None);
        }
        let batch = RecordBatch::try_new(self.schema(), columns.finish());
        batch.map(Some).map_err(|error| DecodeError::Internal { what: error.to_string() })
    }
}

fn schema() -> SchemaRef {
    let field = |name: String, kind: DataType| Field::new(name, kind, true);
    let mut fields = vec![field("kind".to_owned(), DataType::Utf8)];
    for name in ["line", "ts", "ready_ts", "last_out_ts", "next_out_ts"] {
        fields.push(field(name.to_owned(), DataType::Int64));
    }
    for who in PEOPLE {
        fields.push(field(format!("{who}_tid"), DataType::Int64));
        fields.push(field(format!("{who}_pid"), DataType::Int64));
        fields.push(field(format!("{who}_process"), DataType::Utf8));
    }
    for name in ["cpu", "priority", "ideal", "cstate", "remaining_quantum"] {
        fields.push(field(name.to_owned(), DataType::Int32));
    }
    for who in LEAVERS {
        for what in ["state", "reason", "mode", "out_priority"] {
            fields.push(field(format!("{who}_{what}"), DataType::Int32));
        }
    }
    fields.push(field("in_dpc".to_owned(), DataType::Boolean));
    fields.push(field("thread_name".to_owned(), DataType::Utf8));
    Arc::new(Schema::new(fields))
}

/// Columns under construction, in the order of [`schema`].
#[derive(Default)]
struct Columns {
    rows: usize,
    kind: StringBuilder,
    longs: [Int64Builder; 5],
    ids: [[Int64Builder; 2]; 3],
    processes: [StringBuilder; 3],
    ints: [Int32Builder; 5],
    left: [[Int32Builder; 4]; 2],
    in_dpc: BooleanBuilder,
    thread_name: StringBuilder,
}

impl Columns {
    fn push(&mut self, row: &Row) {
        self.rows += 1;
        self.kind.append_value(row.kind.name());
        let line = i64::try_from(row.line).ok();
        let longs = [line, row.ts, row.ready, row.last_out, row.next_out];
        for (column, value) in self.longs.iter_mut().zip(longs) {
            column.append_option(value);
        }
        for (place, who) in [&row.new, &row.old, &row.by].into_iter().enumerate() {
            let [tid, pid] = &mut self.ids[place];
            tid.append_option(who.tid);
            pid.append_option(who.pid);
            self.processes[place].append_option(who.process.as_deref());
        }
        let ints = [row.cpu, row.priority, row.ideal, row.cstate, row.remaining_quantum];
        for (column, value) in self.ints.iter_mut().zip(ints) {
            column.append_option(value);
        }
        for (columns, left) in self.left.iter_mut().zip([row.old_left, row.new_left]) {
            let values = [left.state, left.reason, left.mode, left.priority];
            for (column, value) in columns.iter_mut().zip(values) {
                column.append_option(value);
            }
        }
        self.in_dpc.append_option(row.in_dpc);
        self.thread_name.append_option(row.thread_name.as_deref());
    }

    fn finish(mut self) -> Vec<ArrayRef> {
        let mut out: Vec<ArrayRef> = vec![Arc::new(self.kind.finish())];
        out.extend(self.longs.iter_mut().map(|column| Arc::new(column.finish()) as ArrayRef));
        for (ids, process) in self.ids.iter_mut().zip(&mut self.processes) {
            out.extend(ids.iter_mut().map(|column| Arc::new(column.finish()) as ArrayRef));
            out.push(Arc::new(process.finish()));
        }
        let left = self.left.as_flattened_mut();
        let ints = self.ints.iter_mut().chain(left);
        out.extend(ints.map(|column| Arc::new(column.finish()) as ArrayRef));
        out.push(Arc::new(self.in_dpc.finish()));
        out.push(Arc::new(self.thread_name.finish()));
        out
    }
}
