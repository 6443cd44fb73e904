//! Invariants of every schedule.

use std::collections::BTreeMap;

use super::answer::{Answer, Entry};
use super::schedule::{Dice, lossless, lossy};
use super::timeline::{Row, Timeline, Value, long, utid};

/// `BEGIN..END` in a line.
fn span(line: &str) -> (i64, i64) {
    let range = line.split(' ').find(|word| word.contains("..")).expect("a range");
    let (from, to) = range.split_once("..").expect("two times");
    (from.parse().expect("a time"), to.parse().expect("a time"))
}

/// Checks that lines follow each other without a gap or an overlap.
fn tile(lines: &[String], from: i64, what: &str) -> i64 {
    let mut at = from;
    for line in lines {
        let (begin, end) = span(line);
        assert_eq!(begin, at, "{what}: {lines:#?}");
        at = end;
    }
    at
}

/// Invariants of any answer to a timeline, whatever was lost.
pub(crate) fn check(timeline: &Timeline, answer: &Answer) {
    for cpu in answer.cpus() {
        assert_eq!(tile(&answer.cpu(cpu), timeline.first, "cpu"), timeline.last);
    }
    let states = answer.states();
    let mut by_thread: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    for line in &states {
        let (thread, rest) = line.split_once(' ').expect("thread");
        by_thread.entry(thread.parse().expect("number")).or_default().push(rest.to_owned());
    }
    for row in &timeline.threads {
        let thread = long(row, "utid") - utid(0);
        let lines = by_thread.remove(&thread).unwrap_or_default();
        if row.contains(&("is_idle", Value::Bool(true))) {
            assert_eq!(lines, Vec::<String>::new());
            continue;
        }
        let start = row
            .iter()
            .find(|(name, _)| *name == "start_ns")
            .map_or(timeline.first, |_| long(row, "start_ns"));
        let end = tile(&lines, start, "thread");
        let exits = row.iter().any(|(name, _)| *name == "end_ns");
        let left = timeline.tables.iter().any(|(table, row)| {
            *table == "context_switch"
                && long(row, "prev_utid") == utid(thread)
                && long(row, "prev_state") & 0x30 != 0
        });
        assert!(end == timeline.last || exits || left, "{thread} ends at {end}: {lines:#?}");
    }
    assert!(by_thread.is_empty(), "{by_thread:?}");
}

/// Everything in an answer, for comparison.
fn all(answer: &Answer) -> Vec<String> {
    let mut lines = answer.states();
    lines.extend(answer.slices());
    for cpu in answer.cpus() {
        lines.extend(answer.cpu(cpu).into_iter().map(|line| format!("cpu{cpu} {line}")));
    }
    lines.extend(answer.wakings().iter().map(|waking| format!("{waking:?}")));
    lines.extend(answer.losses());
    lines.extend(answer.problems());
    lines
}

#[test]
fn states_tile_lives_and_cpus_whatever_is_lost() {
    for seed in 0..400 {
        for timeline in [lossless(seed, 80), lossy(seed, 80)] {
            check(&timeline, &timeline.run());
        }
    }
}

#[test]
fn a_lossless_schedule_has_no_loss_and_no_thread_in_two_places() {
    for seed in 0..400 {
        let answer = lossless(seed, 80).run();
        assert_eq!(answer.losses(), Vec::<String>::new(), "seed {seed}");
        for problem in answer.problems() {
            assert!(problem.contains("without a waking"), "seed {seed}: {problem}");
        }
    }
}

#[test]
fn chunk_boundaries_change_nothing() {
    for seed in 0..200 {
        for timeline in [lossless(seed, 60), lossy(seed, 60)] {
            let whole = all(&timeline.run());
            let mut dice = Dice::new(seed + 7);
            let every: Vec<i64> = (0..=timeline.last).collect();
            let some: Vec<i64> = every.iter().copied().filter(|_| dice.roll(10) == 0).collect();
            assert_eq!(all(&timeline.run_cut(&every)), whole, "seed {seed}, cut at every time");
            assert_eq!(all(&timeline.run_cut(&some)), whole, "seed {seed}, cut at {some:?}");
        }
    }
}

#[test]
fn permuting_records_of_equal_time_on_different_cpus_changes_nothing() {
    for seed in 0..200 {
        for timeline in [lossless(seed, 60), lossy(seed, 60)] {
            let whole = all(&timeline.run());
            let mut other = timeline.clone();
            // Each CPU's records keep their order.
            other.tables.sort_by_key(|(_, row)| {
                (long(row, "ts"), (long(row, "cpu") * 7 + 3 + seed as i64) % 5, long(row, "seq"))
            });
            assert_eq!(all(&other.run()), whole, "seed {seed}");
        }
    }
}

