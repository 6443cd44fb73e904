//! The order of records with the same time on one CPU, in a disordered file.

use std::collections::BTreeMap;

use schedlens_tracepoints::events::{Event, Family};

use crate::merged::Merged;
use crate::recording::Recording;

/// The thread that each CPU switched to last.
pub(crate) type Entered = BTreeMap<i32, i32>;

/// Sorts the records of one time, grouped by CPU: first wakeups, then records that are neither,
/// then the switches, each from the thread to which the previous one switched. `entered` is what
/// earlier times left, and is brought up to date.
pub(crate) fn sort(records: &mut [Merged<'_>], recording: &Recording, entered: &mut Entered) {
    records.sort_by_key(|record| (record.cpu, rank(record, recording)));
    for switches in records.chunk_by_mut(|a, b| {
        a.cpu == b.cpu && rank(a, recording) == SWITCH && rank(b, recording) == SWITCH
    }) {
        let mut ids: Vec<_> = switches.iter().map(|one| recording.switch_ids(one)).collect();
        let Some(cpu) = switches.first().map(|one| one.cpu) else { continue };
        let mut running = entered.get(&cpu).copied();
        for at in 0..if ids.len() > MOST { 0 } else { ids.len() } {
            let first = at + next(&ids[at..], running);
            switches.swap(at, first);
            ids.swap(at, first);
            running = ids[at].map_or(running, |(_, enters)| Some(enters));
        }
        if let Some(running) = running {
            entered.insert(cpu, running);
        }
    }
}

/// Brings `entered` up to date with a record that is the only one at its time.
#[inline(always)]
pub(crate) fn enter(record: &Merged<'_>, recording: &Recording, entered: &mut Entered) {
    if rank(record, recording) == SWITCH
        && let Some((_, enters)) = recording.switch_ids(record)
    {
        entered.insert(record.cpu, enters);
    }
}

/// More switches of a CPU at one time are damage, and keep their order: each step searches them all.
const MOST: usize = 64;

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

/// Which of the switches, as threads that leave and enter, comes first: one that nothing precedes.
/// If they go round in a circle, it is one that the running thread leaves by, and that another
/// switch can follow.
fn next(switches: &[Option<(i32, i32)>], running: Option<i32>) -> usize {
    let known = || switches.iter().enumerate().filter_map(|(at, ids)| Some((at, (*ids)?)));
    let is_entered = |outgoing: i32| known().any(|(_, (_, enters))| enters == outgoing);
    let is_left = |entering: i32| known().any(|(_, (leaves, _))| leaves == entering);
    let mut first = known().filter(|(_, (leaves, _))| !is_entered(*leaves));
    let mut of_running = known().filter(|(_, (leaves, _))| Some(*leaves) == running);
    first
        .next()
        .or_else(|| of_running.clone().find(|(_, (_, enters))| is_left(*enters)))
        .or_else(|| of_running.next())
        .map_or(0, |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::next;

    #[test]
    fn a_switch_comes_after_the_one_that_enters_its_thread() {
        assert_eq!(next(&[Some((2, 3)), Some((1, 2))], None), 1);
        assert_eq!(next(&[Some((2, 3)), Some((1, 2))], Some(2)), 1);
    }

    #[test]
    fn a_circle_begins_with_the_running_thread() {
        assert_eq!(next(&[Some((0, 1)), Some((1, 0))], Some(1)), 1);
        assert_eq!(next(&[Some((0, 1)), Some((1, 0))], Some(0)), 0);
        assert_eq!(next(&[Some((0, 1)), Some((1, 0))], None), 0);
        // 1 to 0, back, and then to 2.
        assert_eq!(next(&[Some((1, 2)), Some((0, 1)), Some((1, 0))], Some(1)), 2);
    }

    #[test]
    fn unknown_switches_come_last() {
        assert_eq!(next(&[None, Some((0, 1))], Some(0)), 1);
        assert_eq!(next(&[None, None], Some(0)), 0);
    }
}
