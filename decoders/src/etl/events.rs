//! Every record of a log with its fields by name.

use serde_json::Value as Json;

use super::chosen::Chosen;
use super::log::Log;
use super::names::{self, event_name, hook_name};
use super::payload::value::{Fields, Value};
use super::payload::{known, tracelogging};
use super::record::{EXT_SCHEMA, EXT_TRAITS, Id, Record};
use super::survey::{self, Survey};
use crate::event::Wanted;

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

/// Provider of the events that the kernel itself writes, as PerfView names it.
const KERNEL: &str = "Windows Kernel";

fn provider(survey: &Survey, record: &Record<'_>) -> String {
    let Id::Event { provider, .. } = record.id else { return KERNEL.to_owned() };
    let mut items = record.extended;
    let traits = items.find(|item| item.kind == EXT_TRAITS);
    let named = traits.and_then(|item| tracelogging::provider(item.data));
    named
        .or_else(|| survey.provider(provider).map(str::to_owned))
        .unwrap_or_else(|| names::provider_name(provider))
}

/// Name of an event; those of manifests are named by what describes them.
fn name(record: &Record<'_>, described: Option<&str>) -> String {
    match (record.id, described) {
        (Id::Event { .. }, Some(name)) => name.to_owned(),
        (Id::Event { id, .. }, None) => id.to_string(),
        (Id::Classic { .. }, Some(name)) if survey::class_hook(&record.id).is_none() => {
            name.to_owned()
        }
        _ => event_name(record.event()),
    }
}

fn event(
    survey: &Survey,
    record: &Record<'_>,
    ts_ns: i64,
    wanted: &Wanted,
) -> Option<crate::event::Event> {
    let provider = provider(survey, record);
    if !wanted.has_provider(&provider) {
        return None;
    }
    let id = key(record);
    // The kernel's events have their names without being decoded.
    if let Id::Hook(hook) = record.id
        && !wanted.has_name(&hook_name(hook), &id)
    {
        return None;
    }
    let described = describe(survey, record);
    let name = name(record, described.as_ref().map(|(name, _)| &**name));
    if !wanted.has_name(&name, &id) {
        return None;
    }
    let (layout, fields) = described.unzip();
    let fields = match fields.as_ref().map(Fields::json) {
        Some(Json::Object(fields)) => Some(fields),
        _ => None,
    };
    let place = record.place;
    Some(crate::event::Event {
        ts_ns,
        clock: record.ts,
        cpu: record.cpu.map(i64::from),
        pid: record.pid.map(i64::from),
        tid: record.tid.map(i64::from),
        provider,
        name,
        layout,
        id,
        version: Some(record.version.into()),
        pointer: Some(record.pointer.size() as i64),
        fields,
        place: Some([place.file.into(), place.buffer.into(), place.at.into()]),
    })
}

/// Hands over the wanted events of a log in the order of time; until `each` answers no.
pub fn events(log: Log, wanted: &Wanted, mut each: impl FnMut(crate::event::Event) -> bool) {
    let clock = log.clock();
    let mut survey = Survey::default();
    let described = Survey::chosen();
    let scan = log.scan(&described, |record| survey.take(record, clock.ns(record.ts)), |_| true);
    survey.finish(scan.log().header().num_processors as usize);
    let all = Chosen::all();
    let mut merge = scan.merge(&all);
    while let Some(record) = merge.next_record() {
        let ts_ns = clock.ns(record.ts);
        if wanted.is_over(ts_ns) {
            return;
        }
        if wanted.has_time(ts_ns)
            && let Some(event) = event(&survey, &record, ts_ns, wanted)
            && !each(event)
        {
            return;
        }
    }
}