/// A slice, found by chaining the switches of a CPU.
#[derive(Clone, Debug)]
struct SeenSlice {
    from: Option<i64>,
    to: Option<i64>,
    cpu: i64,
    /// Positions of its switch-in and its switch-out.
    seq: i64,
    out_seq: i64,
    state: i64,
}

impl SeenSlice {
    /// Whether its CPU recorded a wakeup after its switch-in at the same time.
    fn precedes(&self, row: &Row) -> bool {
        let here = long(row, "cpu") == self.cpu && Some(long(row, "ts")) == self.from;
        here && long(row, "seq") > self.seq
    }

    /// Whether its CPU recorded a wakeup in it although the times do not show that.
    fn has(&self, row: &Row) -> bool {
        let (ts, seq) = (long(row, "ts"), long(row, "seq"));
        let (enters, leaves) = (Some(ts) == self.from, Some(ts) == self.to);
        let here = long(row, "cpu") == self.cpu && (enters || leaves);
        here && (!enters || seq > self.seq) && (!leaves || seq < self.out_seq)
    }
}

/// Ready and wait of every switch-in, found without any state: all slices of a thread and all its
/// wakeups, compared directly. Lines as (thread, switch-in, ready, wait, waker).
fn by_hand(timeline: &Timeline) -> (Vec<Entry>, Vec<i64>) {
    let table = |name: &str| -> Vec<&Row> {
        timeline.tables.iter().filter(|(table, _)| *table == name).map(|(_, row)| row).collect()
    };
    let mut switches = table("context_switch");
    switches.sort_by_key(|row| (long(row, "cpu"), long(row, "ts"), long(row, "seq")));
    let mut by_thread: BTreeMap<i64, Vec<SeenSlice>> = BTreeMap::new();
    for (place, row) in switches.iter().enumerate() {
        let (cpu, ts, seq) = (long(row, "cpu"), long(row, "ts"), long(row, "seq"));
        if place == 0 || long(switches[place - 1], "cpu") != cpu {
            let state = long(row, "prev_state");
            let first = SeenSlice { from: None, to: Some(ts), cpu, seq: 0, out_seq: seq, state };
            by_thread.entry(long(row, "prev_utid")).or_default().push(first);
        }
        let next = switches.get(place + 1).filter(|next| long(next, "cpu") == cpu);
        by_thread.entry(long(row, "next_utid")).or_default().push(SeenSlice {
            from: Some(ts),
            to: next.map(|next| long(next, "ts")),
            cpu,
            seq,
            out_seq: next.map_or(0, |next| long(next, "seq")),
            state: next.map_or(0, |next| long(next, "prev_state")),
        });
    }
    let all_switch = timeline.tables.iter().all(|(_, row)| {
        let cpu = long(row, "cpu");
        switches.iter().any(|switch| long(switch, "cpu") == cpu)
    });
    let (mut lines, mut effective) = (Vec::new(), Vec::new());
    for row in &timeline.threads {
        let thread = long(row, "utid");
        if row.contains(&("is_idle", Value::Bool(true))) {
            continue;
        }
        let start = row.iter().any(|(name, _)| *name == "start_ns").then(|| long(row, "start_ns"));
        let mut slices = by_thread.remove(&thread).unwrap_or_default();
        slices.sort_by_key(|slice| {
            (slice.from.unwrap_or(i64::MIN), slice.to.unwrap_or(i64::MAX), slice.cpu, slice.seq)
        });
        let mut wakings: Vec<&Row> =
            table("wakeup").into_iter().filter(|row| long(row, "utid") == thread).collect();
        wakings.sort_by_key(|row| (long(row, "ts"), long(row, "cpu"), long(row, "seq")));
        // The first wakeup outside the slices, or the last one in the first of them.
        let take = |wakings: &mut Vec<&Row>,
                    wakeup: bool,
                    (from, to): (i64, i64),
                    slices: [Option<&SeenSlice>; 2],
                    last: bool| {
            let fits = |row: &&Row| {
                let is_wakeup = row.contains(&("kind", Value::Text("wakeup")));
                let before = slices[0].is_some_and(|slice| slice.has(row));
                let now = slices[1].is_some_and(|slice| slice.precedes(row));
                let fits = if last {
                    before || (from..=to).contains(&long(row, "ts"))
                } else {
                    !before && !now && (from..=to).contains(&long(row, "ts"))
                };
                fits && is_wakeup == wakeup
            };
            let place =
                if last { wakings.iter().rposition(fits) } else { wakings.iter().position(fits) };
            place.map(|place| wakings.remove(place).clone())
        };
        let mut before: Option<SeenSlice> = None;
        for slice in slices {
            let Some(entered) = slice.from else {
                before = Some(slice);
                continue;
            };
            let out = before.as_ref().and_then(|slice| slice.to);
            let runnable = before.as_ref().is_some_and(|slice| slice.state & 0xff == 0);
            let (mut ready, mut wait, mut waker) = (None, None, None);
            if let (Some(out), true) = (out, runnable) {
                (ready, wait) = (Some(entered - out), Some(0));
            } else {
                let from = out.or(start).unwrap_or(i64::MIN);
                let slice_from = before.as_ref().and_then(|slice| slice.from);
                // During the previous slice: neither at its first nor at its last time.
                let during = out.map(|out| (slice_from.map_or(i64::MIN, |from| from + 1), out - 1));
                let mut found = None;
                let pair = [before.as_ref(), Some(&slice)];
                for wakeup in [false, true] {
                    if found.is_none() {
                        found = take(&mut wakings, wakeup, (from, entered), pair, false)
                            .map(|row| (long(&row, "ts"), row));
                    }
                    if let (None, Some(during)) = (&found, during) {
                        found =
                            take(&mut wakings, wakeup, during, pair, true).map(|row| (from, row));
                    }
                }
                if let Some((ready_from, row)) = found {
                    effective.push(long(&row, "seq"));
                    ready = Some(entered - ready_from);
                    waker = Some(long(&row, "waker_utid") - utid(0));
                    wait = out.map(|out| ready_from - out);
                }
                if start.is_some() && before.is_none() {
                    wait = Some(0);
                }
            }
            lines.push((thread - utid(0), entered, ready, wait, waker));
            before = Some(slice);
        }
        // Ready at the end of the recording.
        if let Some(SeenSlice { from, to: Some(out), state, .. }) = before
            && state & 0x30 == 0
            && state & 0xff != 0
        {
            let slice_from = from.map_or(i64::MIN, |from| from + 1);
            let during = (slice_from, out - 1);
            let pair = [before.as_ref(), None];
            let open = [false, true].into_iter().find_map(|wakeup| {
                take(&mut wakings, wakeup, (out, i64::MAX), pair, false)
                    .or_else(|| take(&mut wakings, wakeup, during, pair, true))
            });
            effective.extend(open.map(|row| long(&row, "seq")));
        } else if before.is_none() && (start.is_some() || all_switch) {
            let always = (i64::MIN, i64::MAX);
            let open = take(&mut wakings, false, always, [None, None], false).or_else(|| {
                if start.is_some() {
                    None
                } else {
                    take(&mut wakings, true, always, [None; 2], false)
                }
            });
            effective.extend(open.map(|row| long(&row, "seq")));
        }
    }
    lines.sort();
    effective.sort_unstable();
    (lines, effective)
}

