//! The events of a recording as batches: lines of text, or Arrow columns.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use arrow_array::builder::{Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch};

use schedlens_etl::Log;
use schedlens_etl::facts::decoded;
use schedlens_input::event::{Event, Wanted};
use schedlens_perf_data::Recording;

use crate::background::{THREAD_NAME, without_panic};
use crate::error::DecodeError;
use crate::format::{self, Format};
use crate::tables;

/// Events in a batch.
const BATCH: usize = 1 << 12;
/// Maximum number of batches waiting to be consumed.
const WAITING: usize = 4;

/// Output form of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A line of text.
    Text,
    /// A JSON object.
    Json,
    /// A row of CSV.
    Csv,
    /// A row of Arrow columns; the fields are JSON.
    Arrow,
}

/// A group of events.
#[derive(Debug)]
pub enum Batch {
    /// Lines, each terminated.
    Lines(String),
    /// Rows.
    Rows(RecordBatch),
}

#[derive(Default)]
struct Columns {
    ts_ns: Int64Builder,
    numbers: [Int64Builder; 4],
    texts: [StringBuilder; 4],
}

impl Columns {
    fn add(&mut self, event: &Event) {
        self.ts_ns.append_value(event.ts_ns);
        let numbers = [event.cpu, event.pid, event.tid, event.version];
        for (column, value) in self.numbers.iter_mut().zip(numbers) {
            column.append_option(value);
        }
        let fields = event.fields.as_ref().map(|_| event.fields_json());
        let texts = [Some(&*event.provider), Some(&*event.name), Some(&*event.id)];
        let texts = texts.into_iter().chain([fields.as_deref()]);
        for (column, value) in self.texts.iter_mut().zip(texts) {
            column.append_option(value);
        }
    }

    fn finish(&mut self) -> Result<RecordBatch, DecodeError> {
        let [cpu, pid, tid, version] = &mut self.numbers;
        let [provider, name, id, fields] = &mut self.texts;
        let columns: [(&str, ArrayRef, bool); 9] = [
            ("ts_ns", Arc::new(self.ts_ns.finish()), false),
            ("cpu", Arc::new(cpu.finish()), true),
            ("pid", Arc::new(pid.finish()), true),
            ("tid", Arc::new(tid.finish()), true),
            ("provider", Arc::new(provider.finish()), false),
            ("name", Arc::new(name.finish()), false),
            ("id", Arc::new(id.finish()), false),
            ("version", Arc::new(version.finish()), true),
            ("fields", Arc::new(fields.finish()), true),
        ];
        RecordBatch::try_from_iter_with_nullable(columns)
            .map_err(|error| DecodeError::Internal { what: error.to_string() })
    }
}

/// Events of a recording, read in a separate thread.
#[derive(Debug)]
pub struct EventBatches {
    /// Batches. An error is the last item.
    pub batches: Receiver<Result<Batch, DecodeError>>,
    thread: JoinHandle<()>,
}

impl EventBatches {
    /// Starts reading the wanted events of a recording, which may consist of several .etl files.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub fn start(paths: Vec<PathBuf>, wanted: Wanted, style: Style) -> Result<Self, DecodeError> {
        let (sender, batches) = sync_channel(WAITING);
        let thread = std::thread::Builder::new().name(THREAD_NAME.to_owned()).spawn(move || {
            if let Err(error) = without_panic(|| read(paths, &wanted, style, &sender)) {
                // The receiver is gone, so nobody can receive the error.
                let _ = sender.send(Err(error));
            }
        })?;
        Ok(Self { batches, thread })
    }

    /// Stops reading, finished or not.
    pub fn close(self) {
        drop(self.batches);
        // A panic has already been turned into an error.
        let _ = self.thread.join();
    }
}

/// Events collected for the next batch.
struct Collected {
    style: Style,
    lines: String,
    columns: Columns,
    count: usize,
}

impl Collected {
    fn add(&mut self, event: &Event) {
        self.count += 1;
        let line = match self.style {
            Style::Text => event.text(),
            Style::Json => event.json(),
            Style::Csv => event.csv(),
            Style::Arrow => return self.columns.add(event),
        };
        self.lines.push_str(&line);
        self.lines.push('\n');
    }

    fn batch(&mut self) -> Result<Batch, DecodeError> {
        self.count = 0;
        Ok(match self.style {
            Style::Arrow => Batch::Rows(self.columns.finish()?),
            _ => Batch::Lines(std::mem::take(&mut self.lines)),
        })
    }
}

fn read(
    paths: Vec<PathBuf>,
    wanted: &Wanted,
    style: Style,
    sender: &SyncSender<Result<Batch, DecodeError>>,
) -> Result<(), DecodeError> {
    let mut collected =
        Collected { style, lines: String::new(), columns: Columns::default(), count: 0 };
    let each = |event: Event| {
        collected.add(&event);
        collected.count < BATCH || sender.send(collected.batch()).is_ok()
    };
    let first = paths.first().ok_or_else(|| DecodeError::Internal { what: "no file".into() })?;
    let format = if paths.len() == 1 { format::of(first)? } else { Format::Etl };
    match format {
        Format::Perf => Recording::open(first)?.events(wanted, each),
        Format::TraceDat => schedlens_trace_dat::Recording::open(first)?.events(wanted, each)?,
        Format::Etl => decoded::events(Log::open(&paths)?, wanted, each),
        Format::Tables => return Err(tables::Error::NoEvents.into()),
    }
    // The receiver is gone, so nobody needs the rest.
    let _ = sender.send(collected.batch());
    Ok(())
}
