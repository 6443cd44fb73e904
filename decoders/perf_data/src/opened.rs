//! The CPUs on which the events of context switches were opened. `perf record -C` opens them on some
//! only; nothing is known about the others, although they look as if they had been quiet.

use std::collections::BTreeSet;

use schedlens_input::bytes::{CPU_LIMIT, u64_at};
use schedlens_tracepoints::events::{Event, Family};

use crate::features::Features;
use crate::ids::Events;
use crate::index::Index;
use crate::loss::LostRecords;
use crate::record::{ID_INDEX, Record};
use crate::streams::NO_CPU;
use crate::topology;

/// The value of `loss.signalled_by` for CPUs that were not recorded.
const NOT_RECORDED: &str = "not_recorded";
/// Size of a `PERF_RECORD_ID_INDEX` before its entries.
const HEAD: usize = 16;
/// Size of an entry: id, position, CPU and thread of an event.
const ENTRY: usize = 32;

/// What a file states about where its events were opened.
#[derive(Debug)]
pub(crate) struct Opened {
    /// By event: it shows who ran. If none does, all count.
    counts: Vec<bool>,
    cpus: BTreeSet<i32>,
    /// An event follows a thread to every CPU.
    anywhere: bool,
}

impl Opened {
    pub(crate) fn new(events: &Events, named: &[Event]) -> Self {
        let mut counts: Vec<bool> = events
            .attrs
            .iter()
            .zip(named)
            .map(|(attr, event)| {
                attr.has_switch_events() || matches!(event.family, Family::Switch { .. })
            })
            .collect();
        if !counts.contains(&true) {
            counts.fill(true);
        }
        Self { counts, cpus: BTreeSet::new(), anywhere: false }
    }

    /// Reads a `PERF_RECORD_ID_INDEX`; other records change nothing.
    pub(crate) fn take(&mut self, record: &Record<'_>, events: &Events) {
        if record.kind != ID_INDEX {
            return;
        }
        let most = usize::try_from(u64_at(record.bytes, 8).unwrap_or_default());
        let entries = record.bytes.get(HEAD..).unwrap_or_default().chunks_exact(ENTRY);
        for entry in entries.take(most.unwrap_or(usize::MAX)) {
            let event = u64_at(entry, 0).and_then(|id| events.by_id(id));
            if event.and_then(|event| self.counts.get(event)) != Some(&true) {
                continue;
            }
            let cpu = u64_at(entry, 16).and_then(|cpu| i32::try_from(cpu).ok());
            match cpu.filter(|cpu| *cpu < CPU_LIMIT) {
                Some(cpu) => _ = self.cpus.insert(cpu),
                None => self.anywhere = true,
            }
        }
    }

