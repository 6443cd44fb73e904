//! The events of a recording with their names.

use schedlens_input::problem::Problems;
use schedlens_tracepoints::events::Event;

use crate::attrs::{Attr, TYPE_TRACEPOINT};
use crate::features::Features;

/// Name and family of an event.
pub(crate) fn event(attr: &Attr, features: &Features, problems: &mut Problems) -> Event {
    if attr.kind != TYPE_TRACEPOINT {
        return Event::other(attr.name.clone().unwrap_or_else(|| generic_name(attr)));
    }
    match features.format(attr.config) {
        Some(format) if attr.is_sampled_tracepoint() => {
            let name = format.full_name();
            problems.add(&name, "most of its events were not recorded (perf record -F): not read");
            Event::other(name)
        }
        Some(format) => Event::of(format, problems),
        None => {
            let number = || format!("tracepoint {}", attr.config);
            Event::other(attr.name.clone().unwrap_or_else(number))
        }
    }
}

fn generic_name(attr: &Attr) -> String {
    match (attr.kind, attr.config) {
        (0, 0) => "cycles".to_owned(),
        (0, 1) => "instructions".to_owned(),
        (1, 0) => "cpu-clock".to_owned(),
        (1, 1) => "task-clock".to_owned(),
        (1, 3) => "context-switches".to_owned(),
        (1, 9) => "dummy".to_owned(),
        (kind, config) => format!("type {kind} config {config:#x}"),
    }
}
