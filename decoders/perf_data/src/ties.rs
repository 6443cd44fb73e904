//! The order of records with the same time on one CPU, in a disordered file.

use schedlens_tracepoints::events::{Event, Family};

use crate::merged::Merged;
use crate::recording::Recording;

/// Sorts the records of one time, grouped by CPU: first wakeups, then records that are neither,
/// then the switches, each from the thread to which the previous one switched.
pub(crate) fn sort(records: &mut [Merged<'_>], recording: &Recording) {
    records.sort_by_key(|record| (record.cpu, rank(record, recording)));
    for switches in records.chunk_by_mut(|a, b| {
        a.cpu == b.cpu && rank(a, recording) == SWITCH && rank(b, recording) == SWITCH
    }) {
        chain(switches, recording);
    }
}

const SWITCH: u8 = 2;

fn rank(record: &Merged<'_>, recording: &Recording) -> u8 {
    match family(record, recording) {
        Some(Family::Wakeup { .. }) => 0,
        Some(Family::Switch { .. }) => SWITCH,
        _ => 1,
    }
}

fn family<'a>(record: &Merged<'_>, recording: &'a Recording) -> Option<&'a Family> {
    recording.named.get(record.event).map(|Event { family, .. }| family)
}

/// Places each switch after the one that switched in its outgoing thread.
fn chain(switches: &mut [Merged<'_>], recording: &Recording) {
    for at in 1..switches.len() {
        let rest: Vec<_> = switches[at - 1..].iter().map(|one| recording.switch_ids(one)).collect();
        let entered = |outgoing: i32| rest.iter().flatten().any(|(_, enters)| *enters == outgoing);
        let first = rest.iter().position(|one| one.is_some_and(|(outgoing, _)| !entered(outgoing)));
        switches[at - 1..].swap(0, first.unwrap_or(0));
    }
}
