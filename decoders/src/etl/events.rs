//! Every record with its fields by name, as JSON: for people, and to hold the reading against
//! that of other decoders.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use serde_json::{Map, Value as Json, json};

use super::chosen::Chosen;
use super::log::Log;
use super::payload::value::{Fields, Value};
use super::payload::{known, tracelogging};
use super::record::{EXT_SCHEMA, EXT_TRAITS, Id, Record};
use super::survey::{self, Survey};
use crate::error::DecodeError;
use crate::load::{THREAD_NAME, without_panic};

/// Lines that are handed on at once.
const LINES: usize = 1000;
/// Batches of lines that wait to be taken, at most.
const WAITING: usize = 4;

/// Name and fields of a classic payload, as hook or class and opcode name it.
pub fn classic(
    (class, opcode, version): (Option<u32>, u16, u8),
    payload: &[u8],
    pointer: usize,
) -> Option<(String, Json)> {
    let found = match class {
        None => known::hook(opcode, version, payload, pointer),
        Some(class) => {
            let opcode = u8::try_from(opcode).ok()?;
            match known::hook_of_class(class, opcode) {
                Some(hook) => known::foreign_hook(hook, version, payload, pointer),
                None => known::class(class, opcode, payload, pointer),
            }
        }
    };
    found.map(|(name, fields)| (name.to_owned(), fields.json()))
}

/// Name and fields of a record; `None` where nothing describes it.
fn describe(survey: &Survey, record: &Record<'_>) -> Option<(String, Fields)> {
    let pointer = record.pointer.size();
    match record.id {
        Id::Hook(hook) => {
            let found = known::hook(hook, record.version, record.payload, pointer);
            found.map(|(name, fields)| (name.to_owned(), fields))
        }
        Id::Classic { class, opcode } => {
            if class == survey::WINSAT {
                let xml = survey::winsat_xml(record.payload)?;
                return Some(("WinSAT".to_owned(), Fields(vec![("Xml".into(), Value::Text(xml))])));
            }
            let found = match survey::class_hook(&record.id) {
                Some(hook) => known::foreign_hook(hook, record.version, record.payload, pointer),
                None => known::class(class.first(), opcode, record.payload, pointer),
            };
            found.map(|(name, fields)| (name.to_owned(), fields))
        }
        Id::Event { .. } => {
            let mut items = record.extended;
            match items.find(|item| item.kind == EXT_SCHEMA) {
                Some(schema) => tracelogging::read(schema.data, record.payload, pointer),
                None => survey.event(record),
            }
        }
        _ => None,
    }
}

fn key(record: &Record<'_>) -> String {
    match record.id {
        Id::Hook(hook) => format!("{hook:04x}"),
        Id::Classic { class, opcode } => format!("{class} op{opcode}"),
        Id::Event { provider, id, .. } => format!("{provider} id{id}"),
        Id::Message { number, .. } => format!("message {number}"),
        Id::None => "none".to_owned(),
    }
}

fn provider(survey: &Survey, record: &Record<'_>) -> Option<String> {
    let Id::Event { provider, .. } = record.id else { return None };
    let mut items = record.extended;
    let traits = items.find(|item| item.kind == EXT_TRAITS);
    let named = traits.and_then(|item| tracelogging::provider(item.data));
    named.or_else(|| survey.provider(provider).map(str::to_owned))
}

fn line(survey: &Survey, log: &Log, record: &Record<'_>) -> String {
    let mut object = Map::new();
    let mut put = |key: &str, value: Json| object.insert(key.to_owned(), value);
    put("ts_ns", log.clock().ns(record.ts).into());
    put("clock", record.ts.into());
    put("cpu", record.cpu.into());
    put("tid", record.tid.into());
    put("pid", record.pid.into());
    put("id", key(record).into());
    put("version", record.version.into());
    put("pointer", record.pointer.size().into());
    put("place", json!([record.place.file, record.place.buffer, record.place.at]));
    if let Some(provider) = provider(survey, record) {
        put("provider", provider.into());
    }
    if let Some((name, fields)) = describe(survey, record) {
        put("event", name.into());
        put("fields", fields.json());
    }
    Json::Object(object).to_string()
}

/// Lines of JSON, one a record, in the order of time; made in a thread of its own.
#[derive(Debug)]
pub struct Lines {
    /// Batches of lines; an error is the last.
    pub batches: Receiver<Result<Vec<String>, DecodeError>>,
    thread: JoinHandle<()>,
}

impl Lines {
    /// Begins to read; `only`: events whose id or name is that.
    ///
    /// # Errors
    /// No thread can be made.
    pub fn start(paths: Vec<PathBuf>, only: Option<String>) -> Result<Self, DecodeError> {
        let (sender, batches) = sync_channel(WAITING);
        let thread = std::thread::Builder::new().name(THREAD_NAME.to_owned()).spawn(move || {
            if let Err(error) = without_panic(|| write(&paths, only.as_deref(), &sender)) {
                // Nobody listens any more: then nobody is to be told.
                let _ = sender.send(Err(error));
            }
        })?;
        Ok(Self { batches, thread })
    }

    /// Ends it, finished or not.
    pub fn close(self) {
        drop(self.batches);
        // A panic has already been turned into an error.
        let _ = self.thread.join();
    }
}

fn write(
    paths: &[PathBuf],
    only: Option<&str>,
    sender: &SyncSender<Result<Vec<String>, DecodeError>>,
) -> Result<(), DecodeError> {
    let log = Log::open(paths)?;
    let clock = log.clock();
    let mut survey = Survey::default();
    let wanted = Survey::chosen();
    let scan = log.scan(&wanted, |record| survey.take(record, clock.ns(record.ts)), |_| true);
    survey.finish(scan.log().header().num_processors as usize);
    let all = Chosen::all();
    let mut merge = scan.merge(&all);
    let mut lines = Vec::new();
    while let Some(record) = merge.next_record() {
        if let Some(only) = only
            && key(&record) != only
            && describe(&survey, &record).is_none_or(|(name, _)| name != only)
        {
            continue;
        }
        lines.push(line(&survey, scan.log(), &record));
        if lines.len() >= LINES && sender.send(Ok(std::mem::take(&mut lines))).is_err() {
            return Ok(());
        }
    }
    // Nobody listens any more: then nobody is to be told.
    let _ = sender.send(Ok(lines));
    Ok(())
}