/// Whether a thread is woken at a time at which it has an empty slice. The second method cannot
/// order three events of one time.
fn has_woken_empty_slice(timeline: &Timeline) -> bool {
    let rows = |name: &'static str| {
        timeline.tables.iter().filter(move |(table, _)| *table == name).map(|(_, row)| row)
    };
    rows("wakeup").any(|waking| {
        let at = |row: &&Row| long(row, "ts") == long(waking, "ts");
        let thread = long(waking, "utid");
        rows("context_switch").filter(at).any(|row| long(row, "next_utid") == thread)
            && rows("context_switch").filter(at).any(|row| long(row, "prev_utid") == thread)
    })
}

#[test]
fn ready_and_wait_agree_with_a_second_way_to_find_them() {
    let mut compared = 0;
    for seed in 0..600 {
        let timeline = lossless(seed, 120);
        if has_woken_empty_slice(&timeline) {
            continue;
        }
        let answer = timeline.run();
        let (expected, effective) = by_hand(&timeline);
        for (found, expected) in answer.entries().iter().zip(&expected) {
            assert_eq!(found, expected, "seed {seed}");
        }
        assert_eq!(answer.entries().len(), expected.len(), "seed {seed}");
        assert_eq!(answer.effective(), effective, "seed {seed}");
        compared += expected.len();
    }
    assert_eq!(compared, 15_860, "the schedules have changed");
}
