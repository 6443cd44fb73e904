//! Quantum-end chains: threads that hand one CPU to each other only when their quantum is used up.

use std::collections::HashMap;

use super::input::SliceRow;

/// Minimum hand-offs in a chain.
const HAND_OFFS: i32 = 3;
/// Maximum threads in a chain; one more starts a new chain.
const THREADS: usize = 8;
/// A slice shorter than this that began with a preemption is skipped.
const SHORT_NS: i64 = 1_000_000;

/// Values of [`SliceRow::ended`].
const QUANTUM_END: i8 = 1;
const QUANTUM_END_OR_YIELD: i8 = 2;
const PREEMPTED: i8 = 3;
const RUNNABLE_OTHER: i8 = 4;

/// What the rules need to know about the recording.
#[derive(Clone, Copy, Debug)]
pub struct ChainRules {
    /// Length of the system's tick, ns.
    pub tick_ns: i64,
    /// The quantum ends at ticks, as on Linux.
    pub by_tick: bool,
    /// The recording contains `sched_yield`, so a quantum end can be distinguished from a yield.
    pub yields_recorded: bool,
}

/// A finished chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Logical CPU.
    pub cpu: i32,
    /// Switch-in of the first thread that hands over.
    pub start_ns: i64,
    /// Switch-out of the last thread that takes over.
    pub end_ns: i64,
    /// Number of hand-offs.
    pub hand_offs: i32,
    /// Its threads in order of appearance.
    pub utids: Vec<i64>,
    /// Median running time of a slice that ends in a hand-off.
    pub slice_ns: i64,
    /// Number of skipped short slices.
    pub skipped: i32,
    /// Some hand-off may be a yield.
    pub yield_possible: bool,
}

/// The slice at the end of the chain, or one that may start a chain. Pieces separated only by
/// skipped slices count as one.
struct Holder {
    utid: i64,
    start_ns: i64,
    end_ns: i64,
    ran_ns: i64,
    pieces: u32,
    ended: i8,
    skipped: i32,
}

impl Holder {
    fn new(slice: &SliceRow) -> Self {
        Self {
            utid: slice.utid,
            start_ns: slice.ts,
            end_ns: slice.ts + slice.dur,
            ran_ns: slice.dur,
            pieces: 1,
            ended: slice.ended,
            skipped: 0,
        }
    }
}

struct Open {
    start_ns: i64,
    utids: Vec<i64>,
    slices: Vec<i64>,
    hand_offs: i32,
    skipped: i32,
    yield_possible: bool,
}

/// The consecutive slices of one CPU.
#[derive(Default)]
struct Track {
    holder: Option<Holder>,
    /// Threads whose short slices are being skipped, with their running time.
    aside: Vec<(i64, i64)>,
    skipped_slices: i32,
    last_end_ns: i64,
    last_ended: i8,
    open: Option<Open>,
}

/// Finds the chains of a recording from its slices in time order.
pub struct Chains {
    rules: ChainRules,
    tracks: HashMap<i32, Track>,
    found: Vec<Chain>,
}

impl Chains {
    /// Starts without any slice.
    pub fn new(rules: ChainRules) -> Self {
        Self { rules, tracks: HashMap::new(), found: Vec::new() }
    }

    /// The next slice of a thread other than an idle thread.
    pub fn push(&mut self, slice: &SliceRow) {
        let track = self.tracks.entry(slice.cpu).or_default();
        let follows = track.holder.is_some() && track.last_end_ns == slice.ts;
        let preempts = follows && track.last_ended == PREEMPTED;
        if slice.dur == 0 {
            // It takes no time from the chain: count it if it preempts, otherwise ignore it.
            if preempts {
                track.skipped_slices += 1;
                track.last_ended = slice.ended;
            }
            return;
        }
        track.last_end_ns = slice.ts.saturating_add(slice.dur);
        track.last_ended = slice.ended;
        let slice = SliceRow { dur: track.last_end_ns - slice.ts, ..*slice };
        if !follows {
            track.close(slice.cpu, &mut self.found);
            track.begin(&slice);
        } else if track.resumes(&slice) || track.skip_if_short(&slice, preempts) {
            // Either a slice that continues what came before, or one that is skipped.
        } else {
            track.hand_over(&slice, self.rules, &mut self.found);
        }
    }

    /// All chains, by time and CPU.
    pub fn finish(mut self) -> Vec<Chain> {
        for (cpu, track) in &mut self.tracks {
            track.close(*cpu, &mut self.found);
        }
        self.found.sort_by_key(|chain| (chain.start_ns, chain.cpu));
        self.found
    }
}

