//! Every record of a recording with its fields by name.

use serde_json::{Map, Value as Json, json};

use schedlens_input::bytes::{text, u32_at, u64_at};
use schedlens_input::event::{Event, Wanted};
use schedlens_tracepoints::fields;
use schedlens_tracepoints::formats::Format;

use crate::attrs::{Attr, TYPE_TRACEPOINT};
use crate::callchain::{Callchain, Context};
use crate::merge::Merge;
use crate::merged::Merged;
use crate::record;
use crate::recording::Recording;
use crate::streams::{NO_CPU, trailer_ids};

/// perf itself, as the provider of records that no tracepoint wrote.
const PERF: &str = "perf";

impl Recording {
    /// Passes the wanted records in time order to `each`, until it returns false.
    pub fn events(&self, wanted: &Wanted, mut each: impl FnMut(Event) -> bool) {
        let mut merge = Merge::new(self);
        let start = self.index.first.unwrap_or_default();
        while let Some(time) = merge.next_time() {
            let Some(merged) = merge.next() else { break };
            let ts_ns = time.wrapping_sub(start).cast_signed();
            if wanted.is_over(ts_ns) {
                break;
            }
            if !wanted.has_time(ts_ns) {
                continue;
            }
            let Some(event) = self.event(&merged, time, ts_ns, wanted) else { continue };
            if !each(event) {
                break;
            }
        }
    }

    fn event(&self, merged: &Merged<'_>, time: u64, ts_ns: i64, wanted: &Wanted) -> Option<Event> {
        let is_sample = merged.kind() == record::SAMPLE;
        let attr = is_sample.then(|| self.events.attrs.get(merged.event)).flatten();
        let format = attr
            .filter(|attr| attr.kind == TYPE_TRACEPOINT)
            .and_then(|attr| self.features.format(attr.config));
        let (provider, name, id) = match (attr, format) {
            (_, Some(format)) => {
                (format.system.clone(), format.name.clone(), format.id.to_string())
            }
            (Some(attr), None) => {
                let named = self.named.get(merged.event).map(|event| event.name.clone());
                (PERF.to_owned(), named.unwrap_or_default(), attr.config.to_string())
            }
            (None, _) => {
                let name = record::kind_name(merged.kind());
                (PERF.to_owned(), name, merged.kind().to_string())
            }
        };
        if !wanted.has_provider(&provider) || !wanted.has_name(&name, &id) {
            return None;
        }
        let ids = match attr {
            Some(attr) => attr.sample.tid.and_then(|at| ids(merged.bytes, at)),
            None => trailer_ids(&self.events, merged.bytes),
        };
        let fields = match attr {
            Some(attr) => sample(attr, format, merged.bytes),
            None => of_record(merged),
        };
        Some(Event {
            ts_ns,
            clock: time.cast_signed(),
            cpu: (merged.cpu != NO_CPU).then_some(merged.cpu.into()),
            pid: ids.map(|(pid, _)| pid.into()),
            tid: ids.map(|(_, tid)| tid.into()),
            provider,
            name,
            layout: None,
            id,
            version: None,
            pointer: None,
            fields,
            place: None,
        })
    }
}

fn ids(bytes: &[u8], at: usize) -> Option<(i32, i32)> {
    Some((u32_at(bytes, at)?.cast_signed(), u32_at(bytes, at + 4)?.cast_signed()))
}

/// Fields of a sample, with its callchain if one was recorded.
fn sample(attr: &Attr, format: Option<&Format>, bytes: &[u8]) -> Option<Map<String, Json>> {
    let mut fields = sample_fields(attr, format, bytes)?;
    if let Some(chain) = attr.callchain(bytes) {
        fields.entry("callchain").or_insert_with(|| parts_of(chain));
    }
    Some(fields)
}

/// Consecutive addresses of one context, innermost first, as texts: JSON numbers are too small.
fn parts_of(chain: Callchain<'_>) -> Json {
    let mut parts: Vec<(Option<&str>, Vec<String>)> = Vec::new();
    for (context, address) in chain {
        let name = context.map(Context::name);
        let address = format!("{address:#x}");
        match parts.last_mut() {
            Some((last, addresses)) if *last == name => addresses.push(address),
            _ => parts.push((name, vec![address])),
        }
    }
    let part = |(context, addresses)| json!({ "context": context, "addresses": addresses });
    parts.into_iter().map(part).collect()
}

/// Fields of a tracepoint without the common ones, or the values of a counter.
fn sample_fields(attr: &Attr, format: Option<&Format>, bytes: &[u8]) -> Option<Map<String, Json>> {
    let parts = attr.parts(bytes)?;
    let Some(format) = format else {
        let values: Vec<u64> = attr.values(parts.read).map(|(_, value)| value).collect();
        let mut fields = Map::new();
        if !values.is_empty() {
            fields.insert("values".to_owned(), values.into());
        }
        return (attr.kind != TYPE_TRACEPOINT).then_some(fields);
    };
    fields::own(format, parts.raw)
}

/// Fields of a record other than a sample; `None` for undescribed kinds.
fn of_record(merged: &Merged<'_>) -> Option<Map<String, Json>> {
    let bytes = merged.bytes;
    let id = |at| u32_at(bytes, at).map(u32::cast_signed);
    let fields = match merged.kind() {
        record::COMM => json!({
            "pid": id(8)?, "tid": id(12)?, "comm": text(bytes.get(16..)?),
        }),
        record::FORK | record::EXIT => json!({
            "pid": id(8)?, "ppid": id(12)?, "tid": id(16)?, "ptid": id(20)?,
        }),
        record::LOST => json!({ "lost": u64_at(bytes, 16)? }),
        record::LOST_SAMPLES => json!({ "lost": u64_at(bytes, 8)? }),
        record::SWITCH | record::SWITCH_CPU_WIDE => {
            let misc = merged.misc();
            let mut fields = json!({
                "out": misc & record::MISC_SWITCH_OUT != 0,
                "preempt": misc & record::MISC_SWITCH_OUT_PREEMPT != 0,
            });
            if merged.kind() == record::SWITCH_CPU_WIDE {
                fields["next_prev_pid"] = id(8)?.into();
                fields["next_prev_tid"] = id(12)?.into();
            }
            fields
        }
        _ => return None,
    };
    match fields {
        Json::Object(fields) => Some(fields),
        _ => None,
    }
}
