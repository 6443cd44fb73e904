//! Records whose time does not fit those around it: damage, or a clock that stepped.
//!
//! The buffers of a CPU are numbered in time order, and so are the records in a buffer. A time is
//! accepted if it is within the session and in the longest non-decreasing run of times. The others
//! are skipped, and what happened in that period is unknown.

use std::collections::BTreeMap;

use crate::compression::Unpacker;
use crate::container::buffer::HEADER;
use crate::container::clock::Clock;
use crate::container::header::{LogHeader, mode};
use crate::container::log::{Buffer, LogFile};
use crate::passes::walk::Walk;

/// A record may take its time before it reserves its space, so steps back up to this are not
/// damage.
const TOLERANCE_NS: i64 = 1_000_000;
/// The same if a buffer's records come from several CPUs or interrupted threads.
const MIXED_TOLERANCE_NS: i64 = 10_000_000_000;
/// Records may be this much older or newer than the session in the header.
const SLACK_NS: i64 = 1_000_000_000;
/// The same in merged files, whose rundowns are written after the session has ended.
const MERGED_SLACK_NS: i64 = 10_000_000_000;
/// Files with up to this many buffers are checked by all their records, others by the ends of the
/// buffers.
const FEW_BUFFERS: usize = 64;
/// A pause is not damage up to this length, or up to this multiple of the time around it.
const PAUSE_NS: i64 = 10_000_000_000;
const PAUSE_RATIO: i64 = 20;
/// If more than one in this many records is outside a range, the range is wrong.
const FEW: usize = 8;

pub(crate) const NO_FIT: &str = "a record whose time does not fit those around it: left out";
pub(crate) const STEPPED: &str = "a buffer that begins before the one before it on its CPU ended: \
                                  the clock went back, its records are left out";
/// This many records on both sides show that the clock stepped back, rather than that a time is
/// wrong.
const WITNESSES: usize = 2;

/// Skipped records of a buffer between two with accepted times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) buffer: u32,
    /// Offset of the first in the unpacked buffer, header included.
    pub(crate) at: u32,
    pub(crate) records: i64,
    pub(crate) before: Option<i64>,
    pub(crate) after: Option<i64>,
    pub(crate) what: &'static str,
}

/// Position of a record after its buffer's header, and its raw time.
type Timed = (u32, i64);