    /// A gap without bounds for each CPU that was online and not recorded.
    pub(crate) fn not_recorded(
        &self,
        events: &Events,
        features: &Features,
        index: &Index,
        of_chosen_threads: bool,
    ) -> Vec<LostRecords> {
        let seen: BTreeSet<i32> =
            index.first_times().map(|(cpu, _)| cpu).filter(|cpu| *cpu != NO_CPU).collect();
        let seen: Vec<i32> = seen.into_iter().collect();
        let cpus = topology::cpus(features, &seen);
        let online: Vec<i32> =
            cpus.iter().filter(|cpu| cpu.online == Some(true)).map(|cpu| cpu.cpu).collect();
        let is_listed = !self.cpus.is_empty();
        // perf before 6.0 writes no list. An event has an id for each CPU on which it was opened.
        let ids = events.attrs.iter().zip(&self.counts).filter(|(_, counts)| **counts);
        let most = ids.map(|(attr, _)| attr.ids.len()).max().unwrap_or_default();
        // The kernel counts ids from 1. A file that was made from a text counts its events from 0.
        let is_made = events.attrs.iter().any(|attr| attr.ids.contains(&0));
        let is_short = !of_chosen_threads && !is_made && (1..online.len()).contains(&most);
        if seen.is_empty() || self.anywhere || !(is_listed || is_short) {
            return Vec::new();
        }
        online
            .into_iter()
            .filter(|cpu| !self.cpus.contains(cpu) && seen.binary_search(cpu).is_err())
            .map(|cpu| LostRecords {
                cpu,
                before: None,
                until: None,
                events: None,
                signalled_by: NOT_RECORDED,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use schedlens_tracepoints::events::CommonFields;

    use super::*;
    use crate::attrs::Attr;
    use crate::record::COMM;
    use crate::streams::{Placed, Span};

    const SAMPLE_TIME: u64 = 1 << 2;
    const CONTEXT_SWITCH: u64 = 1 << 26;
    const THREAD: u64 = u64::MAX;

    /// An event with these ids; the first of two shows switches.
    fn event(ids: &[u64], flags: u64) -> Attr {
        let mut bytes = vec![0; 128];
        bytes[24..32].copy_from_slice(&SAMPLE_TIME.to_le_bytes());
        bytes[40..48].copy_from_slice(&flags.to_le_bytes());
        Attr { ids: ids.to_vec(), ..Attr::read(&bytes).expect("an event") }
    }

    /// A list of event ids, each with the CPU on which it was opened.
    fn list(entries: &[(u64, u64)]) -> Vec<u8> {
        let mut bytes = vec![0; 8];
        bytes.extend((entries.len() as u64).to_le_bytes());
        for (id, cpu) in entries {
            bytes.extend([*id, 0, *cpu, THREAD].iter().flat_map(|value| value.to_le_bytes()));
        }
        bytes
    }

    /// The CPUs that were not recorded. Three are online, and CPU 0 has records.
    fn missing(attrs: Vec<Attr>, listed: &[u8], of_chosen_threads: bool) -> Vec<i32> {
        let events = Events::new(attrs).expect("times");
        let other =
            Event { name: String::new(), family: Family::Other, common: CommonFields::default() };
        let named = vec![other; events.attrs.len()];
        let mut opened = Opened::new(&events, &named);
        opened.take(&Record { kind: ID_INDEX, misc: 0, bytes: listed, length: 0 }, &events);
        opened.take(&Record { kind: COMM, misc: 0, bytes: &list(&[(1, 2)]), length: 0 }, &events);
        let features =
            Features { cpus_available: Some(3), cpus_online: Some(3), ..Features::default() };
        let mut index = Index::default();
        let comm = Record { kind: COMM, misc: 0, bytes: &[], length: 0 };
        let span = Span { segment: 0, start: 0, end: 0 };
        index.place_record(Placed { ts: 5, cpu: 0, event: 0 }, &comm, (5, span));
        let gaps = opened.not_recorded(&events, &features, &index, of_chosen_threads);
        gaps.iter().map(|gap| gap.cpu).collect()
    }

    #[test]
    fn cpus_on_which_no_switch_event_was_opened_are_not_recorded() {
        let switches = || event(&[1, 2, 3], CONTEXT_SWITCH);
        assert_eq!(missing(vec![switches()], &list(&[(1, 0), (2, 2)]), false), [1]);
        assert_eq!(missing(vec![switches()], &list(&[(1, 0), (2, 2)]), true), [1]);
        assert_eq!(missing(vec![switches()], &list(&[(1, 0), (2, 1), (3, 2)]), false), [0; 0]);
        // Opened for a thread, on any CPU.
        assert_eq!(missing(vec![switches()], &list(&[(1, 0), (2, THREAD)]), false), [0; 0]);
        // A counter of one core type.
        let both = || vec![switches(), event(&[4], 0)];
        assert_eq!(missing(both(), &list(&[(1, 0), (2, 1), (3, 2), (4, 1)]), false), [0; 0]);
        assert_eq!(missing(both(), &list(&[(1, 0), (4, 1)]), false), [1, 2]);
        // Without switches, every event counts.
        assert_eq!(missing(vec![event(&[1], 0)], &list(&[(1, 0), (9, 1)]), false), [1, 2]);
    }

    #[test]
    fn without_a_list_the_number_of_ids_shows_that_cpus_are_missing() {
        let of = |ids: &[u64]| vec![event(ids, CONTEXT_SWITCH)];
        assert_eq!(missing(of(&[1]), &[], false), [1, 2]);
        assert_eq!(missing(of(&[1, 2, 3]), &[], false), [0; 0]);
        assert_eq!(missing(of(&[]), &[], false), [0; 0]);
        // Made from a text.
        assert_eq!(missing(of(&[0]), &[], false), [0; 0]);
        // One id for each thread.
        assert_eq!(missing(of(&[1]), &[], true), [0; 0]);
    }

    #[test]
    fn damaged_lists_are_read_as_far_as_they_go() {
        let of = || vec![event(&[1, 2, 3], CONTEXT_SWITCH)];
        let whole = list(&[(1, 0), (2, 1), (3, 2)]);
        assert_eq!(missing(of(), &whole[..16 + 32 + 31], false), [1, 2]);
        let mut counted = whole.clone();
        counted[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(missing(of(), &counted, false), [0; 0]);
        counted[8] = 1;
        counted[9..16].fill(0);
        assert_eq!(missing(of(), &counted, false), [1, 2]);
        // An impossible CPU may be any.
        assert_eq!(missing(of(), &list(&[(1, 0), (2, 1 << 40)]), false), [0; 0]);
        assert_eq!(missing(of(), &[0; 3], false), [0; 0]);
    }
}
