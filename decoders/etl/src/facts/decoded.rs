//! Every record of a log with its fields by name, in time order.

use schedlens_input::event::{Event, Wanted};
use serde_json::Value as Json;

use crate::container::Log;
use crate::facts::names::{self, event_name, hook_name};
use crate::facts::survey::{self, Survey};
use crate::passes::Chosen;
use crate::passes::counts::Event as Counted;
use crate::payload::value::Fields;
use crate::records::{Id, Record};

/// Provider of the kernel's own events, as PerfView names it.
const KERNEL: &str = "Windows Kernel";

fn provider(survey: &Survey, record: &Record<'_>) -> String {
    let Id::Event { provider, .. } = record.id else { return KERNEL.to_owned() };
    survey.provider_name(record).unwrap_or_else(|| names::provider_name(provider))
}

/// Name of an event; `described` names events of manifests.
fn name(record: &Record<'_>, described: Option<&str>) -> String {
    match (record.id, described) {
        (Id::Event { .. }, Some(name)) => name.to_owned(),
        (Id::Event { id, .. }, None) => id.to_string(),
        (Id::Classic { .. }, Some(name)) if survey::class_hook(&record.id).is_none() => {
            name.to_owned()
        }
        _ => event_name(Counted::of(&record.id)),
    }
}

fn event(survey: &Survey, record: &Record<'_>, ts_ns: i64, wanted: &Wanted) -> Option<Event> {
    let provider = provider(survey, record);
    if !wanted.has_provider(&provider) {
        return None;
    }
    let id = record.id.to_string();
    // The names of kernel events do not require decoding.
    if let Id::Hook(hook) = record.id
        && !wanted.has_name(&hook_name(hook), &id)
    {
        return None;
    }
    let described = survey.describe(record);
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
    Some(Event {
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

/// Passes the wanted events of a log in time order to `each`, until it returns false.
pub fn events(log: Log, wanted: &Wanted, mut each: impl FnMut(Event) -> bool) {
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