/// Finds the records of a file to skip, and removes their times from the windows of their buffers.
/// `unsorted`: buffers with a step back; those that are in order without these records are removed
/// from it.
pub(crate) fn leave_out(
    file: &mut LogFile,
    clock: &Clock,
    unsorted: &mut Vec<u32>,
) -> Vec<Stretch> {
    let mut judge = Judge { clock: *clock, unpacker: Unpacker::default(), room: Vec::new() };
    let range = judge.range(file);
    let mut bad: BTreeMap<u32, (Vec<u32>, &'static str)> = BTreeMap::new();
    let mixed = file.header.has(mode::MIXED) || file.header.has(mode::PRIVATE);
    let tolerance = judge.ticks(if mixed { MIXED_TOLERANCE_NS } else { TOLERANCE_NS });
    for index in 0..file.buffers.len() as u32 {
        let buffer = &file.buffers[index as usize];
        let Some((first, last)) = buffer.window else { continue };
        let outside = first < range.0 || last > range.1;
        if !outside && buffer.sorted {
            continue;
        }
        let times = judge.times(file, index, &bad);
        let loose = judge.ticks(MIXED_TOLERANCE_NS);
        let tolerance = if file.buffers[index as usize].header { loose } else { tolerance };
        let left_out = misfits(&times, range, tolerance);
        note(&mut bad, file, index, &times, &left_out);
    }
    if numbers_by_time(&file.header) {
        judge.streams(file, &mut bad);
    }
    let mut found = Vec::new();
    for (index, (places, what)) in &bad {
        let times = judge.all_times(file, *index);
        found.extend(stretches(*index, &times, places, what));
        let kept = without(&times, places);
        if kept.windows(2).all(|pair| pair[0].1 <= pair[1].1) {
            unsorted.retain(|other| other != index);
        }
        // Read it with the slower method that looks each record up.
        file.buffers[*index as usize].sorted = false;
    }
    file.left_out = bad.into_iter().map(|(index, (places, _))| (index, places)).collect();
    found
}

/// Whether a CPU's buffers are numbered in time order. They are not in combined sessions, nor if a
/// thread of the program fills them and may be interrupted.
fn numbers_by_time(header: &LogHeader) -> bool {
    ![mode::RELOG, mode::APPEND, mode::MIXED, mode::PRIVATE].into_iter().any(|bit| header.has(bit))
}

/// Adds skipped records of a buffer and shrinks the buffer's window.
fn note(
    bad: &mut BTreeMap<u32, (Vec<u32>, &'static str)>,
    file: &mut LogFile,
    index: u32,
    times: &[Timed],
    left_out: &[bool],
) {
    if !left_out.contains(&true) {
        return;
    }
    let places = times.iter().zip(left_out).filter(|(_, out)| **out).map(|((at, _), _)| *at);
    let (known, _) = bad.entry(index).or_insert_with(|| (Vec::new(), NO_FIT));
    known.extend(places);
    known.sort_unstable();
    let kept = || times.iter().zip(left_out).filter(|(_, out)| !**out).map(|((_, ts), _)| *ts);
    file.buffers[index as usize].window = kept().min().zip(kept().max());
}

/// The records except those at some positions.
fn without(times: &[Timed], places: &[u32]) -> Vec<Timed> {
    let kept = times.iter().filter(|(at, _)| places.binary_search(at).is_err());
    kept.copied().collect()
}

fn stretches(index: u32, times: &[Timed], places: &[u32], what: &'static str) -> Vec<Stretch> {
    let mut found: Vec<Stretch> = Vec::new();
    let mut open = false;
    let mut before = None;
    for (at, ts) in times {
        if places.binary_search(at).is_err() {
            if open && let Some(last) = found.last_mut() {
                last.after = Some(*ts);
            }
            (open, before) = (false, Some(*ts));
        } else if open && let Some(last) = found.last_mut() {
            last.records += 1;
        } else {
            let at = at + HEADER as u32;
            found.push(Stretch { buffer: index, at, records: 1, before, after: None, what });
            open = true;
        }
    }
    found
}

/// Which of the given records, in buffer order, are outside the range or more than the tolerance
/// outside the times of their neighbors.
fn misfits(times: &[Timed], (low, high): (i64, i64), tolerance: i64) -> Vec<bool> {
    let inside = |ts: i64| (low..=high).contains(&ts);
    let candidates: Vec<usize> = (0..times.len()).filter(|at| inside(times[*at].1)).collect();
    let values: Vec<i64> = candidates.iter().map(|at| times[*at].1).collect();
    let mut left_out: Vec<bool> = times.iter().map(|(_, ts)| !inside(*ts)).collect();
    let on_chain = longest_run(&values);
    let mut before = i64::MIN;
    let mut after: Vec<i64> = vec![i64::MAX; values.len() + 1];
    for at in (0..values.len()).rev() {
        after[at] = if on_chain[at] { values[at] } else { after[at + 1] };
    }
    for (at, value) in values.iter().enumerate() {
        if on_chain[at] {
            before = *value;
        } else if value.saturating_add(tolerance) < before
            || *value > after[at + 1].saturating_add(tolerance)
        {
            left_out[candidates[at]] = true;
        }
    }
    left_out
}

/// Members of the longest non-decreasing run of values.
fn longest_run(values: &[i64]) -> Vec<bool> {
    // The last member of the best run of each length, and the member before each.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; values.len()];
    for (at, value) in values.iter().enumerate() {
        let length = ends.partition_point(|end| values[*end] <= *value);
        before[at] = length.checked_sub(1).map(|shorter| ends[shorter]);
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut member = vec![false; values.len()];
    let mut at = ends.last().copied();
    while let Some(here) = at {
        member[here] = true;
        at = before[here];
    }
    member
}

struct Judge {
    clock: Clock,
    unpacker: Unpacker,
    room: Vec<u8>,
}

impl Judge {
    fn ticks(&self, ns: i64) -> i64 {
        let ticks = i128::from(ns) * i128::from(self.clock.hz) / 1_000_000_000;
        i64::try_from(ticks).unwrap_or(i64::MAX).max(1)
    }

    fn all_times(&mut self, file: &LogFile, index: u32) -> Vec<Timed> {
        let Some(buffer) = file.buffers.get(index as usize) else { return Vec::new() };
        file.source.fetch(file.range(buffer));
        let (records, _) = file.records(buffer, &mut self.unpacker, &mut self.room);
        let mut walk = Walk::new(&self.clock);
        let mut times = Vec::new();
        while let Some((at, head)) = walk.next(records, &self.clock, |_, _| {}) {
            times.push((at as u32, head.ts));
        }
        times
    }

    /// The records of a buffer without the skipped ones.
    fn times(
        &mut self,
        file: &LogFile,
        index: u32,
        bad: &BTreeMap<u32, (Vec<u32>, &'static str)>,
    ) -> Vec<Timed> {
        let times = self.all_times(file, index);
        match bad.get(&index) {
            Some((places, _)) => without(&times, places),
            None => times,
        }
    }

    /// Earliest and latest plausible raw time of a file's records.
    fn range(&mut self, file: &LogFile) -> (i64, i64) {
        let header = &file.header;
        let filled = |buffer: &&Buffer| !buffer.header && buffer.window.is_some();
        let records: usize = file.buffers.iter().filter(filled).map(|b| b.records as usize).sum();
        let mut points: Vec<i64> = Vec::new();
        if let Some(range) = self.session(header) {
            let outside = |buffer: &Buffer| {
                buffer.window.is_some_and(|(first, last)| first < range.0 || last > range.1)
            };
            let suspects: Vec<u32> = (0..file.buffers.len() as u32)
                .filter(|index| outside(&file.buffers[*index as usize]))
                .take(FEW_BUFFERS + file.buffers.len() / FEW)
                .collect();
            let mut strays = 0;
            for index in suspects {
                let times = self.all_times(file, index);
                let inside = |ts: &i64| (range.0..=range.1).contains(ts);
                strays += times.iter().filter(|(_, ts)| !inside(ts)).count();
            }
            if strays * FEW <= records {
                return range;
            }
            // If most records are outside the session, its own time may be damaged.
            points.push(header.start_clock);
        }
        let few = file.buffers.iter().filter(filled).count() <= FEW_BUFFERS;
        for index in 0..file.buffers.len() as u32 {
            let buffer = &file.buffers[index as usize];
            let Some((first, last)) = buffer.window.filter(|_| !buffer.header) else { continue };
            if few {
                points.extend(self.all_times(file, index).into_iter().map(|(_, ts)| ts));
            } else {
                points.extend([first, last]);
            }
        }
        points.sort_unstable();
        self.without_far_ends(&points)
    }

    /// The start and end of a closed session, from the header.
    fn session(&self, header: &LogHeader) -> Option<(i64, i64)> {
        if header.has(mode::APPEND) {
            return None;
        }
        let length =
            header.end_time?.checked_sub(header.start_time).filter(|length| *length > 0)?;
        let ns = i64::try_from(length).ok()?.checked_mul(100)?;
        let merged = header.has(mode::RELOG);
        let slack = self.ticks(if merged { MERGED_SLACK_NS } else { SLACK_NS });
        let end = header.start_clock.checked_add(self.ticks(ns))?;
        Some((header.start_clock.saturating_sub(slack), end.saturating_add(slack)))
    }

    /// The range around the middle of sorted times up to the first pause much longer than the time
    /// before it, unless many times follow the pause.
    fn without_far_ends(&self, points: &[i64]) -> (i64, i64) {
        let all = (i64::MIN, i64::MAX);
        let pause = self.ticks(PAUSE_NS);
        let middle = points.len() / 2;
        let far = |from: i64, to: i64, core: i64| {
            to.saturating_sub(from) > pause.max(core.saturating_mul(PAUSE_RATIO))
        };
        let (mut low, mut high) = all;
        for at in middle + 1..points.len() {
            let core = points[at - 1].saturating_sub(points[points.len() / 4]);
            if far(points[at - 1], points[at], core) && (points.len() - at) * FEW <= points.len() {
                high = points[at - 1];
                break;
            }
        }
        for at in (1..=middle).rev().filter(|at| *at < points.len()) {
            let core = points[points.len() * 3 / 4].saturating_sub(points[at]);
            if far(points[at - 1], points[at], core) && at * FEW <= points.len() {
                low = points[at];
                break;
            }
        }
        (low, high)
    }

    /// Whether several records of a buffer are earlier than several of the previous one.
    fn goes_back(
        &mut self,
        file: &LogFile,
        pair: &[u32],
        tolerance: i64,
        bad: &BTreeMap<u32, (Vec<u32>, &'static str)>,
    ) -> bool {
        let (first, second) = (self.times(file, pair[0], bad), self.times(file, pair[1], bad));
        let in_order = |times: Vec<Timed>| {
            let mut times: Vec<i64> = times.into_iter().map(|(_, ts)| ts).collect();
            times.sort_unstable();
            times
        };
        let (first, second) = (in_order(first), in_order(second));
        let last_but = first.len().checked_sub(WITNESSES).map(|at| first[at]);
        let following = second.get(WITNESSES - 1);
        matches!((last_but, following), (Some(late), Some(early))
            if late > early.saturating_add(tolerance))
    }

    /// Checks the buffers of each CPU in sequence.
    fn streams(&mut self, file: &mut LogFile, bad: &mut BTreeMap<u32, (Vec<u32>, &'static str)>) {
        let tolerance = self.ticks(TOLERANCE_NS);
        let mut streams: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
        for (index, buffer) in file.buffers.iter().enumerate() {
            if let (Some(cpu), Some(_)) = (buffer.cpu, buffer.window) {
                streams.entry(cpu).or_default().push(index as u32);
            }
        }
        for mut buffers in streams.into_values() {
            buffers.sort_by_key(|index| {
                let buffer = &file.buffers[*index as usize];
                (buffer.sequence, buffer.offset)
            });
            let overlap = |file: &LogFile, pair: &[u32]| {
                let window = |index: u32| file.buffers[index as usize].window;
                let (Some((_, last)), Some((first, _))) = (window(pair[0]), window(pair[1])) else {
                    return false;
                };
                last > first.saturating_add(tolerance)
            };
            if !buffers.windows(2).any(|pair| overlap(file, pair)) {
                continue;
            }
            // The middle of a buffer represents its time, regardless of its first and last time.
            let middle = |times: Vec<Timed>| {
                let mut times: Vec<i64> = times.into_iter().map(|(_, ts)| ts).collect();
                times.sort_unstable();
                times.get(times.len() / 2).copied().unwrap_or_default()
            };
            // If the clock went back for good, every later time is wrong.
            let stepped = (1..buffers.len()).find_map(|at| {
                let pair = &buffers[at - 1..=at];
                if !overlap(file, pair) || !self.goes_back(file, pair, tolerance, bad) {
                    return None;
                }
                let window = |place: usize| file.buffers[buffers[place] as usize].window;
                let (here_first, here_last) = window(at)?;
                if middle(self.times(file, pair[0], bad)) <= here_last {
                    return Some(at);
                }
                let Some(two) = at.checked_sub(2) else {
                    // Only the session's start shows which of the first two buffers is wrong.
                    return Some(usize::from(here_first < file.header.start_clock));
                };
                // A buffer that is mostly later than the next one is wrong, or the clock went back
                // behind it. Only an earlier buffer could decide.
                let is_late = window(two).is_some_and(|(_, last)| last > here_first);
                Some(if is_late { at } else { at - 1 })
            });
            for index in buffers.split_off(stepped.unwrap_or(buffers.len())) {
                let times = self.times(file, index, bad);
                note(bad, file, index, &times, &vec![true; times.len()]);
                if let Some((_, what)) = bad.get_mut(&index) {
                    *what = STEPPED;
                }
            }
            let middles: Vec<i64> =
                buffers.iter().map(|index| middle(self.times(file, *index, bad))).collect();
            let on_chain = longest_run(&middles);
            let (mut chain, mut centers) = (Vec::new(), Vec::new());
            for ((index, center), kept) in buffers.iter().zip(&middles).zip(on_chain) {
                if kept {
                    chain.push(*index);
                    centers.push(*center);
                    continue;
                }
                let times = self.times(file, *index, bad);
                note(bad, file, *index, &times, &vec![true; times.len()]);
                if let Some((_, what)) = bad.get_mut(index) {
                    *what = STEPPED;
                }
            }
            for (pair, centers) in chain.windows(2).zip(centers.windows(2)) {
                if !overlap(file, pair) {
                    continue;
                }
                let (first, second) =
                    (self.times(file, pair[0], bad), self.times(file, pair[1], bad));
                let both: Vec<Timed> = first.iter().chain(&second).copied().collect();
                // Anything beyond the middle of the other buffer is far off.
                let mut left_out = misfits(&both, (i64::MIN, i64::MAX), tolerance);
                for (at, (_, ts)) in both.iter().enumerate() {
                    left_out[at] |= if at < first.len() {
                        *ts > centers[1].saturating_add(tolerance)
                    } else {
                        ts.saturating_add(tolerance) < centers[0]
                    };
                }
                note(bad, file, pair[0], &first, &left_out[..first.len()]);
                note(bad, file, pair[1], &second, &left_out[first.len()..]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_run_skips_values_out_of_order() {
        let members = |values: &[i64]| longest_run(values).iter().map(|m| u8::from(*m)).collect();
        let found: Vec<u8> = members(&[1, 2, 90, 3, 4]);
        assert_eq!(found, [1, 1, 0, 1, 1]);
        let found: Vec<u8> = members(&[5, 5, 1, 6]);
        assert_eq!(found, [1, 1, 0, 1]);
        let found: Vec<u8> = members(&[]);
        assert!(found.is_empty());
    }

    #[test]
    fn small_steps_back_are_not_damage() {
        let times: Vec<Timed> = [10, 30, 20, 500, 40].into_iter().map(|ts| (0, ts)).collect();
        let all = (i64::MIN, i64::MAX);
        assert_eq!(misfits(&times, all, 100), [false, false, false, true, false]);
        assert_eq!(misfits(&times, all, 1_000), [false; 5]);
        assert_eq!(misfits(&times, (15, 499), 1_000), [true, false, false, true, false]);
    }
}