impl Track {
    fn begin(&mut self, slice: &SliceRow) {
        self.holder = Some(Holder::new(slice));
        self.aside.clear();
        self.skipped_slices = 0;
    }

    /// Whether the thread that ran before the skipped slices resumes.
    fn resumes(&mut self, slice: &SliceRow) -> bool {
        let Some(holder) = self.holder.as_mut().filter(|holder| holder.utid == slice.utid) else {
            return false;
        };
        holder.end_ns = slice.ts + slice.dur;
        holder.ran_ns += slice.dur;
        holder.pieces += 1;
        holder.ended = slice.ended;
        holder.skipped += self.skipped_slices;
        self.aside.clear();
        self.skipped_slices = 0;
        true
    }

    /// Whether this is a short slice that began with a preemption, or the rest of one that was
    /// itself preempted.
    fn skip_if_short(&mut self, slice: &SliceRow, preempts: bool) -> bool {
        if let Some(at) = self.aside.iter().position(|(utid, _)| *utid == slice.utid) {
            if self.aside[at].1 + slice.dur >= SHORT_NS {
                return false;
            }
            self.aside.truncate(at + 1);
            self.aside[at].1 += slice.dur;
            return true;
        }
        if preempts && slice.dur < SHORT_NS {
            self.aside.push((slice.utid, slice.dur));
            self.skipped_slices += 1;
            return true;
        }
        false
    }

    fn hand_over(&mut self, slice: &SliceRow, rules: ChainRules, found: &mut Vec<Chain>) {
        let Some(holder) = &self.holder else { return self.begin(slice) };
        let by = self.leaves_by_quantum_end(holder, rules);
        let was_ready = slice.ready_from_ns.is_some_and(|from| from <= holder.start_ns);
        let (Some(may_be_yield), true) = (by, was_ready) else {
            self.close(slice.cpu, found);
            return self.begin(slice);
        };
        let ninth = self
            .open
            .as_ref()
            .is_some_and(|open| open.utids.len() == THREADS && !open.utids.contains(&slice.utid));
        if ninth {
            self.close(slice.cpu, found);
        }
        let Some(holder) = &self.holder else { return };
        let open = self.open.get_or_insert_with(|| Open {
            start_ns: holder.start_ns,
            utids: vec![holder.utid],
            slices: Vec::new(),
            hand_offs: 0,
            skipped: 0,
            yield_possible: false,
        });
        open.hand_offs += 1;
        open.slices.push(holder.ran_ns);
        open.skipped += holder.skipped + self.skipped_slices;
        open.yield_possible |= may_be_yield;
        if !open.utids.contains(&slice.utid) {
            open.utids.push(slice.utid);
        }
        self.begin(slice);
    }

    /// `Some` if the holder's slice ended by quantum end; the value states whether it may have been
    /// a yield.
    ///
    /// On Linux a slice interrupted by skipped slices counts as one, and its length decides. A
    /// slice that ended in a preemption counts as used up only if `sched_yield` was not recorded,
    /// because then length is the only evidence of a quantum end. A tick says nothing about the
    /// Windows quantum.
    fn leaves_by_quantum_end(&self, holder: &Holder, rules: ChainRules) -> Option<bool> {
        let slice_used = i128::from(holder.ran_ns) * 10 >= i128::from(rules.tick_ns) * 9;
        match holder.ended {
            QUANTUM_END => Some(false),
            QUANTUM_END_OR_YIELD => Some(true),
            PREEMPTED
                if rules.by_tick
                    && !rules.yields_recorded
                    && self.skipped_slices > 0
                    && slice_used =>
            {
                Some(false)
            }
            RUNNABLE_OTHER if rules.by_tick && holder.pieces > 1 && slice_used => {
                Some(!rules.yields_recorded)
            }
            _ => None,
        }
    }

    fn close(&mut self, cpu: i32, found: &mut Vec<Chain>) {
        let (Some(mut open), Some(holder)) = (self.open.take(), &self.holder) else { return };
        if open.hand_offs < HAND_OFFS {
            return;
        }
        found.push(Chain {
            cpu,
            start_ns: open.start_ns,
            end_ns: holder.end_ns,
            hand_offs: open.hand_offs,
            slice_ns: median(&mut open.slices),
            utids: open.utids,
            skipped: open.skipped + holder.skipped,
            yield_possible: open.yield_possible,
        });
    }
}

