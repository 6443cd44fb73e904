//! The fields of any record by name, from any available description.

use crate::facts::survey::{self, Survey};
use crate::payload::value::{Fields, Value};
use crate::payload::{known, tracelogging};
use crate::records::record::{EXT_SCHEMA, EXT_TRAITS};
use crate::records::{Id, Record};

/// Name and fields of a classic payload, by hook or by class and opcode.
pub fn classic(
    (class, opcode, version): (Option<u32>, u16, u8),
    payload: &[u8],
    pointer: usize,
) -> Option<(&'static str, Fields)> {
    match class {
        None => known::hook(opcode, version, payload, pointer),
        Some(class) => {
            let opcode = u8::try_from(opcode).ok()?;
            match known::hook_of_class(class, opcode) {
                Some(hook) => known::foreign_hook(hook, version, payload, pointer),
                None => known::class(class, opcode, payload, pointer),
            }
        }
    }
}

impl Survey {
    /// Name and fields of a record; `None` without a description.
    pub fn describe(&self, record: &Record<'_>) -> Option<(String, Fields)> {
        let pointer = record.pointer.size();
        match record.id {
            Id::Hook(hook) => {
                let found = known::hook(hook, record.version, record.payload, pointer);
                found.map(|(name, fields)| (name.to_owned(), fields))
            }
            Id::Classic { class, opcode } => {
                if class == survey::WINSAT {
                    let xml = survey::winsat_xml(record.payload)?;
                    return Some((
                        "WinSAT".to_owned(),
                        Fields(vec![("Xml".into(), Value::Text(xml))]),
                    ));
                }
                let found = match survey::class_hook(&record.id) {
                    Some(hook) => {
                        known::foreign_hook(hook, record.version, record.payload, pointer)
                    }
                    None => known::class(class.first(), opcode, record.payload, pointer),
                };
                found.map(|(name, fields)| (name.to_owned(), fields))
            }
            Id::Event { .. } => {
                let mut items = record.extended;
                match items.find(|item| item.kind == EXT_SCHEMA) {
                    Some(schema) => tracelogging::read(schema.data, record.payload, pointer),
                    None => self.event(record),
                }
            }
            _ => None,
        }
    }

    /// Name of a record's provider, if the record or a schema contains it.
    pub fn provider_name(&self, record: &Record<'_>) -> Option<String> {
        let Id::Event { provider, .. } = record.id else { return None };
        let mut items = record.extended;
        let traits = items.find(|item| item.kind == EXT_TRAITS);
        let named = traits.and_then(|item| tracelogging::provider(item.data));
        named.or_else(|| self.provider(provider).map(str::to_owned))
    }
}