/// The median; for an even count, the mean of the middle two, rounded down.
fn median(values: &mut [i64]) -> i64 {
    values.sort_unstable();
    let upper = values[values.len() / 2];
    let lower = values[(values.len() - 1) / 2];
    lower + (upper - lower) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;
    const RULES: ChainRules = ChainRules { tick_ns: 4 * MS, by_tick: true, yields_recorded: false };

    /// Consecutive slices (thread, length, end reason, ready since) on CPU 3 from 0.
    fn chains(rules: ChainRules, slices: &[(i64, i64, i8, Option<i64>)]) -> Vec<Chain> {
        let mut chains = Chains::new(rules);
        let mut ts = 0;
        for (utid, dur, ended, ready_from_ns) in slices.iter().copied() {
            chains.push(&SliceRow { ts, dur, cpu: 3, utid, ready_from_ns, ended });
            ts += dur;
        }
        chains.finish()
    }

    // CPU 3: A 0..4, B 4..8, A 8..12, B 12..16, then B blocks: three hand-offs.
    #[test]
    fn three_hand_offs_of_a_pair_are_a_chain() {
        let slices = [
            (1, 4 * MS, QUANTUM_END_OR_YIELD, None),
            (2, 4 * MS, QUANTUM_END, Some(-5)),
            (1, 3 * MS, QUANTUM_END, Some(4 * MS)),
            (2, 2 * MS, 0, Some(8 * MS)),
        ];
        let expected = Chain {
            cpu: 3,
            start_ns: 0,
            end_ns: 13 * MS,
            hand_offs: 3,
            utids: vec![1, 2],
            slice_ns: 4 * MS,
            skipped: 0,
            yield_possible: true,
        };
        assert_eq!(chains(RULES, &slices), [expected]);
        assert_eq!(chains(RULES, &slices[..3]), []);
    }

    // At the third hand-off the next thread became ready 1 ns after the switch-in of the previous
    // one.
    #[test]
    fn thread_ready_after_the_switch_in_of_the_previous_one_is_no_hand_off() {
        let mut slices = [
            (1, 4 * MS, QUANTUM_END, None),
            (2, 4 * MS, QUANTUM_END, Some(0)),
            (1, 4 * MS, QUANTUM_END, Some(4 * MS)),
            (2, 4 * MS, 0, Some(8 * MS + 1)),
        ];
        assert_eq!(chains(RULES, &slices), []);
        slices[3].3 = None;
        assert_eq!(chains(RULES, &slices), []);
        slices[3].3 = Some(8 * MS);
        assert_eq!(chains(RULES, &slices).len(), 1);
    }

    // A 0..2, X 20 us, A ..4 | B | A, X 20 us, then B at once | A
    #[test]
    fn a_short_preemption_is_skipped_and_counted() {
        let us = 1000;
        let slices = [
            (1, 2 * MS, PREEMPTED, None),
            (9, 20 * us, 0, None),
            (1, 2 * MS, RUNNABLE_OTHER, None),
            (2, 4 * MS, QUANTUM_END, Some(0)),
            (1, 4 * MS, PREEMPTED, Some(4 * MS + 20 * us)),
            (9, 20 * us, 0, None),
            (2, 4 * MS, QUANTUM_END, Some(8 * MS + 20 * us)),
            (1, MS, 0, Some(8 * MS)),
        ];
        let found = chains(RULES, &slices);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].hand_offs, found[0].skipped, found[0].slice_ns), (4, 2, 4 * MS));
        assert_eq!(found[0].end_ns, 17 * MS + 40 * us);
        assert!(found[0].yield_possible);
        // With sched_yield recorded, the length of the third slice no longer proves a quantum end.
        let recorded = ChainRules { yields_recorded: true, ..RULES };
        assert_eq!(chains(recorded, &slices), []);
        let mut slices = slices.to_vec();
        slices[4].2 = QUANTUM_END;
        slices.remove(5);
        assert!(!chains(recorded, &slices)[0].yield_possible);
    }

    // X preempts A, Y preempts X, X resumes: two slices are skipped, and X's rest counts with X.
    #[test]
    fn preemptor_of_a_skipped_slice_is_skipped_too() {
        let us = 1000;
        let slices = [
            (1, 4 * MS, QUANTUM_END, None),
            (2, 4 * MS, PREEMPTED, Some(0)),
            (8, 20 * us, PREEMPTED, None),
            (9, 20 * us, 0, None),
            (8, 20 * us, 0, None),
            (1, 4 * MS, QUANTUM_END, Some(4 * MS)),
            (2, 4 * MS, 0, Some(8 * MS)),
        ];
        let found = chains(RULES, &slices);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].hand_offs, found[0].skipped), (3, 2));
        assert_eq!(found[0].utids, [1, 2]);
    }

    // A slice of 1 ms that began with a preemption is not short, so it ends the chain.
    #[test]
    fn a_preemption_of_a_millisecond_is_not_skipped() {
        let mut slices = vec![
            (1, 4 * MS, QUANTUM_END, None),
            (2, 4 * MS, QUANTUM_END, Some(0)),
            (1, 4 * MS, PREEMPTED, Some(4 * MS)),
            (9, MS - 1, 0, None),
            (2, 4 * MS, 0, Some(8 * MS)),
        ];
        assert_eq!(chains(RULES, &slices).len(), 1);
        slices[3].1 = MS;
        assert_eq!(chains(RULES, &slices), []);
        // A quantum that was not used up before the preemption is not a hand-off either.
        slices[3].1 = MS - 1;
        slices[2].1 = 36 * MS / 10 - 1;
        assert_eq!(chains(RULES, &slices), []);
        slices[2].1 = 36 * MS / 10;
        assert_eq!(chains(RULES, &slices).len(), 1);
    }

    // Threads 1..=12 hand over in turn: 1..8 are one chain, then 8 -> 9 begins the next.
    #[test]
    fn ninth_thread_starts_a_new_chain() {
        let slices: Vec<_> =
            (1..=12).map(|utid| (utid, 4 * MS, QUANTUM_END, Some(-100 * MS))).collect();
        let found = chains(RULES, &slices);
        let shape: Vec<_> =
            found.iter().map(|c| (c.start_ns / MS, c.end_ns / MS, c.hand_offs)).collect();
        assert_eq!(shape, [(0, 32, 7), (28, 48, 4)]);
        assert_eq!(found[1].utids, [8, 9, 10, 11, 12]);
    }

    // Windows: A uses up its quantum of 4 ms, X preempts it for 20 us, then B is switched in. The
    // tick of another system says nothing about the quantum: A left because of the preemption.
    #[test]
    fn windows_slice_ended_by_preemption_is_no_hand_off() {
        let windows = ChainRules { by_tick: false, ..RULES };
        let mut slices = [
            (1, 4 * MS, QUANTUM_END, None),
            (2, 4 * MS, QUANTUM_END, Some(0)),
            (1, 4 * MS, PREEMPTED, Some(4 * MS)),
            (9, 20_000, 0, None),
            (2, 4 * MS, 0, Some(8 * MS)),
        ];
        assert_eq!(chains(RULES, &slices).len(), 1);
        assert_eq!(chains(windows, &slices), []);
        // A resumes after X and leaves by quantum end: that is one slice and a hand-off.
        slices[3] = (1, MS, QUANTUM_END, None);
        assert_eq!(chains(windows, &slices).len(), 1);
    }

    // Z is switched in and out at one time between A and B, and between B and A.
    #[test]
    fn zero_length_slice_changes_no_chain() {
        let plain = [
            (1, 4 * MS, QUANTUM_END, None),
            (2, 4 * MS, QUANTUM_END, Some(0)),
            (1, 4 * MS, QUANTUM_END, Some(4 * MS)),
            (2, 4 * MS, 0, Some(8 * MS)),
        ];
        let mut slices = plain.to_vec();
        slices.insert(1, (7, 0, 0, Some(0)));
        slices.insert(3, (7, 0, QUANTUM_END, Some(0)));
        assert_eq!(chains(RULES, &slices), chains(RULES, &plain));
        assert_eq!(chains(RULES, &plain).len(), 1);
        // Z preempts A, which has used up its quantum, and B is switched in: one skipped slice.
        let mut preempted = plain.to_vec();
        preempted[2].2 = PREEMPTED;
        preempted.insert(3, (7, 0, 0, None));
        assert_eq!(chains(RULES, &preempted)[0].skipped, 1);
    }

    // The CPU is idle for 1 ns between the second and the third slice.
    #[test]
    fn a_gap_ends_a_chain() {
        let mut chains = Chains::new(RULES);
        for (ts, utid) in [(0, 1), (4 * MS, 2), (8 * MS + 1, 1), (12 * MS + 1, 2)] {
            let ready_from_ns = Some(-1);
            let ended = QUANTUM_END;
            chains.push(&SliceRow { ts, dur: 4 * MS, cpu: 0, utid, ready_from_ns, ended });
        }
        assert_eq!(chains.finish(), []);
    }
}
